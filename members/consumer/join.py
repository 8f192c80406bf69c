"""The part of a rebalance from a member's JoinGroup to the response to its SyncGroup, as leader or as follower."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from regroup.assignors.interface import Assignor, AssignorMember, LastAssignment, subscribed_topics
from regroup.members.consumer import requests
from regroup.members.consumer.effects import ConsumerChange, ConsumerError, ConsumerErrorKind, JoinedGroup
from regroup.members.consumer.error_actions import Recovery, action_for
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.leader import (
    LeaderAssignmentFailed,
    compute_assignments,
    decode_subscriptions,
    select_assignor,
)
from regroup.members.consumer.metadata import ConsumerMetadata, MetadataSnapshot
from regroup.members.consumer.offsets import ConsumerOffsets
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration, Membership, MemberState
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupRequestAssignment, SyncGroupResponse


class RebalanceStage(Enum):
    """The stages of a member's rebalance; `regroup.members.consumer.rebalance` draws their order."""

    IDLE = "idle"
    COMMITTING = "committing"
    JOINING = "joining"
    SYNCED = "synced"


@dataclass(slots=True)
class GroupJoin:
    """Sends a member's JoinGroup and SyncGroup, and keeps the stage of the rebalance and its results."""

    settings: ConsumerSettings
    assignors: Sequence[Assignor]
    in_flight: InFlightRequests
    membership: Membership
    metadata: ConsumerMetadata
    offsets: ConsumerOffsets
    heartbeats: Heartbeats
    changes: list[ConsumerChange]
    stage: RebalanceStage = RebalanceStage.IDLE
    pending_error: ConsumerError | None = None
    """An error that the next poll() throws; None if there is none."""
    is_leader: bool = False
    assignment_bytes: bytes = b""
    """The assignment in the response to the last SyncGroup, as encoded by the leader."""
    joined_subscription: tuple[str, ...] | None = None
    """The topics that the last JoinGroup subscribed to; None before the first."""
    assignment_snapshot: MetadataSnapshot | None = None
    """The metadata from which the leader made its last assignment.

    The leader rejoins when the metadata differs from it.
    """
    last_assignments: dict[str, LastAssignment] = field(default_factory=dict)
    """By name of each assignor, what the next JoinGroup has in its user data."""
    join_at_ms: int = 0
    """The earliest time of the next JoinGroup in milliseconds: the end of the backoff after an error."""
    _failures: int = 0
    _members_to_assign: dict[str, AssignorMember] | None = None

    # -- JoinGroup

    def send_join_group(self) -> None:
        """Send JoinGroup to the coordinator, which must be known."""
        generation, topics = self.membership.generation, self.metadata.topics
        try:
            protocols = requests.join_group_protocols(
                self.settings, self.assignors, topics, self.offsets.owned_partitions, generation, self.last_assignments
            )
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything, and the member must go on
            self._fail(ConsumerError(ConsumerErrorKind.ASSIGNOR, f"the subscription could not be written: {error}"))
            return
        self.membership.state = MemberState.PREPARING_REBALANCE
        self.stage = RebalanceStage.JOINING
        self.joined_subscription = topics
        request = requests.join_group(self.settings, generation, protocols, self.membership.rejoin_reason)
        timeout_ms = requests.join_group_timeout_ms(self.settings)
        self.in_flight.send_to_coordinator(request, lambda response: self._on_joined(response, generation), timeout_ms)

    def _on_joined(self, response: Message | RequestFailed, sent: MemberGeneration) -> None:
        if isinstance(response, RequestFailed):
            self._request_failed(response)
            return
        assert isinstance(response, JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.membership.generation = MemberGeneration(member_id=response.member_id)
            self._rejoin("need to re-join with the given member-id: " + response.member_id)
        elif response.error_code != ErrorCode.NONE:
            self._refused(JoinGroupResponse, response.error_code, sent)
        elif response.protocol_type not in (None, requests.PROTOCOL_TYPE):
            self._fail_inconsistent(f"the group is of type {response.protocol_type}")
        elif self.membership.state is not MemberState.PREPARING_REBALANCE:
            self._rejoin_later("the member left while it was joining")
        else:
            self._start_generation(response)

    def _start_generation(self, response: JoinGroupResponse) -> None:
        generation = MemberGeneration(response.generation_id, response.member_id, response.protocol_name)
        self.membership.state = MemberState.COMPLETING_REBALANCE
        self.membership.generation = generation
        self.heartbeats.reset_timeouts()
        self.is_leader = response.leader == response.member_id
        self.changes.append(
            JoinedGroup(response.generation_id, response.member_id, self.is_leader, response.protocol_name)
        )
        if self.is_leader:
            self._lead(response)
        else:
            self._send_sync_group([])

    def _lead(self, response: JoinGroupResponse) -> None:
        try:
            members = decode_subscriptions(response.members)
        except LeaderAssignmentFailed as error:
            self._fail(ConsumerError(ConsumerErrorKind.ASSIGNOR, str(error)))
            return
        metadata_is_known = self.metadata.update_group_subscription(tuple(subscribed_topics(members)))
        if response.skip_assignment:
            # A static leader has rejoined: the coordinator has the assignment, the leader only follows the metadata
            # (KIP-814).
            self.assignment_snapshot = self.metadata.snapshot()
            self._send_sync_group([])
        elif metadata_is_known:
            self._assign(members)
        else:
            self._members_to_assign = members

    def assign_when_metadata_known(self) -> bool:
        """Compute the assignment, if this leader had to wait for the metadata of some topics and they are known now.

        Returns True if the generation was lost in the meantime, so that the member has to rejoin, which it can do at
        once.
        """
        members = self._members_to_assign
        if members is None or not self.metadata.is_current:
            return False
        self._members_to_assign = None
        if self.membership.state is MemberState.COMPLETING_REBALANCE:
            self._assign(members)
            return False
        self._rejoin("the generation was lost before the partitions were assigned")
        return True

    def _assign(self, members: dict[str, AssignorMember]) -> None:
        try:
            assignor = select_assignor(self.assignors, self.membership.generation.protocol_name)
            assignments = compute_assignments(assignor, members, self.metadata.cluster)
        except LeaderAssignmentFailed as error:
            self._fail(ConsumerError(ConsumerErrorKind.ASSIGNOR, str(error)))
            return
        self.assignment_snapshot = self.metadata.snapshot()
        self._send_sync_group(assignments)

    # -- SyncGroup

    def _send_sync_group(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        if self.in_flight.coordinator is None:
            self._rejoin_later("the coordinator is not known")
            return
        generation = self.membership.generation
        request = requests.sync_group(self.settings, generation, assignments)
        self.in_flight.send_to_coordinator(request, lambda response: self._on_synced(response, generation))

    def _on_synced(self, response: Message | RequestFailed, sent: MemberGeneration) -> None:
        if isinstance(response, RequestFailed):
            self._request_failed(response)
            return
        assert isinstance(response, SyncGroupResponse)
        membership = self.membership
        if response.error_code != ErrorCode.NONE:
            self._refused(SyncGroupResponse, response.error_code, sent)
        elif response.protocol_type not in (None, requests.PROTOCOL_TYPE):
            self._fail_inconsistent(f"the group is of type {response.protocol_type}")
        elif membership.generation.is_none or membership.state is not MemberState.COMPLETING_REBALANCE:
            self._rejoin("the generation was lost before SyncGroup was answered")
        elif response.protocol_name not in (None, membership.generation.protocol_name):
            self._fail_inconsistent(f"the group works with the assignor {response.protocol_name}")
        else:
            membership.state = MemberState.STABLE
            membership.rejoin_needed, membership.rejoin_reason = False, ""
            self._failures = 0
            self.assignment_bytes = response.assignment
            self.stage = RebalanceStage.SYNCED

    # -- errors of both

    def _refused(self, response: type[Message], code: int, sent: MemberGeneration) -> None:
        action = action_for(response, code)
        api = "JOIN_GROUP" if response is JoinGroupResponse else "SYNC_GROUP"
        if action.rediscovers_coordinator:
            self.in_flight.mark_coordinator_unknown(ErrorCode.name_of(code))
        if self.membership.generation == sent:
            self.membership.reset(action.reset, f"encountered {ErrorCode.name_of(code)} from {api} response")
        if action.recovery is Recovery.REJOIN:
            self._rejoin(f"rebalance failed due to {ErrorCode.name_of(code)}")
        elif action.recovery is Recovery.RETRY_AFTER_BACKOFF:
            self._rejoin_later(f"rebalance failed due to {ErrorCode.name_of(code)}")
        else:
            self._fail(ConsumerError(action.kind, f"{api} was refused", code, action.is_fatal))

    def _request_failed(self, failure: RequestFailed) -> None:
        if failure.is_unsupported:
            code = ErrorCode.UNSUPPORTED_VERSION
            self._fail(ConsumerError(ConsumerErrorKind.SETTINGS, failure.reason, code, is_fatal=True))
        else:
            self._rejoin_later(failure.reason)

    def _rejoin(self, reason: str) -> None:
        self.stage = RebalanceStage.IDLE
        self.membership.request_rejoin(reason)

    def _rejoin_later(self, reason: str) -> None:
        self._rejoin(reason)
        self.join_at_ms = self.in_flight.now_ms + self.settings.backoff_ms(self._failures)
        self._failures += 1

    def _fail_inconsistent(self, text: str) -> None:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        self._fail(ConsumerError(ConsumerErrorKind.GROUP, text, code, is_fatal=True))

    def _fail(self, error: ConsumerError) -> None:
        self._rejoin(f"rebalance failed due to {error.kind.name}")
        self.pending_error = error
