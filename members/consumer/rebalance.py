"""A member's rebalance from its first commit to the new assignment: commit, give up partitions, join, sync, apply.

    IDLE ──▶ COMMITTING ──▶ IDLE ──▶ JOINING ───────────────▶ SYNCED ──▶ IDLE
             before it         JoinGroup, then SyncGroup     the assignment is applied inside poll()
             gives up          after an error back to IDLE

All of it happens inside poll(), except that responses may arrive, and SyncGroup be sent, while the application
processes its records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regroup.assignors.interface import Assignor, RebalanceProtocol
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    ConsumerErrorKind,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.error_actions import MembershipReset
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.join import GroupJoin, RebalanceStage
from regroup.members.consumer.leader import LeaderAssignmentFailed, select_assignor
from regroup.members.consumer.metadata import ConsumerMetadata
from regroup.members.consumer.offsets import ConsumerOffsets, PendingCommit
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Membership, MemberState
from regroup.protocol.consumer.subscription import (
    Assignment,
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
)


@dataclass(slots=True)
class ConsumerRebalance:
    """The rebalances of one member.

    Raises ValueError if its assignors have no rebalance protocol in common.
    """

    settings: ConsumerSettings
    assignors: Sequence[Assignor]
    in_flight: InFlightRequests
    membership: Membership
    metadata: ConsumerMetadata
    offsets: ConsumerOffsets
    changes: list[ConsumerChange]
    group_join: GroupJoin
    protocol: RebalanceProtocol = field(init=False)
    resume_after_listener: Callable[[], None] | None = None
    """What has to follow when the application's rebalance listener has returned.

    The rebalance pauses until then. None if the listener is not running.
    """
    _commit: PendingCommit | None = None

    def __post_init__(self) -> None:
        self.protocol = common_rebalance_protocol(self.assignors)

    # -- inside poll()

    def advance(self) -> None:
        """Do all steps of the rebalance that are possible now, until one has to wait for a response or the
        application."""
        while (
            self.metadata.is_subscribed
            and self.resume_after_listener is None
            and self.group_join.pending_error is None
            and self._advance_stage()
        ):
            pass

    def _advance_stage(self) -> bool:
        """Try to do what the present stage of the rebalance requires. Returns whether the stage that follows may be
        tried at once."""
        match self.group_join.stage:
            case RebalanceStage.IDLE:
                return self._start()
            case RebalanceStage.COMMITTING:
                return self._give_up_when_committed()
            case RebalanceStage.JOINING:
                return self.group_join.assign_when_metadata_known()
            case RebalanceStage.SYNCED:
                return self._complete()

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """Whether the next poll would start or continue a rebalance."""
        is_pending = self.group_join.stage is not RebalanceStage.IDLE
        return self.metadata.is_subscribed and (is_pending or self._needs_rejoin())

    @property
    def is_about_to_revoke(self) -> bool:
        """Whether an eager member waits for its last commit before it revokes all partitions.

        Records that it returned now would be read again by the next owner.
        """
        return self.group_join.stage is RebalanceStage.COMMITTING and self.protocol is RebalanceProtocol.EAGER

    @property
    def commit_is_complete(self) -> bool:
        """Whether the commit before the member gives up partitions is complete, and the rebalance can go on."""
        is_committing = self.group_join.stage is RebalanceStage.COMMITTING
        return is_committing and (self._commit is None or self._commit.is_complete)

    def _needs_rejoin(self) -> bool:
        membership, group_join = self.membership, self.group_join
        if membership.rejoin_needed:
            return True
        snapshot, joined = group_join.assignment_snapshot, group_join.joined_subscription
        if snapshot is not None and snapshot != self.metadata.snapshot():
            membership.request_rejoin("cached metadata has changed since the leader assigned the partitions")
        elif joined is not None and joined != self.metadata.topics:
            membership.request_rejoin("subscription has changed since the member joined")
        return membership.rejoin_needed

    def _start(self) -> bool:
        if not self._needs_rejoin() or self.metadata.awaits_first_metadata:
            return False
        if self.in_flight.coordinator is None:
            self.in_flight.find_coordinator()
            return False
        if self.in_flight.now_ms < self.group_join.join_at_ms:
            return False
        if not self.membership.needs_join_prepare:
            self.group_join.send_join_group()
            return False
        self.membership.needs_join_prepare = False
        self._commit = self.offsets.auto_commit_positions(self.settings.rebalance_timeout_ms)
        self.group_join.stage = RebalanceStage.COMMITTING
        return True

    def _give_up_when_committed(self) -> bool:
        if not self.commit_is_complete:
            return False
        self.group_join.stage = RebalanceStage.IDLE
        self._give_up()
        return True

    def _give_up(self) -> None:
        """Give up partitions before JoinGroup is sent.

        An eager member gives up all of them, a cooperative one those of topics to which it no longer subscribes. A
        member that has lost its generation loses all.
        """
        self.group_join.is_leader = False
        self.metadata.reset_group_subscription()
        owned, generation = self.offsets.owned_partitions, self.membership.generation
        if generation.is_none or not generation.member_id:
            self.lose_all_partitions()
        elif self.protocol is RebalanceProtocol.EAGER:
            self._notify(PartitionsRevoked(owned), lambda: self.offsets.set_owned_partitions(()))
        else:
            topics = frozenset(self.metadata.topics)
            revoked = tuple(each for each in owned if each.topic not in topics)
            if revoked:
                kept = tuple(each for each in owned if each.topic in topics)
                self._notify(PartitionsRevoked(revoked), lambda: self.offsets.set_owned_partitions(kept))

    def lose_all_partitions(self) -> None:
        """Lose all partitions, and call the listener afterwards: other members may own the partitions already."""
        owned = self.offsets.owned_partitions
        if owned:
            self.offsets.set_owned_partitions(())
            self._notify(PartitionsLost(owned), lambda: None)

    def _notify(self, change: ConsumerChange, then: Callable[[], None]) -> None:
        self.changes.append(change)
        if self.settings.waits_for_listener:
            self.resume_after_listener = then
        else:
            then()

    def listener_returned(self) -> None:
        """Continue the rebalance that waited for the application's listener."""
        then, self.resume_after_listener = self.resume_after_listener, None
        if then is not None:
            then()

    # -- applying the assignment

    def _complete(self) -> bool:
        membership, group_join = self.membership, self.group_join
        if membership.generation.is_none or membership.state is not MemberState.STABLE:
            reason = "the generation was lost before the assignment was taken over"
            membership.reset(MembershipReset.MEMBER_ID, reason)
            group_join.stage = RebalanceStage.IDLE
            return True
        try:
            assignor = select_assignor(self.assignors, membership.generation.protocol_name)
            assignment = self._read_assignment()
        except (LeaderAssignmentFailed, MalformedConsumerProtocol) as error:
            # The stage stays: in the Java client too each poll fails like this one until the member leaves the group.
            text = f"member {membership.generation.member_id}: {error}"
            group_join.pending_error = ConsumerError(ConsumerErrorKind.ASSIGNMENT, text)
            return False
        group_join.stage = RebalanceStage.IDLE
        membership.needs_join_prepare = True
        if not group_join.is_leader:
            group_join.assignment_snapshot = None
        topics = frozenset(self.metadata.topics)
        if any(each.topic not in topics for each in assignment.partitions):
            membership.request_rejoin("the assignment does not match the subscription, which has probably changed")
            return True
        self._apply_assignment(assignor, assignment)
        return True

    def _read_assignment(self) -> Assignment:
        if len(self.group_join.assignment_bytes) < 2:
            raise MalformedConsumerProtocol(
                "SyncGroup brought no assignment; the leader's assignor has probably forgotten this member"
            )
        return decode_assignment(self.group_join.assignment_bytes)

    def _apply_assignment(self, assignor: Assignor, assignment: Assignment) -> None:
        before, after = frozenset(self.offsets.owned_partitions), frozenset(assignment.partitions)
        revoked = tuple(each for each in self.offsets.owned_partitions if each not in after)
        added = tuple(each for each in dict.fromkeys(assignment.partitions) if each not in before)

        def take() -> None:
            self._take_partitions(assignor, assignment, added)

        if self.protocol is RebalanceProtocol.COOPERATIVE and revoked:
            # A revoked partition can go to its next owner only in another rebalance (KIP-429).
            self.membership.request_rejoin("need to revoke partitions and re-join")
            self._notify(PartitionsRevoked(revoked), take)
        else:
            take()

    def _take_partitions(self, assignor: Assignor, assignment: Assignment, added: tuple[TopicPartition, ...]) -> None:
        try:
            generation_id = self.membership.generation.generation_id
            self.group_join.last_assignments[assignor.name] = assignor.on_assignment(assignment, generation_id)
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything, and the member must go on
            text = f"the assignor {assignor.name} raised {type(error).__name__} in on_assignment: {error}"
            self.group_join.pending_error = ConsumerError(ConsumerErrorKind.ASSIGNOR, text)
        self.offsets.set_owned_partitions(tuple(dict.fromkeys(assignment.partitions)))
        self._notify(PartitionsAssigned(added), lambda: None)

    @property
    def deadline_ms(self) -> int | None:
        """When JoinGroup or FindCoordinator is due while the application is inside poll(); None if neither is."""
        is_idle = self.group_join.stage is RebalanceStage.IDLE
        if not is_idle or not self.rejoin_needed_or_pending or self.metadata.awaits_first_metadata:
            return None
        if self.in_flight.coordinator is None:
            return self.in_flight.find_coordinator_at_ms
        return self.group_join.join_at_ms


def common_rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """COOPERATIVE if every assignor supports it, else EAGER. Raises ValueError if they have none in common."""
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.supported_protocols for assignor in assignors):
            return protocol
    names = ", ".join(assignor.name for assignor in assignors)
    raise ValueError(f"the assignors {names} have no rebalance protocol in common")
