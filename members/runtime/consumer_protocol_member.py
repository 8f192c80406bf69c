"""A simulated member of the consumer protocol (KIP-848): heartbeats, an application that polls, and four faults.

It has what the lab asks of a `SimulatedMember`, and reads no records. A thread sends its heartbeats, also while the
application is outside poll(); partitions are given up and taken inside poll().
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine, HeartbeatResult
from regroup.members.consumer.effects import (
    ConsumerClosed,
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    LeftGroup,
    NodeAddress,
    OutgoingRequest,
    RequestTarget,
)
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind, MemberMilestone
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.fault_injection import FaultInjector
from regroup.members.runtime.member import MemberObserver, NoteObserver
from regroup.members.runtime.notes import FaultBegan, FaultEnded, refusal_in
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import MemberTransport
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

FAULTS: Final = (MemberFaultKind.CRASH, MemberFaultKind.PAUSE, MemberFaultKind.LEAVE, MemberFaultKind.SLOW_JOIN)
"""The faults that this member can have."""
RETRY_MS: Final = 100
"""The pause before a request is repeated, as Kafka's `retry.backoff.ms`."""


class ConsumerProtocolMember:
    """A member that is started once and ends as left, crashed or failed; with the parameters of SimulatedMember.

    A client of this protocol draws its member id itself, another one for each process.
    """

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        transport: MemberTransport,
        subscription: Subscribe,
        *,
        member_id: str,
        faults: Iterable[MemberFault],
        observe: MemberObserver,
        on_note: NoteObserver,
        on_process_exit: Callable[[str], None],
    ) -> None:
        self.name = name
        self.error_codes_seen: dict[int, None] = {}
        self.is_zombie = False
        self._settings, self._transport, self._topics = settings, transport, subscription.topics
        self._observe, self._note, self._on_process_exit = (
            partial(observe, name),
            partial(on_note, name),
            on_process_exit,
        )
        self.consumer = ConsumerProtocolMachine(
            settings.group_id, member_id, self._topics, settings.max_poll_interval_ms
        )
        self._timers = MemberTimers(lambda: self.is_stopped)
        self._injector = FaultInjector(
            faults, self._timers, self.inject_fault, lambda fault: self._note(FaultBegan(fault))
        )
        self._condition = ""
        self._coordinator: NodeAddress | None = None
        self._request_id = 0

    @property
    def is_stopped(self) -> bool:
        """Whether it has left, crashed, or was refused for good."""
        return self._condition in ("crashed", "left", "failed")

    @property
    def view(self) -> MemberView:
        """The member as a table shows it."""
        consumer = self.consumer
        generation, owned = consumer.generation, consumer.assigned_partitions
        epoch, state = generation.generation_id, consumer.state
        return MemberView(self.name, generation.member_id, epoch, state, False, owned, self._condition, "", 0, 0)

    def start(self) -> None:
        """Find the coordinator, and join with the first heartbeat."""
        self._injector.reach_milestone(MemberMilestone.STARTED)
        self._send(
            MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in self._topics]),
            RequestTarget.ANY_BROKER,
            self._on_metadata,
            self.start,
        )

    def enforce_rebalance(self, reason: str) -> None:
        """Members of the consumer protocol cannot ask for a rebalance: nothing happens."""

    # -- requests

    def _on_metadata(self, response: Message) -> None:
        assert isinstance(response, MetadataResponse)
        self.consumer.learn_topics({each.topic_id: each.name for each in response.topics if each.name is not None})
        self._find_coordinator()

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
        def failed() -> None:
            self.consumer.repeat_everything()
            self._find_coordinator()

        self._send(self.consumer.heartbeat(), RequestTarget.COORDINATOR, self._on_heartbeat, failed)

    def _on_heartbeat(self, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        was_joined = self.consumer.has_joined
        result = self.consumer.on_response(response)
        if not was_joined and self.consumer.has_joined:
            epoch, member_id = response.member_epoch, self.consumer.generation.member_id
            self._observe(JoinedGroup(epoch, member_id, is_leader=False, protocol_name=None))
        match result:
            case HeartbeatResult.ELSEWHERE:
                self._timers.call_after(RETRY_MS, self._find_coordinator)
            case HeartbeatResult.FENCED:
                self._observe(self.consumer.lose())
                self._send_heartbeat()
            case HeartbeatResult.REFUSED:
                text = response.error_message or ErrorCode.name_of(response.error_code)
                self._observe(ConsumerError(ConsumerErrorKind.GROUP, text, response.error_code, is_fatal=True))
                self._end("failed")
            case _:
                self._timers.set_deadline(self._timers.now_ms() + self.consumer.interval_ms, self._send_heartbeat)
                if result is HeartbeatResult.ASSIGNED:
                    self._timers.call_after(self._injector.delay_ms(MemberFaultKind.SLOW_JOIN) or 0, self._poll)

    def _poll(self) -> None:
        """Reconcile inside poll(), and acknowledge it with a heartbeat at once."""
        changes = self.consumer.reconcile()
        for change in changes:
            self._observe(change)
        if changes:
            self._send_heartbeat()

    def _send(
        self, message: Message, target: RequestTarget, then: Callable[[Message], None], on_failure: Callable[[], None]
    ) -> None:
        self._request_id += 1
        address = self._coordinator if target is RequestTarget.COORDINATOR else None
        request = OutgoingRequest(self._request_id, target, address, message, self._settings.request_timeout_ms)
        self._transport.send(request, lambda found: self._timers.run_when_resumed(lambda: received(found)))

        def received(found: ResponseReceived | RequestFailed) -> None:
            if isinstance(found, RequestFailed):
                self._timers.call_after(RETRY_MS, on_failure)
                return
            if (refused := refusal_in(found.response)) is not None:
                self.error_codes_seen[refused[1]] = None
                self._note(refused[0])
            then(found.response)

    # -- faults and the end

    def inject_fault(self, fault: MemberFault) -> None:
        """Start a fault now, without regard to its trigger."""
        if fault.kind is MemberFaultKind.CRASH:
            self._on_process_exit(self.name)
        self._note(FaultBegan(fault))
        match fault.kind:
            case MemberFaultKind.CRASH:
                self._end("crashed")
            case MemberFaultKind.PAUSE:
                self._condition = "paused"
                self._timers.pause(fault.duration_ms or 0, self._resume)
            case MemberFaultKind.LEAVE:
                asyncio.get_running_loop().call_soon(self._timers.run_when_resumed, self._leave)
            case _:
                raise ValueError(f"a member of the consumer protocol cannot have the fault {fault.kind.value}")

    def _resume(self) -> None:
        self._note(FaultEnded(self._condition))
        self._condition = ""
        self._timers.resume()

    def _leave(self) -> None:
        request, change = self.consumer.leave()
        self._observe(change)
        self._observe(LeftGroup("the consumer is being closed"))
        self._timers.set_deadline(None, self._send_heartbeat)
        self._send(request, RequestTarget.COORDINATOR, lambda response: self._close(), self._close)

    def _close(self) -> None:
        self._observe(ConsumerClosed())
        self._end("left")

    def _end(self, condition: str) -> None:
        self._condition = condition
        self._timers.cancel_all()
