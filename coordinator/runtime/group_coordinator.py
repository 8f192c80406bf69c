"""The asyncio coordinator: it drives the pure state machine, keeps the journal, and holds responses.

    command → decide → events are folded and queued for the disk, in one step → response, once they are durable

It adds nothing to what happens to a group: the time comes from a clock that is passed in, deadlines are computed from
the group's state, and a deadline that passes is a command like any other.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.commands import Deadline
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision, LeaderPolicy, first_candidate
from regroup.coordinator.events import OffsetsCommitted
from regroup.coordinator.group import Group, MemberId
from regroup.coordinator.runtime.async_requests import AsyncRequests
from regroup.coordinator.runtime.deadline_search import DeadlineSearch
from regroup.coordinator.runtime.deadlines import deadlines, may_bring_deadlines, may_expire_earlier, next_deadline
from regroup.coordinator.runtime.event_log import log_events
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.runtime.logger import get_logger
from regroup.coordinator.runtime.observer import CoordinatorObserver
from regroup.coordinator.runtime.pending_responses import PendingRequest, PendingResponses, ResponseCallback
from regroup.coordinator.runtime.producer_groups import ProducerGroups
from regroup.coordinator.runtime.timers import TICK_MS, GroupTimers
from regroup.coordinator.runtime.unavailable import unavailable_response
from regroup.coordinator.serialization import Cause, encode_cause, encode_event, encode_snapshot
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import NO_TOPICS, TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.storage.records import Snapshot

__all__ = ["GroupCoordinator"]

OFFSETS_COMMITTED_ONLY = frozenset({OffsetsCommitted})
"""The types of events after which a group has the deadlines and members that it had before, and nothing is logged."""

LOAD: Final = Cause(internal="load of the group")
KAFKA_LOG: Final = Cause(internal="Kafka's log")
RETENTION: Final = Cause(deadline="retention")


class GroupCoordinator(AsyncRequests):
    """Coordinates the groups of one broker.

    `submit` takes every command; the methods of `AsyncRequests` are its awaitable forms. `now` returns epoch
    milliseconds. `kafka_log` makes the emulated Kafka log slow or faulty; without it the log commits at once. `owns`
    selects the groups by id, where the journal holds groups of other coordinators too. `topics` returns those of the
    cluster, which a group may need when a deadline passes, and `settings_of` the settings of one group. `choose_leader`
    decides where Kafka takes any member. `observer` sees every command and response. `timer_tick_ms` is that of
    GroupTimers.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        settings: CoordinatorSettings,
        now: Callable[[], int],
        kafka_log: KafkaLog | None = None,
        owns: Callable[[str], bool] = lambda group_id: True,
        topics: Callable[[], TopicsImage] = lambda: NO_TOPICS,
        settings_of: Callable[[str], CoordinatorSettings] | None = None,
        choose_leader: LeaderPolicy = first_candidate,
        observer: CoordinatorObserver | None = None,
        timer_tick_ms: int = TICK_MS,
    ) -> None:
        self.settings = settings
        self._journal = journal
        self._now = now
        self._kafka_log = kafka_log
        self._owns = owns
        self._topics = topics
        self._settings_of = settings_of or (lambda group_id: settings)
        self._choose_leader = choose_leader
        self._observer = observer
        self._groups: dict[str, Group] = {}
        self._producer_groups = ProducerGroups()
        self._last_seen_ms: dict[str, dict[MemberId, int]] = {}
        self._positions: dict[str, int] = {}
        self._unsaved: dict[str, None] = {}
        """Groups that have changed since their last snapshot was saved."""
        self._pending = PendingResponses()
        self._unavailable: ErrorCode | None = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._coordinator_epoch = 0
        self._search = DeadlineSearch(self._known_group, self._earliest, now)
        self._timers = GroupTimers(
            self._search.earliest, self._deadline_passed, now, timer_tick_ms, self._search.changed
        )
        self._retention_timer: asyncio.TimerHandle | None = None
        self._log = get_logger("coordinator")
        journal.on_failure(self._fail)

    # Start and stop

    async def start(self) -> None:
        """Load the groups from the journal's store and begin a new coordinator epoch; also after a failed store."""
        self._unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        loaded = await load_groups(self._journal.store)
        heads = await self._journal.store.heads()
        self._groups = {group_id: group for group_id, group in loaded.items() if self._owns(group_id)}
        self._producer_groups = ProducerGroups(self._groups.values())
        self._coordinator_epoch = await self._journal.store.next_coordinator_epoch()
        self._last_seen_ms.clear()
        self._positions = {
            group_id: head.position
            for group_id, head in heads.items()
            if group_id is not None and group_id in self._groups
        }
        self._unsaved = dict.fromkeys(self._groups)
        self._unavailable = None
        for group_id in sorted(group_id for group_id, group in self._groups.items() if group.exists):
            self.submit(c.LoadGroup(group_id=group_id, at_ms=self._now()), cause=LOAD)
        await self._journal.wait_until_durable(self._journal.last_position)
        self._schedule_retention()

    def stop(self) -> None:
        """Answer every held request with NOT_COORDINATOR, and refuse new ones. The journal stays open."""
        self._unload(ErrorCode.NOT_COORDINATOR)

    def begin_load(self) -> None:
        """Answer every held request with NOT_COORDINATOR, and refuse new requests until `start` has loaded the
        groups."""
        self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _fail(self, error: StoreError) -> None:
        """Handle a failure of the store as a crash of the coordinator: answer every held request with NOT_COORDINATOR,
        and refuse new ones until `start` has loaded the groups. Events that were not durable are lost."""
        if self._unavailable is None:
            self._log.error("store-failed", error=str(error))
            self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _unload(self, code: ErrorCode) -> None:
        self._unavailable = code
        self._timers.stop()
        if self._retention_timer:
            self._retention_timer.cancel()
        for command, on_response in self._pending.drain():
            on_response(unavailable_response(command, ErrorCode.NOT_COORDINATOR))

    # Commands

    def submit(
        self, command: c.Command, on_response: ResponseCallback | None = None, cause: Cause | None = None
    ) -> None:
        """Handle a command now. `on_response` is called once with the response, now or later; never if the client sends
        a held request again, which replaces the first one. A client that disconnects does not change the group: its
        callback has to drop the response. `cause` says what led to the command."""
        if self._observer:
            self._observer.submit(command, on_response, cause, self._submit)
        else:
            self._submit(command, on_response, cause)

    def _submit(self, command: c.Command, on_response: ResponseCallback | None, cause: Cause | None) -> None:
        group_id = command.group_id
        if self._unavailable is not None:
            refuse(command, on_response, self._unavailable)
            return
        if self._kafka_log and self._kafka_log.delays(command):
            command = replace(command, delays_append=True)
        before = self._groups.get(group_id) or Group(group_id=group_id)
        decision = decide(self._settings_of(group_id), before, command, self._choose_leader)
        if decision.events and not self._record(decision, cause):
            refuse(command, on_response, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        if decision.touched_sessions:
            last_seen_ms = self._last_seen_ms.setdefault(group_id, {})
            if may_expire_earlier(decision.group, decision.touched_sessions, last_seen_ms):
                self._search.forget(group_id)
                self._timers.reschedule(group_id)
            last_seen_ms.update(dict.fromkeys(decision.touched_sessions, command.at_ms))
        self._respond(decision, command, on_response)
        if self._kafka_log and decision.group.pending_appends:
            self._hand_to_log(self._kafka_log, before, decision.group)

    def heartbeat_revalidator(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        """Returns a function for repetitions of this heartbeat, which was accepted. Called for a repetition, it
        restarts the session timeout and returns True as long as the group has not changed; False if `submit` must
        handle it.

        A group is a value and `decide` is pure: as long as the group is the same, so is the response. It does not
        depend on offsets, and so waits for no commit of them.
        """
        group_id, member_id = heartbeat.group_id, heartbeat.member_id
        group = self.group(group_id)

        def accept_again() -> bool:
            nonlocal group
            present = self.group(group_id)
            is_same = present is group or present.has_only_other_offsets_than(group)
            if not is_same or self._unavailable is not None:
                return False
            group = present
            self._last_seen_ms[group_id][member_id] = self._now()
            return True

        if self._observer:
            return partial(self._observer.revalidate_heartbeat, heartbeat, accept_again)
        return accept_again

    def _record(self, decision: Decision, cause: Cause | None) -> bool:
        """Queue the decision's events for the disk and take its group as the present one, in one step; returns False if
        the store has failed."""
        group, epoch = decision.group, self._coordinator_epoch
        group_id, first = group.group_id, group.event_number - len(decision.events) + 1
        encoded = encode_cause(cause) if cause else None
        records = [
            encode_event(group_id, event_number, epoch, event, encoded)
            for event_number, event in enumerate(decision.events, first)
        ]
        try:
            self._positions[group_id] = self._journal.append(records)
        except StoreError as error:
            self._fail(error)
            return False
        self._producer_groups.note(self._groups.get(group_id), group)
        self._groups[group_id] = group
        self._unsaved[group_id] = None
        if not OFFSETS_COMMITTED_ONLY.issuperset(map(type, decision.events)):
            self._forget_removed_members(group)
            if may_bring_deadlines(decision.events):
                self._timers.reschedule(group_id)
            log_events(self._log, group_id, decision.events)
        return True

    def _forget_removed_members(self, group: Group) -> None:
        last_seen_ms = self._last_seen_ms.get(group.group_id)
        members = group.member_ids
        if last_seen_ms and len(last_seen_ms) > len(members):
            self._last_seen_ms[group.group_id] = {
                member_id: at_ms for member_id, at_ms in last_seen_ms.items() if member_id in members
            }

    # Responses

    def _respond(self, decision: Decision, command: c.Command, on_response: ResponseCallback | None) -> None:
        if on_response:
            request = PendingRequest(command, on_response)
            if not self._pending.hold(decision, request) and decision.response is not None:
                self._send(request, decision.response)
        if decision.released or decision.completed_appends:
            for request, response in self._pending.release(decision):
                self._send(request, response)

    def _send(self, request: PendingRequest, response: Structure) -> None:
        """Send the response once the group's last event is durable."""
        command, on_response = request
        position = self._positions.get(command.group_id, 0)
        if position <= self._journal.durable_position:
            on_response(response)
            return
        self._journal.when_durable(
            position,
            partial(on_response, response),
            partial(refuse, command, on_response, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )

    # The emulated Kafka log

    def _hand_to_log(self, kafka_log: KafkaLog, before: Group, after: Group) -> None:
        """Pass those records of the group to the emulated Kafka log that this change has written and that are not
        committed."""
        for append_number in after.pending_appends:
            if append_number not in before.pending_appends:
                complete = partial(self._complete_append, after.group_id, append_number, self._coordinator_epoch)
                kafka_log.append(after.group_id, complete)

    def _complete_append(self, group_id: str, append_number: int, epoch: int, code: ErrorCode) -> None:
        """Submit the command for a record that the emulated Kafka log has committed or, with an error code, lost. A
        record of an earlier coordinator epoch is ignored."""
        if epoch != self._coordinator_epoch:
            return
        command: c.Command
        if code is ErrorCode.NONE:
            command = c.CompleteAppend(group_id=group_id, at_ms=self._now(), append_number=append_number)
        else:
            command = c.FailAppend(group_id=group_id, at_ms=self._now(), append_number=append_number, error_code=code)
        self.submit(command, cause=KAFKA_LOG)

    # Deadlines

    def _next_deadline(self, group_id: str) -> Deadline | None:
        group = self._known_group(group_id)
        return self._earliest(group) if group else None

    def _known_group(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def _earliest(self, group: Group) -> Deadline | None:
        return next_deadline(group, self._last_seen_ms.get(group.group_id, {}))

    def _deadline_passed(self, group_id: str, deadline: Deadline) -> None:
        _, kind, member_id, last_seen_ms = deadline
        command = c.DeadlinePassed(
            group_id=group_id,
            at_ms=self._now(),
            kind=kind,
            member_id=member_id,
            last_seen_ms=last_seen_ms,
            topics=self._topics(),
        )
        self.submit(command, cause=Cause(deadline=kind.value, member_id=member_id, last_seen_ms=last_seen_ms))

    def _schedule_retention(self) -> None:
        if self._retention_timer:
            self._retention_timer.cancel()
        interval_s = self.settings.offsets_retention_check_interval_ms / 1000
        self._retention_timer = asyncio.get_running_loop().call_later(interval_s, self._expire_offsets)

    def _expire_offsets(self) -> None:
        for group_id in [group_id for group_id, group in self._groups.items() if group.exists]:
            self.submit(c.ExpireOffsets(group_id=group_id, at_ms=self._now()), cause=RETENTION)
        self._schedule_retention()

    def next_deadline(self, group_id: str) -> Deadline | None:
        """The earliest deadline of the group; None if it has none, or if the coordinator is not ready to handle
        requests."""
        return self._next_deadline(group_id) if self._unavailable is None else None

    def deadlines(self, group_id: str) -> tuple[Deadline, ...]:
        """Every deadline that runs for the group, its members' sessions among them; none while groups are being
        loaded."""
        group = self._groups.get(group_id)
        if group is None or self._unavailable is not None:
            return ()
        return tuple(deadlines(group, self._last_seen_ms.get(group_id, {})))

    # State

    @property
    def journal(self) -> Journal:
        """The journal to which the coordinator appends events."""
        return self._journal

    @property
    def coordinator_epoch(self) -> int:
        """The coordinator epoch that the last load of the groups began; 0 before the first load."""
        return self._coordinator_epoch

    @property
    def is_ready(self) -> bool:
        """Whether every group is loaded and requests are handled."""
        return self._unavailable is None

    @property
    def refusal(self) -> ErrorCode | None:
        """The error code that every request gets at present; None if requests are handled."""
        return self._unavailable

    def groups(self) -> Iterator[Group]:
        """Every group that exists, in the order in which they were created."""
        return (group for group in self._groups.values() if group.exists)

    def groups_of_producer(self, producer_id: int) -> list[Group]:
        """The groups that hold offsets of this producer's open transaction."""
        return [self._groups[group_id] for group_id in self._producer_groups.of(producer_id)]

    @property
    def group_count(self) -> int:
        """The number of groups, those included that were deleted since the last load."""
        return len(self._groups)

    def group(self, group_id: str) -> Group:
        """One group as it is now."""
        return self._groups.get(group_id) or Group(group_id=group_id)

    def take_snapshots(self) -> list[Snapshot]:
        """Snapshots, as of the journal's last position, of those groups that have changed since a snapshot of them was
        last saved."""
        position, epoch = self._journal.last_position, self._coordinator_epoch
        return [
            encode_snapshot(self._groups[group_id], self._positions.get(group_id, position), epoch)
            for group_id in self._unsaved
        ]

    def mark_saved(self, snapshots: Iterable[Snapshot]) -> None:
        """Note that these snapshots are in the store: their groups need no new snapshot until they change. A group that
        has changed since its snapshot stays noted as changed."""
        for snapshot in snapshots:
            group_id = snapshot.group
            if group_id is None or group_id not in self._unsaved:
                continue
            if self._groups[group_id].event_number == snapshot.event_number:
                del self._unsaved[group_id]


def refuse(command: c.Command, on_response: ResponseCallback | None, code: ErrorCode) -> None:
    """Answer a command, through `on_response` if there is one, with this error code, because it cannot be handled."""
    if on_response:
        on_response(unavailable_response(command, code))
