"""The asyncio coordinator: it drives the pure machine, keeps the journal, and knows who waits for an answer.

    command → decide → events folded and queued for the disk, in one step → answer, once the disk has them

It adds nothing of its own to what happens to a group: time comes from a clock that is handed in, deadlines are read
off the state, and silence is a command like any other.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.classic.deadlines import Deadline, next_deadline
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, MemberId
from regroup.coordinator.runtime.awaitable import Awaitable, Because
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.runtime.pending_responses import Answering, Request, WaitingRoom
from regroup.coordinator.runtime.timers import Timers
from regroup.coordinator.serialization import NAME_OF, Cause, snapshot, written, written_cause
from regroup.coordinator.settings import Settings
from regroup.coordinator.unavailable import unavailable
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.storage.records import Snapshot

__all__ = ["Answering", "Because", "GroupCoordinator"]

TOLD = frozenset(
    {"rebalance-started", "generation-started", "group-emptied", "member-expelled", "member-left", "coordinator-loaded"}
)
"""Events that an operator would want to see go by."""

LOAD: Final = written_cause(Cause(occasion="the load of the group"))
LOG: Final = written_cause(Cause(occasion="Kafka's log"))


class GroupCoordinator(Awaitable):
    """Coordinates every group of one broker.

    `submit` is the whole of it; `Awaitable` is a thin face over it. `now` gives epoch milliseconds.
    `kafka_log` makes Kafka's own log slow or faulty; without it the log commits at once.
    `owns` picks the groups by name, where the journal holds groups of other coordinators too.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        settings: Settings,
        now: Callable[[], int],
        kafka_log: KafkaLog | None = None,
        owns: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.settings = settings
        self._journal = journal
        self._now = now
        self._owns = owns
        self._groups: dict[str, Group] = {}
        self._heard: dict[str, dict[MemberId, int]] = {}
        self._positions: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._kafka_log = kafka_log
        self._waiting = WaitingRoom()
        self._refusal: ErrorCode | None = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._reign = 0
        self._timers = Timers(self._next_deadline, self._silence, now)
        self._cleaning: asyncio.TimerHandle | None = None
        self._log = structlog.get_logger("coordinator")
        journal.on_failure(self._crash)

    # The life of the coordinator itself

    async def start(self) -> None:
        """Load its groups from the journal's store and begin a new reign. Also the way back after a failure."""
        self._refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        loaded = await load_groups(self._journal.store)
        heads = await self._journal.store.heads()
        self._groups = {name: group for name, group in loaded.items() if self._owns(name)}
        self._reign = await self._journal.store.next_reign()
        self._heard.clear()
        self._positions = {name: head.position for name, head in heads.items() if name in self._groups}
        self._changed = dict.fromkeys(self._groups)
        self._refusal = None
        for name in sorted(name for name, group in self._groups.items() if group.exists):
            self.submit(c.TakeOver(group_id=name, at_ms=self._now()), cause=lambda: LOAD)
        await self._journal.durable(self._journal.last_position)
        self._clean_later()

    def stop(self) -> None:
        """Answer whoever still waits with NOT_COORDINATOR, and take nothing more. The journal stays open."""
        self._unload(ErrorCode.NOT_COORDINATOR)

    def _crash(self, error: StoreError) -> None:
        """The disk failed, so the coordinator counts as crashed: what is not durable never happened."""
        if self._refusal is None:
            self._log.error("store-failed", error=str(error))
            self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _unload(self, refusal: ErrorCode) -> None:
        self._refusal = refusal
        self._timers.stop()
        if self._cleaning:
            self._cleaning.cancel()
        for command, answering in self._waiting.empty():
            answering(unavailable(command, ErrorCode.NOT_COORDINATOR))

    # The one way in

    def submit(self, command: c.Command, answering: Answering | None = None, cause: Because | None = None) -> None:
        """Deal with a command now; `answering` is called once, now or later, or never if a resent request takes its
        place. A connection that is lost changes nothing: whoever is gone is answered into the void."""
        if self._refusal is not None:
            if answering:
                answering(unavailable(command, self._refusal))
            return
        name = command.group_id
        if self._kafka_log and self._kafka_log.holds_back(command):
            command = replace(command, log_holds_back=True)
        group = self._groups.get(name) or Group(name=name)
        decision = decide(self.settings, group, command)
        if decision.events and not self._record(name, decision, cause):
            if answering:
                answering(unavailable(command, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        if decision.heard:
            self._heard.setdefault(name, {}).update(dict.fromkeys(decision.heard, command.at_ms))
        if answering:
            request = Request(command, answering)
            if not self._waiting.keeps(decision, request) and decision.answer is not None:
                self._send(name, request, decision.answer)
        if decision.replies or decision.settled:
            for request, message in self._waiting.released_by(decision):
                self._send(name, request, message)
        if decision.group.appends:
            self._hand_to_the_log(name, group, decision.group)

    def repeats(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        """To be asked when an accepted heartbeat comes once more: True if it has been accepted again.

        A group is a value and `decide` is pure: as long as the group is the same, so is the answer.
        """
        name, member = heartbeat.group_id, heartbeat.member_id
        group = self._groups.get(name)

        def again() -> bool:
            if self._groups.get(name) is not group or self._refusal is not None:
                return False
            self._heard[name][member] = self._now()
            return True

        return again

    def favours(self, name: str, member: MemberId) -> None:
        """Where Kafka leaves it to chance who leads next, let it be this member: it counts as the first that came."""
        group = self._groups.get(name)
        if group is not None and member in group.members:
            self._groups[name] = replace(group, members={member: group.members[member]} | group.members)

    def _record(self, name: str, decision: Decision, cause: Because | None) -> bool:
        """Fold and queue the events in one step; False if the disk has just failed."""
        first = decision.group.number - len(decision.events) + 1
        because = cause() if cause else None
        try:
            self._positions[name] = self._journal.append(
                [written(name, first + i, self._reign, event, because) for i, event in enumerate(decision.events)]
            )
        except StoreError as error:
            self._crash(error)
            return False
        self._groups[name] = decision.group
        self._changed[name] = None
        self._forget_the_gone(name, decision.group)
        self._timers.look_again(name)
        self._tell(name, decision.events)
        return True

    def _send(self, name: str, request: Request, message: Structure) -> None:
        """No answer leaves before the last position that its group has now is durable."""
        command, answering = request
        position = self._positions.get(name, 0)
        if position <= self._journal.durable_position:
            answering(message)
            return
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._journal.when_durable(
            position, lambda: answering(message), lambda: answering(unavailable(command, loading))
        )

    def _hand_to_the_log(self, name: str, before: Group, after: Group) -> None:
        """Whatever was written just now and not committed is in the hands of Kafka's log."""
        if self._kafka_log is None:
            return
        for append in after.appends:
            if append not in before.appends:
                self._kafka_log.written(name, partial(self._settle, name, append, self._reign))

    def _settle(self, name: str, append: int, reign: int, code: ErrorCode) -> None:
        """What was written in an earlier reign is forgotten."""
        at_ms = self._now()
        if code is ErrorCode.NONE and reign == self._reign:
            self.submit(c.CommitAppend(group_id=name, at_ms=at_ms, append=append), cause=lambda: LOG)
        elif reign == self._reign:
            self.submit(c.RefuseAppend(group_id=name, at_ms=at_ms, append=append, code=code), cause=lambda: LOG)

    def _forget_the_gone(self, name: str, group: Group) -> None:
        heard = self._heard.get(name)
        if heard and len(heard) > len(group.members):
            self._heard[name] = {member: at_ms for member, at_ms in heard.items() if member in group.members}

    def _tell(self, name: str, events: tuple[Event, ...]) -> None:
        for event in events:
            kind = NAME_OF[type(event)]
            if kind in TOLD:
                shown = {key: getattr(event, key) for key in ("member", "generation", "leader") if hasattr(event, key)}
                if event.reason:
                    shown["reason"] = event.reason
                self._log.info(kind, group=name, **shown)

    # Silence

    def _next_deadline(self, name: str) -> Deadline | None:
        group = self._groups.get(name)
        return next_deadline(group, self._heard.get(name, {})) if group else None

    def _silence(self, name: str, deadline: Deadline) -> None:
        command = c.DeadlinePassed(
            group_id=name,
            at_ms=self._now(),
            kind=deadline.kind,
            member=deadline.member,
            last_heard_ms=deadline.last_heard_ms,
        )
        cause = Cause(deadline=deadline.kind.value, member=deadline.member, since_ms=deadline.last_heard_ms)
        self.submit(command, cause=lambda: written_cause(cause))

    def _clean_later(self) -> None:
        if self._cleaning:
            self._cleaning.cancel()
        interval = self.settings.offsets_retention_check_interval_ms / 1000
        self._cleaning = asyncio.get_running_loop().call_later(interval, self._clean)

    def _clean(self) -> None:
        cause = Cause(deadline="retention")
        for name in [name for name, group in self._groups.items() if group.exists]:
            command = c.ForgetOldOffsets(group_id=name, at_ms=self._now())
            self.submit(command, cause=lambda: written_cause(cause))
        self._clean_later()

    # Looking in from outside

    @property
    def is_ready(self) -> bool:
        """Every group is loaded, and requests are dealt with."""
        return self._refusal is None

    @property
    def refusal(self) -> ErrorCode | None:
        """What every request gets at present, if none can be dealt with."""
        return self._refusal

    def groups(self) -> Iterator[Group]:
        """Every group that exists, in the order in which they came."""
        return (group for group in self._groups.values() if group.exists)

    def group(self, name: str) -> Group:
        """One group as it is now."""
        return self._groups.get(name) or Group(name=name)

    def take_snapshots(self) -> list[Snapshot]:
        """The groups that changed since their snapshots were saved, as of the journal's last position."""
        position = self._journal.last_position
        return [
            snapshot(self._groups[name], self._positions.get(name, position), self._reign) for name in self._changed
        ]

    def snapshots_are_saved(self, snapshots: Iterable[Snapshot]) -> None:
        """These need not be taken again, unless the group has changed meanwhile. Groups of others pass by."""
        for name, number in [(each.group, each.number) for each in snapshots if each.group is not None]:
            if name in self._changed and self._groups[name].number == number:
                del self._changed[name]
