"""Watch a consumer group live through a crash, and its coordinator through a worse one, in half a minute.

  regroup demo

Real Kafka clients (librdkafka) share a topic of seven partitions. One is killed without a goodbye; then the
coordinator itself is killed, and comes back from the history that it wrote to SQLite.
"""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from rich.text import Text

from regroup.cli.demo.folder import make_room
from regroup.cli.demo.names import COLOURS, GROUP, MEMBERS, SESSION_TIMEOUT_MS, TOPIC
from regroup.cli.terminal.consoles import Plain
from regroup.cli.terminal.output import complain, own_name
from regroup.coordinator.events import AssignmentCommitted, CoordinatorLoaded, Event, MemberExpelled, OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import read
from regroup.protocol.consumer.subscription import decode_assignment
from regroup.storage.follow import follow
from regroup.storage.sqlite.threaded import open_store

PATIENCE_S = 20.0
LOOK_AGAIN_S = 0.05
PARTITIONS = 7
SERVE = ("serve", "--topic", f"{TOPIC}:{PARTITIONS}", "--log-level", "error")
SETTINGS = ("group.initial.rebalance.delay.ms=300", "group.min.session.timeout.ms=1000")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        default=Path("demo"),
        help="where the history goes; that of an earlier demonstration is replaced (default: demo)",
    )


def run(args: argparse.Namespace) -> int:
    if find_spec("confluent_kafka") is None:
        complain("demo", "a real Kafka client is needed: pip install confluent-kafka")
        return 2
    try:
        return asyncio.run(Demonstration(args.directory, Plain()).play())
    except DidNotStart as error:
        complain("demo", str(error))
        return 2
    except TimeoutError as error:
        complain("demo", f"waited {PATIENCE_S:.0f} s in vain until {error}")
        return 1


class DidNotStart(Exception):
    """The coordinator ended before it listened."""


class Watch:
    """Follows the group through its history, as anybody could from outside."""

    def __init__(self, store: Path) -> None:
        self.group = Group(name=GROUP)
        self._store = store
        self._position = 0

    async def until(self, what: str, happened: Callable[[Event], bool]) -> Event:
        """The next event with which this is so; TimeoutError after too long."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._until(happened)
        except TimeoutError:
            raise TimeoutError(what) from None

    async def until_stable(self, members: int) -> None:
        def stable(event: Event) -> bool:
            return isinstance(event, AssignmentCommitted) and len(self.group.members) == members

        await self.until(f"the group is stable with {members} members", stable)

    async def _until(self, happened: Callable[[Event], bool]) -> Event:
        async with await open_store(self._store, read_only=True) as store:
            async for record in follow(store, after=self._position, pause=partial(asyncio.sleep, LOOK_AGAIN_S)):
                self._position = record.position
                if record.group == GROUP:
                    event = read(record)
                    self.group = evolve(self.group, event)
                    if happened(event):
                        return event
        raise AssertionError("following never ends")


class Demonstration:
    """The play: its actors are processes, and each scene waits for what it tells of."""

    def __init__(self, directory: Path, console: Plain) -> None:
        self._store = directory / "groups.db"
        self._console = console
        self._actors: dict[str, asyncio.subprocess.Process] = {}
        self._address = "127.0.0.1:0"

    async def play(self) -> int:
        async with AsyncExitStack() as stage:
            stage.push_async_callback(self._everybody_leaves)
            await self._raise_the_curtain()
            for number, name in enumerate(MEMBERS, start=1):
                await self._joins(name, number)
            await self._is_killed(MEMBERS[1])
            await self._the_coordinator_is_killed()
        self._say_goodbye()
        return 0

    async def _raise_the_curtain(self) -> None:
        await make_room(self._store)
        await self._start_coordinator()
        self._tell(f"A coordinator listens on {self._address}. Topic {TOPIC} has {PARTITIONS} partitions.", "bold")
        await self._enter("producer", "produce", self._address)
        self._watch = Watch(self._store)

    async def _joins(self, name: str, members: int) -> None:
        await self._enter(name, "consume", self._address, name)
        await self._watch.until_stable(members)
        group = self._watch.group
        leads = " and leads: its assignor deals out the partitions" if members == 1 else ""
        self._tell(f"{name} joins{leads}. Generation {group.generation}.", "green")
        self._draw()

    async def _is_killed(self, name: str) -> None:
        self._tell(f"{name} is killed (SIGKILL): no goodbye, just silence.", "bold red")
        await self._kill(name)
        event = await self._watch.until(f"{name} is expelled", lambda event: isinstance(event, MemberExpelled))
        assert isinstance(event, MemberExpelled)
        silent_s = (event.at_ms - (event.last_heard_ms or event.at_ms)) / 1000
        self._tell(
            f"{silent_s:.1f} s later its session of {SESSION_TIMEOUT_MS / 1000:g} s is over, and the others rebalance.",
            "red",
        )
        await self._watch.until_stable(len(MEMBERS) - 1)
        self._tell(f"Generation {self._watch.group.generation}.", "green")
        self._draw()

    async def _the_coordinator_is_killed(self) -> None:
        before = self._watch.group
        self._tell("Now the coordinator itself is killed (SIGKILL), and started again on its history.", "bold red")
        await self._kill("coordinator")
        await self._start_coordinator()
        await self._watch.until("the coordinator has loaded", lambda event: isinstance(event, CoordinatorLoaded))
        after = self._watch.group
        same = (before.generation, before.members.keys()) == (after.generation, after.members.keys())
        self._tell(
            f"Generation {after.generation}, {', '.join(sorted(names(after)))}: "
            + ("the group is intact." if same else "the group has changed!"),
            "green" if same else "bold red",
        )
        for name in sorted(names(after)):
            await self._watch.until(f"{name} commits", partial(is_commit_of, after, name))
        self._tell("Both go on reading and committing, and never noticed a rebalance.", "green")
        self._draw()

    def _say_goodbye(self) -> None:
        self._tell(f"All of it is in {self._store}. What to type next:", "bold")
        for words in ("events", "replay", "verify"):
            self._console.print(f"    {own_name()} {words} {shlex.quote(str(self._store))}", style="cyan")

    def _tell(self, text: str, style: str) -> None:
        self._console.print(text, style=style)

    def _draw(self) -> None:
        """Every partition in its owner's colour."""
        line = Text(f"    {TOPIC}  ")
        owners = owners_of(self._watch.group)
        for partition in range(PARTITIONS):
            owner = owners.get(partition, "nobody")
            line.append(f" {partition} {owner} ", style=COLOURS.get(owner, "reverse"))
            line.append(" ")
        self._console.print(line)

    async def _start_coordinator(self) -> None:
        """On a free port the first time, on the same one again later."""
        arguments = [*SERVE, "--store", str(self._store), "--port", self._address.rpartition(":")[2]]
        for setting in SETTINGS:
            arguments += ["--set", setting]
        process = await self._enter_module("coordinator", "regroup.cli", *arguments, stdout=asyncio.subprocess.PIPE)
        self._address = (await first_line(process)).split()[-1]

    async def _enter(self, name: str, *arguments: str) -> None:
        await self._enter_module(name, "regroup.cli.demo.client", *arguments, stderr=asyncio.subprocess.DEVNULL)

    async def _enter_module(
        self, name: str, module: str, *arguments: str, stdout: int | None = None, stderr: int | None = None
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, stdout=stdout, stderr=stderr
        )
        self._actors[name] = process
        return process

    async def _kill(self, name: str) -> None:
        process = self._actors.pop(name)
        process.kill()
        await process.wait()

    async def _everybody_leaves(self) -> None:
        for process in self._actors.values():
            with suppress(ProcessLookupError):  # it has ended by itself
                process.terminate()
        for process in self._actors.values():
            await process.wait()


async def first_line(process: asyncio.subprocess.Process) -> str:
    """What the coordinator says once it listens. DidNotStart if it ends instead, TimeoutError if it says nothing."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        raise TimeoutError("the coordinator listens") from None
    if not line:
        raise DidNotStart(f"the coordinator did not start, but ended with {await process.wait()}; it said why above")
    return line


def names(group: Group) -> set[str]:
    return {member.client_id for member in group.members.values()}


def owners_of(group: Group) -> dict[int, str]:
    """The client that owns each partition of the topic."""
    return {
        each.partition: member.client_id
        for member in group.members.values()
        if member.assignment
        for each in decode_assignment(member.assignment).partitions
    }


def is_commit_of(group: Group, name: str, event: Event) -> bool:
    if not isinstance(event, OffsetsCommitted) or event.member not in group.members:
        return False
    return group.members[event.member].client_id == name
