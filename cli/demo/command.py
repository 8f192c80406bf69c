"""The job of `regroup demo`: starts a coordinator and its clients as processes, kills two of them, and shows what
happens.
"""

import asyncio
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from rich.text import Text

from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.consoles import PlainConsole
from regroup.cli.terminal.output import print_error, program_name
from regroup.cli.terminal.text import join_names
from regroup.coordinator.events import AssignmentCommitted, CoordinatorLoaded, Event, MemberRemoved, OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import decode_event
from regroup.protocol.consumer.subscription import decode_assignment
from regroup.storage.errors import NotAStore, StoreFailed
from regroup.storage.sqlite.files import sibling_file, store_exists
from regroup.storage.sqlite.opening import resolve_store_path
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.sqlite.writer_lock import WriterLock
from regroup.storage.store import follow

GROUP, TOPIC, PARTITIONS = "shop", "orders", 7
CLIENT_STYLES: Final = {"anna": "black on cyan", "ben": "black on yellow", "carla": "black on magenta"}
SESSION_TIMEOUT_MS: Final = 3_000
CLIENT: Final = "regroup.cli.demo.client"
STEP_TIMEOUT_S: Final = 20.0
POLL_INTERVAL_S: Final = 0.05
SETTINGS: Final = ("--set", "group.initial.rebalance.delay.ms=300", "--set", "group.min.session.timeout.ms=1000")
SERVE_ARGUMENTS = ("serve", "--topic", f"{TOPIC}:{PARTITIONS}", "--log-level", "error", "--record", *SETTINGS)


def run(args: Namespace) -> int:
    try:
        asyncio.run(Demo(args.directory / "groups.db", PlainConsole()).run())
    except TimeoutError as error:
        print_error("demo", f"timed out after {STEP_TIMEOUT_S:.0f} s waiting for {error}")
        return 1
    return 0


class GroupFollower:
    """Reads the events of the demo's group from the store while the coordinator writes them, and folds them."""

    def __init__(self, store: Path) -> None:
        self.group = Group(group_id=GROUP)
        self._store = store
        self._position = 0

    async def wait_for(self, what: str, is_wanted: Callable[[Event], bool]) -> Event:
        """The next event for which `is_wanted` returns True. Raises TimeoutError with the text `what`."""
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                return await self._next(is_wanted)
        except TimeoutError:
            raise TimeoutError(what) from None

    async def wait_until_stable(self, members: int) -> None:
        await self.wait_for(
            f"a stable group with {members} members",
            lambda event: isinstance(event, AssignmentCommitted) and len(self.group.members) == members,
        )

    async def _next(self, is_wanted: Callable[[Event], bool]) -> Event:
        async with await open_store(self._store, read_only=True) as store:
            async for record in follow(store, after=self._position, pause=partial(asyncio.sleep, POLL_INTERVAL_S)):
                self._position = record.position
                if record.group == GROUP:
                    event = decode_event(record)
                    self.group = evolve(self.group, event)
                    if is_wanted(event):
                        return event
        raise AssertionError("`follow` does not end")

    def client_ids(self) -> list[str]:
        return sorted(member.profile.client_id for member in self.group.members.values())

    def is_commit_of(self, client_id: str, event: Event) -> bool:
        member = self.group.members.get(event.member_id) if isinstance(event, OffsetsCommitted) else None
        return member is not None and member.profile.client_id == client_id

    def owners(self) -> dict[int, str]:
        """The client id of the owner of each partition of the topic."""
        return {
            each.partition: member.profile.client_id
            for member in self.group.members.values()
            if member.assignment
            for each in decode_assignment(member.assignment).partitions
        }


class Demo:
    """Starts the demo's processes and kills two of them; before each step it waits for the events of the last one."""

    def __init__(self, store: Path, console: PlainConsole) -> None:
        self._store = store
        self._console = console
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._address = "127.0.0.1:0"
        self._follower = GroupFollower(store)

    async def run(self) -> None:
        try:
            await prepare_store_path(self._store, GROUP)
            await self._start_coordinator()
            self._print(
                f"The coordinator listens on {self._address}. Topic {TOPIC} has {PARTITIONS} partitions.", "bold"
            )
            await self._start("producer", CLIENT, "produce", self._address, TOPIC)
            for client_id in CLIENT_STYLES:
                await self._start_consumer(client_id)
            await self._kill_consumer("ben")
            await self._restart_coordinator()
            self._print(f"The history is in {self._store}. To look at it:", "bold")
            for command in ("events", "replay", "verify"):
                self._print(f"    {program_name()} {command} {shlex.quote(str(self._store))}", "cyan")
        finally:
            await self._end_processes()

    async def _start_consumer(self, client_id: str) -> None:
        options = (self._address, TOPIC, GROUP, client_id, str(SESSION_TIMEOUT_MS))
        await self._start(client_id, CLIENT, "consume", *options)
        consumers = len(self._processes) - 2
        await self._follower.wait_until_stable(consumers)
        leads = " and is the leader: its assignor assigns the partitions" if consumers == 1 else ""
        self._print(f"{client_id} has joined{leads}. Generation {self._follower.group.generation_id}.", "green")
        self._print_owners()

    async def _kill_consumer(self, client_id: str) -> None:
        self._print(f"{client_id} is killed (SIGKILL), and cannot leave the group.", "bold red")
        await self._kill(client_id)
        event = await self._follower.wait_for(
            f"the removal of {client_id}", lambda event: isinstance(event, MemberRemoved)
        )
        assert isinstance(event, MemberRemoved)
        since_last_seen_s = (event.at_ms - (event.last_seen_ms or event.at_ms)) / 1000
        self._print(
            f"{since_last_seen_s:.1f} s after its last request the coordinator removes it: its session timeout is "
            f"{SESSION_TIMEOUT_MS / 1000:g} s.",
            "red",
        )
        await self._follower.wait_until_stable(len(CLIENT_STYLES) - 1)
        self._print(f"The others have rebalanced. Generation {self._follower.group.generation_id}.", "green")
        self._print_owners()

    async def _restart_coordinator(self) -> None:
        before = self._follower.group
        self._print("The coordinator is killed (SIGKILL), and started again with its history.", "bold red")
        await self._kill("coordinator")
        await self._start_coordinator()
        await self._follower.wait_for("the coordinator's load", lambda event: isinstance(event, CoordinatorLoaded))
        after, client_ids = self._follower.group, self._follower.client_ids()
        is_same = (before.generation_id, before.members.keys()) == (after.generation_id, after.members.keys())
        self._print(
            f"Generation {after.generation_id} with {' and '.join(client_ids)}: "
            + ("the group is the same as before." if is_same else "the group has changed!"),
            "green" if is_same else "bold red",
        )
        for client_id in client_ids:
            await self._follower.wait_for(f"a commit of {client_id}", partial(self._follower.is_commit_of, client_id))
        self._print(f"{' and '.join(client_ids)} go on reading and committing, without a rebalance.", "green")
        self._print_owners()

    def _print(self, text: str, style: str) -> None:
        self._console.print(text, style=style)

    def _print_owners(self) -> None:
        """Print every partition with its owner."""
        line, owners = Text(f"    {TOPIC}  "), self._follower.owners()
        for partition in range(PARTITIONS):
            owner = owners.get(partition, "–")
            line.append(f" {partition} {owner} ", style=CLIENT_STYLES.get(owner, "reverse"))
            line.append(" ")
        self._console.print(line)

    async def _start_coordinator(self) -> None:
        """Start the coordinator: on a free port the first time, and on the same port later."""
        where = ("--store", str(self._store), "--port", self._address.rpartition(":")[2])
        process = await self._start("coordinator", "regroup.cli", *SERVE_ARGUMENTS, *where)
        self._address = (await _first_line(process)).split()[-1]

    async def _start(self, name: str, module: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a Python module as a process. Its standard error, with reports of lost connections, is not shown."""
        stderr = asyncio.subprocess.DEVNULL if module == CLIENT else None
        self._processes[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, stdout=asyncio.subprocess.PIPE, stderr=stderr
        )
        return self._processes[name]

    async def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        await process.wait()

    async def _end_processes(self) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):  # it has ended already
                process.terminate()
        for process in self._processes.values():
            await process.wait()


async def _first_line(process: asyncio.subprocess.Process) -> str:
    """The first line that a process prints. The coordinator prints it once it listens.

    Raises CannotRun if the process ends before, and TimeoutError.
    """
    assert process.stdout is not None
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        raise TimeoutError("the coordinator to listen") from None
    if not line:
        raise CannotRun(f"the coordinator ended with exit code {await process.wait()}; its message is above")
    return line


async def prepare_store_path(store: Path, group_id: str) -> None:
    """Make the folder, and remove the store of an earlier demo, whose only group is `group_id`.

    Raises NotAStore for a file of another program or another group, StoreLocked if that demo still runs, and
    StoreFailed if the folder cannot be made.
    """
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"The folder {store.parent} cannot be made: {error.strerror}. Name another one with --directory."
        ) from error
    try:
        if not store_exists(store):
            return
    except NotAStore as error:
        raise NotAStore(
            f"{store} was not written by regroup, and was left as it is. Name another folder with --directory."
        ) from error
    async with await open_store(store, read_only=True) as opened:
        others = {group for group in await opened.heads() if group not in (None, group_id)}
    if others:
        raise NotAStore(
            f"{store} holds other groups than that of the demo ({join_names(map(str, others))}), and was left as it "
            "is. Name another folder with --directory."
        )
    _remove(resolve_store_path(store))


def _remove(store: Path) -> None:
    """Remove the files of the store except the lock file.

    If that were removed too, two processes could hold locks on two files with its name.
    """
    lock = WriterLock(store)
    try:
        for suffix in ("", "-wal", "-shm"):
            sibling_file(store, suffix).unlink(missing_ok=True)
    finally:
        lock.release()
