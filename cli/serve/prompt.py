"""Commands that `regroup serve` reads from standard input, if that is a terminal or there are several brokers.

stop 1                                the partitions and groups of broker 1 move to the next broker
start 1                               broker 1 takes them back
fault on=OffsetCommit drop=answer     a rule for requests, with the fields of docs/testing.md
faults                                the rules in force, with their numbers and hits
release 1, remove 1                   go on with what rule 1 holds; end rule 1
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from regroup.cli.jobs import CannotRun
from regroup.cli.serve.brokers import ServedBrokers
from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.output import print_error
from regroup.cli.terminal.text import printable
from regroup.storage.errors import StoreError

STDIN_FD: Final = 0
FAULT_WORDS: Final = ("fault", "faults", "release", "remove")
"""The same words as in `regroup.server.faults.text`, which is loaded only when one of them is typed."""
MAX_READ_BYTES: Final = 4096

BrokerAction: TypeAlias = Callable[[int], Awaitable[None]]


class ServePrompt:
    """Reads and executes commands while the brokers run. At the end of the input the brokers go on."""

    def __init__(self, brokers: ServedBrokers, count: int) -> None:
        self._brokers = brokers
        self._last = count - 1
        self._actions: dict[str, tuple[BrokerAction, str]] = {
            "stop": (brokers.stop_broker, "stopped"),
            "start": (brokers.start_broker, "started"),
        }
        self._partial_line = b""
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    @property
    def hint(self) -> str:
        """The commands, as one line of text."""
        numbers = f"N from 0 to {self._last}" if self._last else "N is 0"
        return f"type stop N or start N ({numbers}), fault FIELD=VALUE …, faults, release RULE, remove RULE, or help"

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
        except OSError:  # such as a terminal that was closed, maybe within a line
            asyncio.get_running_loop().remove_reader(STDIN_FD)
            return
        if not read:
            asyncio.get_running_loop().remove_reader(STDIN_FD)
            read = b"\n"  # the end of the input ends its last line
        *lines, self._partial_line = (self._partial_line[-MAX_READ_BYTES:] + read).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode(errors="replace").strip())

    async def _run(self) -> None:
        while True:
            if line := await self._lines.get():
                await self._run_line(line)

    async def _run_line(self, line: str) -> None:
        word, _, number = line.partition(" ")
        if word in FAULT_WORDS:
            self._run_fault_line(line)
        elif word in self._actions and number.strip().isdecimal() and int(number) <= self._last:
            await self._run_action(word, int(number))
        elif word == "help":
            print(__doc__.partition("\n\n")[2].rstrip(), flush=True)
        else:
            print_error("serve", f"unknown command: {line!r}; {self.hint}.")

    async def _run_action(self, word: str, broker: int) -> None:
        act, done = self._actions[word]
        try:
            await act(broker)
        except (OSError, StoreError, RuntimeError) as error:  # RuntimeError: the brokers were killed
            print_error("serve", f"broker {broker} could not be {done}: {error}")
        else:
            print(f"broker {broker} {done}", flush=True)

    def _run_fault_line(self, line: str) -> None:
        try:
            lines = load("regroup.cli.serve.faults:run_fault_line")(self._brokers.faults, line)
        except CannotRun as error:
            print_error("serve", f"{error}.")
        else:
            for each in lines:
                print(printable(each), flush=True)
