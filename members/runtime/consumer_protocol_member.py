"""A simulated member of the consumer protocol (KIP-848): heartbeats, an application, and its faults.

It has what the lab asks of a `SimulatedMember`. A thread sends its heartbeats, one at a time, also while the
application is outside poll(); partitions are given up and taken inside poll().
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
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
    NodeAddress,
    OutgoingRequest,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    RequestTarget,
)
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.faults import MemberFault, MemberFaultKind, MemberMilestone, milestones_in
from regroup.members.runtime.application import MemberView, SimulatedApplication
from regroup.members.runtime.consumer_protocol_offsets import COMMIT_ATTEMPTS, ConsumerProtocolOffsets
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.member import PROCESS_EXITS, MemberObserver, NoteObserver
from regroup.members.runtime.notes import FaultBegan, FaultEnded, refusal_in
from regroup.members.runtime.timers import MemberTimers
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse

FAULTS: Final = (
    MemberFaultKind.CRASH,
    MemberFaultKind.PAUSE,
    MemberFaultKind.LEAVE,
    MemberFaultKind.ZOMBIE,
    MemberFaultKind.RESTART,
    MemberFaultKind.RESTART_AS_STRANGER,
    MemberFaultKind.SLOW_JOIN,
    MemberFaultKind.SLOW_REVOKE,
)
"""The faults that this member can have."""
RETRY_MS: Final = 100
"""The pause before a request is repeated, as Kafka's `retry.backoff.ms`."""
UNRELEASED_RETRY_MS: Final = 1_000
"""The pause before a static member joins again whose instance id another process still has."""
ZOMBIE_COMMIT_INTERVAL_MS: Final = 1_000


class ConsumerProtocolMember:
    """A member that is started once and ends as left, crashed or failed; with the parameters of SimulatedMember.

    A client of this protocol draws its member id itself, another one for each process: `draw_member_id` does.
    """

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        transport: MemberTransport,
        subscription: Subscribe,
        *,
        draw_member_id: Callable[[], str],
        faults: Iterable[MemberFault],
        observe: MemberObserver,
        on_note: NoteObserver,
        on_process_exit: Callable[[str], None],
        workload: Workload | None = None,
        ledger: RecordLedger | None = None,
        epoch_ms: int = 0,
    ) -> None:
        self.name = name
        self.error_codes_seen: dict[int, None] = {}
        self.is_zombie = False
        self._settings, self._transport, self._topics = settings, transport, subscription.topics
        self._report, self._note, self._on_process_exit = (
            partial(observe, name),
            partial(on_note, name),
            on_process_exit,
        )
        self._draw_member_id = draw_member_id
        self._timers = MemberTimers(lambda: self.is_stopped)
        self._injector = FaultInjector(
            faults, self._timers, self.inject_fault, lambda fault: self._note(FaultBegan(fault))
        )
        self._application = SimulatedApplication(workload, ledger or RecordLedger(), epoch_ms=epoch_ms)
        self._application.on_records = lambda: self._timers.run_when_resumed(self._process_records)
        self._condition = ""
        self._request_id = self._pause_count = 0
        self._begin_process()

    def _begin_process(self) -> None:
        """Make what a process has and loses with its end."""
        settings = self._settings
        self.consumer = ConsumerProtocolMachine(
            settings.group_id,
            self._draw_member_id(),
            self._topics,
            settings.max_poll_interval_ms,
            settings.group_instance_id,
        )
        self._fetcher = Fetcher(self._transport, settings, self._application)
        self._offsets = ConsumerProtocolOffsets(
            settings,
            self._application,
            self._fetcher,
            self._timers,
            generation=self._generation,
            send=self._send_to_coordinator,
            observe=self._observe,
        )
        self._coordinator: NodeAddress | None = None
        self._is_heartbeat_in_flight = self._is_heartbeat_wanted = False
        self._is_outside_poll = self._is_reconciling = self._is_leaving = False
        self._has_lost_all = False
        """Whether it was fenced, or has left because of its poll timeout, and the application does not know yet."""
        self._away_count = 0
        """How often the application has left poll(); tells an old poll timeout from the present one."""

    @property
    def is_stopped(self) -> bool:
        """Whether it has left, crashed, or was refused for good."""
        return self._condition in ("crashed", "left", "failed")

    @property
    def view(self) -> MemberView:
        """The member as a table shows it."""
        generation, application = self.consumer.generation, self._application
        return MemberView(
            self.name,
            generation.member_id,
            generation.generation_id,
            self.consumer.state,
            False,
            self.consumer.assigned_partitions,
            self._condition,
            "",
            application.processed_count,
            application.duplicate_count,
        )

    def start(self) -> None:
        """Find the coordinator, and join with the first heartbeat."""
        self._injector.reach_milestone(MemberMilestone.STARTED)
        self._begin()

    def _begin(self) -> None:
        self._refresh_metadata(self._find_coordinator)
        if self._application.reads_records:
            self._schedule_auto_commit()

    def enforce_rebalance(self, reason: str) -> None:
        """Members of the consumer protocol cannot ask for a rebalance: nothing happens."""

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
        """What requests about offsets name; None if the member is in no group, or knows that it is fenced."""
        return self.consumer.generation if self.consumer.has_joined and not self._has_lost_all else None

    # -- requests

    def _refresh_metadata(self, then: Callable[[], None]) -> None:
        def learned(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            found = {each.topic_id: each.name for each in response.topics if each.name is not None}
            self.consumer.learn_topics(found)
            then()

        request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in self._topics])
        self._send(request, RequestTarget.ANY_BROKER, learned, lambda: self._refresh_metadata(then))

    def _find_coordinator(self) -> None:
        group_id = self._settings.group_id
        request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        self._send(request, RequestTarget.ANY_BROKER, self._on_coordinator, self._find_coordinator)

    def _on_coordinator(self, response: Message) -> None:
        assert isinstance(response, FindCoordinatorResponse)
        [found] = response.coordinators
        if found.error_code:
            self._timers.call_after(RETRY_MS, self._find_coordinator)
        else:
            self._coordinator = NodeAddress(found.node_id, found.host, found.port)
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        """Send a heartbeat, or as soon as the one in flight has its response."""
        if self._is_leaving or self._has_lost_all:
            return
        self._is_heartbeat_wanted = self._is_heartbeat_in_flight
        if self._is_heartbeat_in_flight:
            return
        self._is_heartbeat_in_flight = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._send_to_coordinator(self.consumer.heartbeat(), self._on_heartbeat, self._on_heartbeat_lost)

    def _on_heartbeat_lost(self) -> None:
        """Say everything again with the epoch that the member knows: the coordinator may be one epoch further."""
        self._is_heartbeat_in_flight = False
        self.consumer.repeat_everything()
        if not self._is_leaving and not self._has_lost_all:
            self._find_coordinator()

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
        self._timers.run_when_resumed(lambda: self._follow(result, response))

    def _follow(self, result: HeartbeatResult, response: ConsumerGroupHeartbeatResponse) -> None:
        match result:
            case HeartbeatResult.ELSEWHERE:
                self._timers.call_after(RETRY_MS, self._find_coordinator)
            case HeartbeatResult.UNRELEASED:
                self._timers.call_after(UNRELEASED_RETRY_MS, self._send_heartbeat)
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

    def _on_accepted(self, result: HeartbeatResult) -> None:
        if self.consumer.has_unknown_topics:
            self.consumer.repeat_everything()
            self._refresh_metadata(self._send_heartbeat)
        if self._is_heartbeat_wanted:
            self._send_heartbeat()
        else:
            self._timers.set_deadline(self._timers.now_ms() + self.consumer.interval_ms, self._send_heartbeat)
        slow_ms = self._injector.delay_ms(MemberFaultKind.SLOW_JOIN)
        if result is HeartbeatResult.ASSIGNED and slow_ms and not self._is_outside_poll:
            self._leave_poll(slow_ms, self._poll)
        else:
            self._poll()

    def _send_to_coordinator(
        self, message: Message, then: Callable[[Message], None], on_failure: Callable[[], None]
    ) -> None:
        self._send(message, RequestTarget.COORDINATOR, then, on_failure)

    def _send(
        self, message: Message, target: RequestTarget, then: Callable[[Message], None], on_failure: Callable[[], None]
    ) -> None:
        process = self.consumer
        self._request_id += 1
        address = self._coordinator if target is RequestTarget.COORDINATOR else None
        request = OutgoingRequest(self._request_id, target, address, message, self._settings.request_timeout_ms)
        self._transport.send(request, lambda found: self._timers.run_when_resumed(lambda: received(found)))

        def received(found: ResponseReceived | RequestFailed) -> None:
            if process is not self.consumer or self.is_zombie:
                return
            if isinstance(found, RequestFailed):
                self._timers.call_after(RETRY_MS, lambda: on_failure() if process is self.consumer else None)
                return
            if (refused := refusal_in(found.response)) is not None:
                self.error_codes_seen[refused[1]] = None
                self._note(refused[0])
            then(found.response)

    # -- inside and outside poll()

    def _leave_poll(self, duration_ms: float, then: Callable[[], None]) -> None:
        """Be outside poll() for a time; if it is longer than `max.poll.interval.ms`, the member leaves the group."""
        self._is_outside_poll = True
        self._away_count += 1
        count, process = self._away_count, self.consumer

        def back() -> None:
            if process is self.consumer:
                self._is_outside_poll = False
                self._away_count += 1
                then()

        def expired() -> None:
            if process is self.consumer and count == self._away_count and not self._is_leaving:
                self._on_poll_timeout()

        if duration_ms > self._settings.max_poll_interval_ms:
            self._timers.call_after(self._settings.max_poll_interval_ms, expired)
        self._timers.call_after(duration_ms, back)

    def _on_poll_timeout(self) -> None:
        if self._has_lost_all or not self.consumer.has_joined:
            return
        self._has_lost_all = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._send_to_coordinator(self.consumer.last_heartbeat(), lambda response: None, lambda: None)

    def _poll(self) -> None:
        """Reconcile inside poll(), and acknowledge it with a heartbeat at once; then process records.

        Nothing is taken while a heartbeat is in flight: it may say that the member does not own what it would take.
        """
        if self._is_outside_poll or self._is_leaving or self.is_zombie:
            return
        if self._has_lost_all:
            self._join_again()
            return
        revocable = self.consumer.revocable
        if revocable and not self._is_reconciling:
            self._is_reconciling = True
            self._offsets.commit(revocable, lambda: self._call_back(revocable), attempts=COMMIT_ATTEMPTS)
        elif not revocable and not self._is_reconciling and not self._is_heartbeat_in_flight:
            changes = self.consumer.reconcile()
            for change in changes:
                self._observe(change)
            if changes or self.consumer.has_changed:
                self._timers.run_when_resumed(self._send_heartbeat)
        self._process_records()

    def _call_back(self, revocable: tuple[TopicPartition, ...]) -> None:
        """Let the application give partitions up, which takes time with the fault slow-revoke."""

        def over() -> None:
            self._is_reconciling = False
            if not self._has_lost_all and not self._is_leaving:
                self._observe(self.consumer.revoke(revocable))
            self._timers.run_when_resumed(self._poll)

        if slow_ms := self._injector.delay_ms(MemberFaultKind.SLOW_REVOKE):
            self._leave_poll(slow_ms, over)
        else:
            over()

    def _join_again(self) -> None:
        self._has_lost_all = self._is_reconciling = False
        self._observe(self.consumer.lose())
        self._timers.run_when_resumed(self._send_heartbeat)

    def _process_records(self) -> None:
        application = self._application
        if self._is_outside_poll or self._is_leaving or self._is_reconciling or not application.reads_records:
            return
        batch = application.take_poll_batch()
        if not batch:
            return

        def complete() -> None:
            application.complete_batch(batch, self._timers.now_ms())
            self._poll()
            self._process_records()
            self._fetcher.send_fetches()

        self._leave_poll(application.processing_ms(batch), complete)

    def _schedule_auto_commit(self) -> None:
        process = self.consumer

        def commit() -> None:
            if process is self.consumer and not self._is_leaving:
                self._offsets.commit(tuple(self._offsets.positions))
                self._schedule_auto_commit()

        self._timers.call_after(self._settings.auto_commit_interval_ms, commit)

    # -- faults and the end

    def inject_fault(self, fault: MemberFault) -> None:
        """Start a fault now, without regard to its trigger."""
        if fault.kind not in FAULTS:
            raise ValueError(f"a member of the consumer protocol cannot have the fault {fault.kind.value}")
        if fault.kind.is_lasting:
            self._injector.start_fault(fault)
            return
        if fault.kind in PROCESS_EXITS:
            self._on_process_exit(self.name)
        elif self._condition == "restarting":
            return  # no process runs that the fault could happen to
        self._note(FaultBegan(fault))
        match fault.kind:
            case MemberFaultKind.CRASH:
                self._end("crashed")
            case MemberFaultKind.PAUSE:
                self._pause(fault.duration_ms or 0, self._resume, "paused")
            case MemberFaultKind.LEAVE:
                asyncio.get_running_loop().call_soon(self._timers.run_when_resumed, self._leave)
            case MemberFaultKind.ZOMBIE:
                self.is_zombie = True
                self._pause(2 * self._settings.session_timeout_ms, self._resume_as_zombie, "zombie")
            case MemberFaultKind.RESTART:
                self._pause(fault.duration_ms or 0, self._restart, "restarting")
            case MemberFaultKind.RESTART_AS_STRANGER:
                self._settings = replace(self._settings, group_instance_id=None)
                self._pause(fault.duration_ms or 0, self._restart, "restarting")

    def _pause(self, duration_ms: int, then: Callable[[], None], condition: str) -> None:
        """Pause the member. Only the latest pause or restart resumes it."""
        self._condition = condition
        self._pause_count += 1
        count = self._pause_count
        self._timers.pause(duration_ms, lambda: then() if count == self._pause_count else None)

    def _resume(self) -> None:
        self._note(FaultEnded(self._condition))
        self._condition = ""
        self._timers.resume()

    def _restart(self) -> None:
        """Begin a new process, with another member id; a static member has its instance id again."""
        self._note(FaultEnded(self._condition))
        self._condition, self.is_zombie = "", False
        self._timers.set_deadline(None, self._send_heartbeat)
        self._timers.resume_without_backlog()
        self._application.clear()
        self._transport.disconnect_coordinator()
        self._fetcher.close()
        self._begin_process()
        self._begin()

    def _resume_as_zombie(self) -> None:
        """Go on committing with the epoch that the member had, and hear no response."""
        self._note(FaultEnded(self._condition))
        self._timers.set_deadline(None, self._send_heartbeat)
        self._timers.resume_without_backlog()
        self._commit_as_zombie(self.consumer)

    def _commit_as_zombie(self, process: ConsumerProtocolMachine) -> None:
        if process is self.consumer and self._offsets.positions:
            message = requests.offset_commit(self._settings, process.generation, self._offsets.positions)
            self._send_to_coordinator(message, lambda response: None, lambda: None)
            self._timers.call_after(ZOMBIE_COMMIT_INTERVAL_MS, partial(self._commit_as_zombie, process))

    def _leave(self) -> None:
        """Commit, give everything up, and send the last heartbeat."""
        if self._is_leaving or self.is_zombie:
            return
        self._is_leaving = True
        self._timers.set_deadline(None, self._send_heartbeat)
        self._offsets.commit(tuple(self._offsets.positions), self._send_last_heartbeat)

    def _send_last_heartbeat(self) -> None:
        request, change = self.consumer.leave()
        self._observe(change)
        self._observe(LeftGroup("the consumer is being closed"))
        self._send_to_coordinator(request, lambda response: self._close(), self._close)

    def _close(self) -> None:
        self._observe(ConsumerClosed())
        self._end("left")

    def _end(self, condition: str) -> None:
        self._condition = condition
        self._fetcher.close()
        self._timers.cancel_all()
