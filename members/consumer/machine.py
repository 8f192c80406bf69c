"""A consumer of the classic group protocol as a state machine without I/O: inputs go in, effects come out.

    consumer = ConsumerMachine(ConsumerSettings(group_id="payments"))
    effects = consumer.receive(Subscribe(("orders",)), now_ms)
    effects = consumer.receive(Poll(), now_ms)
    effects.requests       to be sent, each with a request id
    effects.changes        what happened to its partitions, its commits and its membership
    effects.poll_error     what poll() would throw
    effects.deadline_ms    when `TimePassed` is due, if no other input comes before

It behaves as Kafka's Java client does: rebalances advance only while the application is inside poll(), heartbeats go
on in between. `now_ms` counts from any origin, and never backwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regroup.assignors.interface import Assignor
from regroup.assignors.registry import assignor_named
from regroup.members.consumer import requests
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    ConsumerEffects,
    ConsumerError,
    LeftGroup,
    NodeAddress,
    PartitionsRevoked,
)
from regroup.members.consumer.error_actions import MembershipReset
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.inputs import (
    Close,
    Commit,
    ConsumerInput,
    EnforceRebalance,
    ListenerReturned,
    MetadataUpdated,
    Poll,
    PollReturned,
    RecordsConsumed,
    RequestFailed,
    ResponseReceived,
    Subscribe,
    TimePassed,
    Unsubscribe,
)
from regroup.members.consumer.join import GroupJoin
from regroup.members.consumer.metadata import ConsumerMetadata
from regroup.members.consumer.offsets import ConsumerOffsets, PendingCommit
from regroup.members.consumer.rebalance import ConsumerRebalance
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration, Membership, MemberState
from regroup.protocol.consumer.subscription import TopicPartition

__all__ = ["ConsumerMachine"]


@dataclass(slots=True)
class _Closing:
    until_ms: int
    leaves_group: bool | None
    commit: PendingCommit | None
    has_left: bool = False


class ConsumerMachine:
    """One consumer in one group, as a state machine.

    `partition_assignment_strategy` names assignors among those handed in, Kafka's own, and those of installed packages.
    Raises AssignorError for an unknown name, ValueError for assignors that cannot be combined.
    """

    def __init__(self, settings: ConsumerSettings, assignors: Iterable[Assignor] = ()) -> None:
        self.settings = settings
        offered = resolve_assignors(settings, assignors)
        changes: list[ConsumerChange] = []
        in_flight, membership = InFlightRequests(settings), Membership()
        metadata = ConsumerMetadata(settings, in_flight)
        offsets = ConsumerOffsets(settings, in_flight, membership, metadata, changes)
        heartbeats = Heartbeats(settings, in_flight, membership, self._leave)
        join = GroupJoin(settings, offered, in_flight, membership, metadata, offsets, heartbeats, changes)
        self._changes = changes
        self._in_flight = in_flight
        self._membership = membership
        self._metadata = metadata
        self._offsets = offsets
        self._heartbeats = heartbeats
        self._rebalance = ConsumerRebalance(settings, offered, in_flight, membership, metadata, offsets, changes, join)
        self._group_join = join
        self._parts_with_errors = (heartbeats, in_flight, join, offsets)
        self._is_polling = False
        self._poll_error: ConsumerError | None = None
        self._closing: _Closing | None = None
        self.is_closed = False

    # -- its state, to look at

    @property
    def state(self) -> MemberState:
        """The state of the consumer's membership in its group."""
        return self._membership.state

    @property
    def generation(self) -> MemberGeneration:
        """The generation id, member id and assignor of the last JoinGroup, as far as they are still valid."""
        return self._membership.generation

    @property
    def coordinator(self) -> NodeAddress | None:
        """The coordinator's address; None while it is unknown."""
        return self._in_flight.coordinator

    @property
    def is_leader(self) -> bool:
        """Whether this member is the leader of its generation."""
        return self._rebalance.group_join.is_leader

    @property
    def assigned_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer owns, in the order of its assignment."""
        return self._offsets.owned_partitions

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record of each owned partition, where it is known."""
        return self._offsets.positions

    @property
    def is_polling(self) -> bool:
        """Whether the application is inside poll()."""
        return self._is_polling

    @property
    def is_closing(self) -> bool:
        """Whether `Close` was received.

        Records that the application has not processed by then belong to the next owner.
        """
        return self._closing is not None

    @property
    def returns_records(self) -> bool:
        """Whether poll() returns records now.

        It returns none while an eager member is about to revoke all partitions (KAFKA-14196).
        """
        return self._is_polling and not self._rebalance.is_about_to_revoke

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """Whether the next poll would start or continue a rebalance."""
        return self._rebalance.rejoin_needed_or_pending

    def awaits(self, request_id: int) -> bool:
        """Whether the consumer still waits for the response to a request."""
        return self._in_flight.awaits(request_id)

    # -- the machine

    def receive(self, consumer_input: ConsumerInput, now_ms: int) -> ConsumerEffects:
        """Process one input, and return what follows from it. After `ConsumerClosed` every input is ignored."""
        if self.is_closed:
            return ConsumerEffects()
        self._in_flight.now_ms = max(now_ms, self._in_flight.now_ms)
        self._in_flight.expire()
        self._process(consumer_input)
        if self._closing is None:
            self._advance()
        self._offsets.retry_commits()
        if self._closing is None and self._rebalance.commit_is_complete:
            self._advance()
        if self._closing is not None:
            self._advance_closing(self._closing)
        return self._take_effects()

    def _process(self, consumer_input: ConsumerInput) -> None:
        match consumer_input:
            case ResponseReceived(request_id, response):
                self._in_flight.complete(request_id, response)
            case RequestFailed(request_id):
                self._in_flight.complete(request_id, consumer_input)
            case MetadataUpdated(cluster):
                self._metadata.update(cluster)
            case TimePassed():
                pass
            case Poll():
                self._is_polling = not self.is_closing  # a consumer that closes cannot be polled any more
            case PollReturned():
                self._is_polling = False
            case ListenerReturned():
                self._rebalance.listener_returned()
            case Subscribe():
                self._metadata.subscribe(consumer_input)
            case Unsubscribe():
                self._give_up_all()
                self._offsets.end_retries()
                self._leave("the consumer unsubscribed from all topics")
                self._metadata.unsubscribe()
            case RecordsConsumed(positions):
                self._offsets.update_positions(positions)
            case Commit(offsets, is_sync):
                retry_for_ms = self.settings.default_api_timeout_ms if is_sync else None
                self._offsets.commit(self.positions if offsets is None else offsets, retry_for_ms=retry_for_ms)
            case EnforceRebalance(reason):
                self._membership.request_rejoin(reason)
            case Close(timeout_ms, leaves_group) if self._closing is None:
                self._is_polling = False
                commit = self._offsets.auto_commit_positions(timeout_ms)
                self._closing = _Closing(self._in_flight.now_ms + timeout_ms, leaves_group, commit)

    def _advance(self) -> None:
        self._heartbeats.check_timers(self._is_polling)
        if not self._is_polling or self._raise_pending_error():
            return
        self._metadata.request_if_due()
        self._rebalance.advance()
        if not self._raise_pending_error():
            # As in the Java client, poll() comes to the offsets only when no rebalance is needed or pending.
            if not self._rebalance.rejoin_needed_or_pending:
                self._offsets.fetch_and_auto_commit()
            self._metadata.request_if_due()

    def _raise_pending_error(self) -> bool:
        """End the present poll with one pending error, if there is one. Returns whether there was one.

        The error of a JoinGroup from before the application unsubscribed waits for its next subscription.
        """
        for part in self._parts_with_errors:
            if part is self._group_join and not self._metadata.is_subscribed:
                continue
            if part.pending_error is not None:
                self._poll_error, part.pending_error = part.pending_error, None
                self._is_polling = False
                return True
        return False

    def _leave(self, reason: str, leaves_group: bool | None = None) -> None:
        """Send LeaveGroup without waiting for its response, and reset the membership.

        A static member sends it only if `leaves_group` is true.
        """
        membership, in_flight = self._membership, self._in_flight
        sends_leave = not self.settings.is_static if leaves_group is None else leaves_group
        is_member = membership.state is not MemberState.UNJOINED and membership.generation.member_id
        if is_member and sends_leave and in_flight.coordinator is not None:
            request = requests.leave_group(self.settings, membership.generation, reason)
            in_flight.send_to_coordinator(request, lambda response: None)
            self._changes.append(LeftGroup(reason))
        membership.reset(MembershipReset.MEMBER_ID, "consumer pro-actively leaving the group")

    def _give_up_all(self) -> None:
        """Give up all partitions: they are revoked in a stable membership, and lost in any other."""
        membership, owned = self._membership, self.assigned_partitions
        if membership.generation.is_none or membership.is_rebalancing:
            self._rebalance.lose_all_partitions()
        elif owned:
            self._offsets.set_owned_partitions(())
            self._changes.append(PartitionsRevoked(owned))
        self._rebalance.resume_after_listener = None

    def _advance_closing(self, closing: _Closing) -> None:
        is_time_up = self._in_flight.now_ms >= closing.until_ms
        if closing.commit is not None and not closing.commit.is_complete and not is_time_up:
            return
        if not closing.has_left:
            closing.has_left = True
            self._give_up_all()
            self._leave("the consumer is being closed", closing.leaves_group)
        if is_time_up or not self._in_flight.has_coordinator_request:
            self.is_closed = True
            self._changes.append(ConsumerClosed())

    def _take_effects(self) -> ConsumerEffects:
        in_flight = self._in_flight
        effects = ConsumerEffects(
            tuple(in_flight.outbox),
            tuple(self._changes),
            self._poll_error,
            in_flight.disconnects_coordinator,
            None if self.is_closed else self._deadline_ms(),
        )
        in_flight.outbox, in_flight.disconnects_coordinator = [], False
        self._changes.clear()
        self._poll_error = None
        return effects

    def _deadline_ms(self) -> int | None:
        is_polling = self._is_polling
        reaches_offsets = is_polling and not self._rebalance.rejoin_needed_or_pending
        deadlines = [self._in_flight.deadline_ms, self._offsets.deadline_ms(reaches_offsets)]
        if self._closing is not None:
            deadlines.append(self._closing.until_ms)
        else:
            deadlines.append(self._heartbeats.deadline_ms(is_polling))
            if is_polling:
                deadlines.append(self._metadata.deadline_ms)
                if self._rebalance.resume_after_listener is None:
                    deadlines.append(self._rebalance.deadline_ms)
        return min([deadline for deadline in deadlines if deadline is not None], default=None)


def resolve_assignors(settings: ConsumerSettings, assignors: Iterable[Assignor]) -> Sequence[Assignor]:
    """The assignors that `partition_assignment_strategy` names, in its order.

    Each is one of those given here, or else a registered one.
    """
    own = {assignor.name: assignor for assignor in assignors}
    return tuple(own.get(name) or assignor_named(name) for name in settings.partition_assignment_strategy)
