"""Commands that `regroup serve --brokers N` reads from standard input.

stop 1        the partitions and groups of broker 1 move to the next broker
start 1       broker 1 takes them back
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from regroup.cli.terminal.output import print_error
from regroup.server.broker_cluster import BrokerCluster
from regroup.storage.errors import StoreError

STDIN_FD: Final = 0
MAX_READ_BYTES: Final = 4096

BrokerAction: TypeAlias = Callable[[int], Awaitable[None]]


class BrokerPrompt:
    """Reads commands while the brokers run. The end of input ends the prompt and nothing else."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._actions: dict[str, tuple[BrokerAction, str]] = {
            "stop": (cluster.stop_broker, "stopped"),
            "start": (cluster.start_broker, "started"),
        }
        self._partial_line = b""
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start to read standard input, if it is a terminal or a pipe."""
        # A shell would stop a process in its background that reads the terminal.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        try:
            asyncio.get_running_loop().add_reader(STDIN_FD, self._read)
        except OSError:
            return  # a file or /dev/null, which cannot be waited for
        self._task = asyncio.create_task(self._run(), name="prompt")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(STDIN_FD)
        if self._task:
            self._task.cancel()

    def _read(self) -> None:
        try:
            read = os.read(STDIN_FD, MAX_READ_BYTES)
        except OSError:
            read = b""
        if not read:
            asyncio.get_running_loop().remove_reader(STDIN_FD)
        *lines, self._partial_line = (self._partial_line[-MAX_READ_BYTES:] + read).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode(errors="replace").strip())

    async def _run(self) -> None:
        while True:
            if line := await self._lines.get():
                await self._run_line(line)

    async def _run_line(self, line: str) -> None:
        word, _, number = line.partition(" ")
        last = len(self._cluster.brokers) - 1
        if word not in self._actions or not number.strip().isdecimal() or int(number) > last:
            print_error("serve", f"unknown command: {line!r}; type stop N or start N, N from 0 to {last}.")
            return
        act, done = self._actions[word]
        try:
            await act(int(number))
        except (OSError, StoreError) as error:
            print_error("serve", f"broker {int(number)} could not be {done}: {error}")
        else:
            print(f"broker {int(number)} {done}", flush=True)
