"""One process of a simulated member of the consumer protocol: heartbeats, reconciliation, and an application.

A thread sends heartbeats, one at a time, also while the application is outside poll(); partitions are given up and
taken inside poll(). What such a process sends, and in which order, is that of Kafka's own consumer: see
`tests/members/consumer/test_java_consumer.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from regroup.members.consumer import requests
from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine, HeartbeatResult
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.faults import MemberFaultKind, milestones_in
from regroup.members.runtime.application import PollStay, SimulatedApplication
from regroup.members.runtime.consumer_protocol_offsets import COMMIT_ATTEMPTS, ConsumerProtocolOffsets
from regroup.members.runtime.consumer_protocol_requests import ConsumerProtocolRequests
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.notes import RequestRefused
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse

UNRELEASED_RETRY_MS: Final = 1_000
"""The pause before a static member joins again whose instance id another process still has."""
ZOMBIE_COMMIT_INTERVAL_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """The parts of a member that all its processes use, one after the other: transport, timers, application,
    callbacks."""

    transport: MemberTransport
    timers: MemberTimers
    injector: FaultInjector
    application: SimulatedApplication
    report: Callable[[ConsumerChange | ConsumerError], None]
    on_refusal: Callable[[RequestRefused, int], None]
    on_end: Callable[[str], None]
    """Called with `left` or `failed` when the process has ended by itself."""


class ConsumerProtocolProcess:
    """One process of a simulated member of the consumer protocol, which runs from `begin` until `stop`."""

    def __init__(self, parts: ProcessParts, settings: ConsumerSettings, consumer: ConsumerProtocolMachine) -> None:
        self.consumer = consumer
        self._settings, self._timers, self._injector = settings, parts.timers, parts.injector
        self._application, self._report, self._end = parts.application, parts.report, parts.on_end
        self._requests = ConsumerProtocolRequests(
            settings,
            parts.transport,
            parts.timers,
            on_coordinator=self._send_heartbeat,
            on_refusal=parts.on_refusal,
        )
        self._fetcher = Fetcher(parts.transport, settings, parts.application)
        self._offsets = ConsumerProtocolOffsets(
            settings,
            parts.application,
            self._fetcher,
            parts.timers,
            generation=self._generation,
            send=self._requests.send,
            observe=self._observe,
        )
        self._is_over = self._is_zombie = False
        self._is_heartbeat_in_flight = self._is_heartbeat_wanted = False
        self.last_poll_stay: PollStay | None = None
        """When the application was last outside poll(); None if it has never left it."""
        self._is_outside_poll = self._is_reconciling = self._is_leaving = self._is_commit_due = False
        self._has_lost_all = False
        """Whether it was fenced, or has left because of its poll timeout, and the application does not know yet."""
        self._is_learning_topics = False
        """Whether the names of assigned topics are on their way."""
        self._losses = 0
        """How many times the member has lost all partitions and joined again."""

    def begin(self) -> None:
        """Find the coordinator, and join the group with the first heartbeat."""
        self._application.on_fetched = lambda: self._timers.run_when_resumed(self._process_records)
        self._refresh_metadata(self._requests.find_coordinator)
        if self._application.reads_records:
            self._call_after(self._settings.auto_commit_interval_ms, self._on_commit_due)

    def stop(self) -> None:
        """End the process without another request, as if it were killed."""
        self._is_over = self._requests.is_over = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._fetcher.close()

    def _call_after(self, delay_ms: float, then: Callable[[], None]) -> None:
        self._timers.call_after(delay_ms, lambda: None if self._is_over else then())

    def _refresh_metadata(self, then: Callable[[], None]) -> None:
        """Request the ids of the topics to which the member subscribes, with a pattern those of all topics; then call
        `then`."""
        self._requests.refresh_metadata(self.consumer.metadata_topics, lambda found: self._on_metadata(found, then))

    def _on_metadata(self, found: Mapping[bytes, str], then: Callable[[], None]) -> None:
        self.consumer.learn_topics(found)
        then()

    def _observe(self, change: ConsumerChange | ConsumerError) -> None:
        self._report(change)
        match change:
            case ConsumerError():
                return
            case PartitionsAssigned(partitions):
                self._offsets.add(partitions)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                self._offsets.drop(partitions)
        for milestone in milestones_in(change):
            self._injector.reach_milestone(milestone)

    def _generation(self) -> MemberGeneration | None:
        """The member id and epoch for requests about offsets; None if the member is in no group, or knows that it is
        fenced."""
        return self.consumer.generation if self.consumer.has_joined and not self._has_lost_all else None

    # -- heartbeats

    def _send_heartbeat(self) -> None:
        """Send a heartbeat now or, if one is in flight, as soon as that has its response. A zombie sends none."""
        if self._is_zombie:
            return
        if self._is_over or self._is_leaving or self._has_lost_all or self._requests.is_search_due:
            return
        if self.outside_poll_ms > self._settings.max_poll_interval_ms and self.consumer.has_joined:
            # A process that was paused finds this out before it sends anything else, as in Java.
            self._on_poll_timeout()
            return
        self._is_heartbeat_wanted = self._is_heartbeat_in_flight
        if self._is_heartbeat_in_flight:
            return
        self._timers.set_deadline(None, self._send_heartbeat)
        if not self._requests.has_coordinator:
            self._requests.find_coordinator()  # the heartbeat follows when it is found
            return
        self._is_heartbeat_in_flight = True
        self._requests.send(self.consumer.heartbeat(), self._on_heartbeat, self._on_heartbeat_lost)

    def _on_heartbeat_lost(self) -> None:
        """Handle a heartbeat without a response: find the coordinator again, and send the next heartbeat with all
        fields and the epoch that the member knows, although the coordinator may be one epoch further."""
        self._is_heartbeat_in_flight = False
        self.consumer.repeat_everything()
        if not self._is_leaving and not self._has_lost_all:
            self._requests.find_coordinator()

    def _on_heartbeat(self, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._is_heartbeat_in_flight = False
        if self._is_leaving or self._has_lost_all:
            return
        was_joined = self.consumer.has_joined
        result = self.consumer.on_response(response)
        if not was_joined and self.consumer.has_joined:
            epoch, member_id = response.member_epoch, self.consumer.generation.member_id
            self._observe(JoinedGroup(epoch, member_id, is_leader=False, protocol_name=None))
        # What was observed may have let a fault begin, which pauses or ends the process.
        self._timers.run_when_resumed(lambda: None if self._is_over else self._follow(result, response))

    def _follow(self, result: HeartbeatResult, response: ConsumerGroupHeartbeatResponse) -> None:
        match result:
            case HeartbeatResult.ELSEWHERE:
                self._requests.find_coordinator_later()
            case HeartbeatResult.UNRELEASED:
                self._call_after(UNRELEASED_RETRY_MS, self._send_heartbeat)
            case HeartbeatResult.FENCED:
                self._has_lost_all = True
                if not self._is_outside_poll:
                    self._join_again()
            case HeartbeatResult.REFUSED:
                text = response.error_message or ErrorCode.name_of(response.error_code)
                self._observe(ConsumerError(ConsumerErrorKind.GROUP, text, response.error_code, is_fatal=True))
                self._end("failed")
            case _:
                self._on_accepted(result)

    def _learn_topics(self) -> None:
        """Request the names of assigned topics, then ask for the assignment once more. No effect while they are on
        their way."""
        if self._is_learning_topics:
            return
        self._is_learning_topics = True

        def learned() -> None:
            self._is_learning_topics = False
            self.consumer.repeat_everything()
            self._send_heartbeat()

        self._refresh_metadata(learned)

    def _on_accepted(self, result: HeartbeatResult) -> None:
        if self.consumer.has_unknown_topics:
            self._learn_topics()
        if self._is_heartbeat_wanted:
            self._send_heartbeat()
        else:
            self._timers.set_deadline(self._timers.now_ms() + self.consumer.interval_ms, self._send_heartbeat)
        slow_ms = self._injector.delay_ms(MemberFaultKind.SLOW_JOIN)
        if result is HeartbeatResult.ASSIGNED and slow_ms and not self._is_outside_poll:
            self._leave_poll(slow_ms, self._poll)
        else:
            self._poll()

    # -- inside and outside poll()

    @property
    def outside_poll_ms(self) -> int:
        """For how long the application has not been inside poll(), in milliseconds; 0 while it is inside."""
        stay = self.last_poll_stay
        return self._timers.now_ms() - stay.left_ms if stay is not None and stay.back_ms is None else 0

    def stay_outside_poll(self, duration_ms: int) -> None:
        """Keep the application outside poll() for a time, as if it did something else. No effect if it is outside
        already, reconciles or leaves."""
        if not (self._is_over or self._is_outside_poll or self._is_leaving or self._is_reconciling):
            self._leave_poll(duration_ms, self._poll)

    def _leave_poll(self, duration_ms: float, then: Callable[[], None]) -> None:
        """Keep the application outside poll() for a time, then call `then`. If the time is longer than
        `max.poll.interval.ms`, the member leaves the group at that limit."""
        stay = self.last_poll_stay = PollStay(self._timers.now_ms())
        self._is_outside_poll = True
        limit_ms = self._settings.max_poll_interval_ms

        def back() -> None:
            self._is_outside_poll = False
            self.last_poll_stay = stay._replace(back_ms=self._timers.now_ms())
            then()

        def expired() -> None:
            if self.outside_poll_ms >= limit_ms and not self._is_leaving:
                self._on_poll_timeout()

        if duration_ms > limit_ms:
            self._call_after(limit_ms, expired)
        self._call_after(duration_ms, back)

    def _on_poll_timeout(self) -> None:
        """Leave the group while the application is outside poll(). The application learns of it at its next poll(), and
        joins again."""
        if self._has_lost_all or not self.consumer.has_joined:
            return
        self._has_lost_all = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._requests.send(self.consumer.last_heartbeat(), lambda response: None, lambda: None)

    def _poll(self) -> None:
        """Do what poll() does: commit if a commit is due, reconcile with the assignment and report that with a
        heartbeat at once, then process records. A zombie only processes records.

        New partitions are not taken while a heartbeat is in flight, since it may report that the member does not own
        them.
        """
        if self._is_over or self._is_outside_poll or self._is_leaving:
            return
        if self._is_zombie:
            self._process_records()
            return
        if self._has_lost_all:
            self._join_again()
            return
        if self._is_commit_due and not self._is_reconciling:
            self._commit_and_schedule()
        if not self._is_reconciling and self.consumer.revocable:
            self._reconcile(partial(self._call_back, self.consumer.revocable))
        elif not self._is_reconciling and not self._is_heartbeat_in_flight:
            if self.consumer.has_additions:
                self._reconcile(self._take)
            elif self.consumer.has_changed:
                self._timers.run_when_resumed(self._send_heartbeat)
        self._process_records()

    def _reconcile(self, then: Callable[[], None]) -> None:
        """Commit the positions of all partitions, then call `then`, which changes the owned partitions. Until then no
        records are processed.

        A member that has lost everything and joined again during the commit has nothing to change, as in Java.
        """
        self._is_reconciling = True
        losses = self._losses

        def committed() -> None:
            if self._losses == losses:
                then()

        self._offsets.commit(tuple(self._offsets.positions), committed, attempts=COMMIT_ATTEMPTS)

    def _call_back(self, revocable: tuple[TopicPartition, ...]) -> None:
        """Call the application's rebalance listener for partitions that are then given up. With the fault slow-revoke
        the call takes time."""

        def over() -> None:
            self._is_reconciling = False
            if not self._has_lost_all and not self._is_leaving:
                self._observe(self.consumer.revoke(revocable))
            self._timers.run_when_resumed(self._poll)

        if slow_ms := self._injector.delay_ms(MemberFaultKind.SLOW_REVOKE):
            self._leave_poll(slow_ms, over)
        else:
            over()

    def _take(self) -> None:
        """Take the new partitions of the assignment, unless it has changed during the commit so that others must be
        given up first."""
        self._is_reconciling = False
        if not (self._has_lost_all or self._is_leaving or self._is_heartbeat_in_flight or self.consumer.revocable):
            for change in self.consumer.reconcile():
                self._observe(change)
        self._timers.run_when_resumed(self._poll)

    def _join_again(self) -> None:
        self._has_lost_all = self._is_reconciling = False
        self._losses += 1
        self._observe(self.consumer.lose())
        self._timers.run_when_resumed(self._send_heartbeat)

    def _process_records(self) -> None:
        application = self._application
        if self._is_over or self._is_outside_poll or self._is_leaving or self._is_reconciling:
            return
        if not application.reads_records:
            return
        self._fetcher.reset_positions()
        batch = application.take_poll_batch()
        self._fetcher.send_fetches()
        if not batch:
            return

        def complete() -> None:
            if self._is_leaving:
                return  # its positions are committed already: the next owner of the partitions processes the batch
            application.complete_batch(batch, self._timers.now_ms())
            self._poll()
            self._process_records()

        self._leave_poll(application.processing_ms(batch), complete)

    def _on_commit_due(self) -> None:
        """Make the periodic commit. If the application is outside poll(), the commit waits until it is inside again."""
        if self._is_outside_poll or self._is_reconciling:
            self._is_commit_due = True
        elif not self._is_leaving:
            self._commit_and_schedule()

    def _commit_and_schedule(self) -> None:
        self._is_commit_due = False
        self._offsets.commit(tuple(self._offsets.positions))
        self._call_after(self._settings.auto_commit_interval_ms, self._on_commit_due)

    # -- the end

    def become_zombie(self) -> None:
        """Make the process a zombie: from now on it ignores every response."""
        self._is_zombie = self._requests.is_over = True

    def resume_as_zombie(self) -> None:
        """Let a zombie commit its positions again and again with the epoch that it had; it still ignores every response
        of its coordinator. It reads on if it was inside poll() before."""
        self._timers.set_deadline(None, self._send_heartbeat)
        self._process_records()
        self._commit_as_zombie()

    def _commit_as_zombie(self) -> None:
        if self._offsets.positions:
            message = requests.offset_commit(self._settings, self.consumer.generation, self._offsets.positions)
            self._requests.send(message, lambda response: None, lambda: None)
            self._call_after(ZOMBIE_COMMIT_INTERVAL_MS, self._commit_as_zombie)

    def leave(self) -> None:
        """Commit the positions, give up all partitions, and send the heartbeat that leaves the group."""
        if self._is_over or self._is_leaving or self._requests.is_over:
            return
        self._is_leaving = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._offsets.commit(tuple(self._offsets.positions), self._send_last_heartbeat)

    def _send_last_heartbeat(self) -> None:
        request, change = self.consumer.leave()
        if change is not None:
            self._observe(change)
        self._observe(LeftGroup("the consumer is being closed"))
        self._requests.send(request, lambda response: self._close(), self._close)

    def _close(self) -> None:
        self._observe(ConsumerClosed())
        self._end("left")
