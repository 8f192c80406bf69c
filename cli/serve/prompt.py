"""Stop and start single brokers of a running emulator, from where `regroup serve` was started.

stop 1        the next broker leads its partitions and loads its groups
start 1       it takes them back
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from regroup.cli.terminal.output import complain
from regroup.server.broker_cluster import Emulator
from regroup.storage.errors import StoreError

STANDARD_INPUT = 0
MOST_AT_ONCE = 4096

Change: TypeAlias = Callable[[int], Awaitable[None]]


class BrokerPrompt:
    """Reads lines from standard input while the emulator runs; the end of input ends it and nothing else."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._changes: dict[str, tuple[Change, str]] = {
            "stop": (emulator.stop_broker, "stopped"),
            "start": (emulator.start_broker, "started"),
        }
        self._rest = b""
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to listen to what is typed, if there is anything to listen to."""
        # A shell that runs this in the background must not freeze it for looking at the keyboard.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        try:
            asyncio.get_running_loop().add_reader(STANDARD_INPUT, self._read)
        except OSError:
            return  # a file or /dev/null, which nobody types into
        self._working = asyncio.create_task(self._work(), name="prompt")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
        if self._working:
            self._working.cancel()

    def _read(self) -> None:
        try:
            typed = os.read(STANDARD_INPUT, MOST_AT_ONCE)
        except OSError:
            typed = b""
        if not typed:
            asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
        *lines, self._rest = (self._rest[-MOST_AT_ONCE:] + typed).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode(errors="replace").strip())

    async def _work(self) -> None:
        while True:
            line = await self._lines.get()
            if line:
                await self._obey(line)

    async def _obey(self, line: str) -> None:
        word, _, number = line.partition(" ")
        last = len(self._emulator.brokers) - 1
        if word not in self._changes or not number.strip().isdecimal() or int(number) > last:
            complain("serve", f"{line!r} means nothing here; type stop N or start N, N from 0 to {last}.")
            return
        change, done = self._changes[word]
        try:
            await change(int(number))
        except (OSError, StoreError) as error:
            complain("serve", f"broker {int(number)} could not be {done}: {error}")
        else:
            print(f"broker {int(number)} {done}", flush=True)
