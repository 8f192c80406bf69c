"""A member's talk with its coordinator from JoinGroup to the answer of SyncGroup, as leader or as follower."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from regroup.assignors.interface import Assignor, LastAssignment, Member
from regroup.members.consumer import requests
from regroup.members.consumer.effects import Change, ConsumerError, ErrorKind, JoinedGroup
from regroup.members.consumer.error_actions import Then, reaction_to
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.in_flight import NoAnswer, Wire
from regroup.members.consumer.leader import LeaderFailed, chosen, deal, read_members, subscribed_topics
from regroup.members.consumer.metadata import Snapshot, Topics
from regroup.members.consumer.offsets import Offsets
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Generation, Phase, Standing
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupRequestAssignment, SyncGroupResponse


class Stage(Enum):
    """How far the member has come; drawn in `regroup.members.consumer.rebalance`."""

    IDLE = "idle"
    COMMITTING = "committing"
    ASKED = "asked"
    SYNCED = "synced"


@dataclass(slots=True)
class Joining:
    """Where the talk stands, and what came of it."""

    settings: ConsumerSettings
    assignors: Sequence[Assignor]
    wire: Wire
    standing: Standing
    topics: Topics
    offsets: Offsets
    heartbeats: Heartbeats
    changes: list[Change]
    stage: Stage = Stage.IDLE
    failure: ConsumerError | None = None
    is_leader: bool = False
    assignment: bytes = b""
    """What SyncGroup brought."""
    joined_topics: tuple[str, ...] | None = None
    """The subscription of the last JoinGroup."""
    snapshot: Snapshot | None = None
    """What a leader has dealt out; if the cluster looks otherwise, it is to be dealt out again."""
    last: dict[str, LastAssignment] = field(default_factory=dict)
    """What each assignor is to tell the next leader."""
    join_from_ms: int = 0
    _attempt: int = 0
    _failed_in_a_row: int = 0
    _leading: dict[str, Member] | None = None

    # -- JoinGroup

    def join(self) -> None:
        """Send JoinGroup; the coordinator must be known."""
        generation, names = self.standing.generation, self.topics.names
        try:
            offered = requests.protocols(self.settings, self.assignors, names, self.offsets.held, generation, self.last)
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything, and the member must live on
            self._fail(ConsumerError(ErrorKind.ASSIGNOR, f"the subscription could not be written: {error}"))
            return
        self.standing.phase = Phase.PREPARING
        self.stage = Stage.ASKED
        self.joined_topics = names
        request = requests.join_group(self.settings, generation, offered, self.standing.rejoin_reason)
        handler = self._unless_abandoned(lambda answer: self._joined(answer, generation))
        self.wire.ask_coordinator(request, handler, requests.join_timeout_ms(self.settings))

    def _unless_abandoned(self, handler: Callable[[Message | NoAnswer], None]) -> Callable[[Message | NoAnswer], None]:
        self._attempt += 1
        attempt = self._attempt

        def guarded(answer: Message | NoAnswer) -> None:
            if attempt == self._attempt:
                handler(answer)

        return guarded

    def abandon(self) -> None:
        """Whatever comes back of the rebalance under way is not for this member any more."""
        self._attempt += 1
        self.stage = Stage.IDLE
        self._leading = None
        self.snapshot = None
        self.is_leader = False
        self.joined_topics = None

    def _joined(self, answer: Message | NoAnswer, sent: Generation) -> None:
        if not isinstance(answer, JoinGroupResponse):
            self._unanswered(answer)
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.standing.generation = Generation(member_id=answer.member_id)
            self.standing.request_rejoin("need to re-join with the given member-id: " + answer.member_id)
            self.stage = Stage.IDLE
        elif answer.error_code != ErrorCode.NONE:
            self._refused(JoinGroupResponse, answer.error_code, sent)
        elif answer.protocol_type not in (None, requests.PROTOCOL_TYPE):
            self._fail(self._inconsistent(f"the group is of type {answer.protocol_type}"))
        elif self.standing.phase is not Phase.PREPARING:
            self._again("the member left while it was joining")
        else:
            self._begin_generation(answer)

    def _begin_generation(self, answer: JoinGroupResponse) -> None:
        standing = self.standing
        standing.phase = Phase.COMPLETING
        standing.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self.heartbeats.restart()
        self.is_leader = answer.leader == answer.member_id
        self.changes.append(JoinedGroup(answer.generation_id, answer.member_id, self.is_leader, answer.protocol_name))
        if not self.is_leader:
            self._sync([])
            return
        try:
            self._elected(answer)
        except LeaderFailed as error:
            self._leader_failed(error)

    def _elected(self, answer: JoinGroupResponse) -> None:
        members = read_members(answer.members)
        topics_are_known = self.topics.lead(subscribed_topics(members))
        if answer.skip_assignment:
            # A static leader that came back: the coordinator has the assignment, the leader only keeps watch (KIP-814).
            self.snapshot = self.topics.snapshot()
            self._sync([])
        elif topics_are_known:
            self._deal(members)
        else:
            self._leading = members

    def lead_when_topics_are_known(self) -> bool:
        """Deal out what had to wait for metadata. Whether the rebalance can go on at once."""
        members = self._leading
        if members is None or not self.topics.seen:
            return False
        self._leading = None
        if self.standing.phase is not Phase.COMPLETING:
            self._again("the generation was lost before the partitions were dealt out")
            return True
        try:
            self._deal(members)
        except LeaderFailed as error:
            self._leader_failed(error)
        return False

    def _deal(self, members: dict[str, Member]) -> None:
        assignor = chosen(self.assignors, self.standing.generation.protocol_name)
        assignments = deal(assignor, members, self.topics.cluster)
        self.snapshot = self.topics.snapshot()
        self._sync(assignments)

    def _leader_failed(self, error: LeaderFailed) -> None:
        self._fail(ConsumerError(ErrorKind.ASSIGNOR, str(error)))

    # -- SyncGroup

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        if self.wire.coordinator is None:
            self._pause("the coordinator is not known")
            return
        sent = self.standing.generation
        request = requests.sync_group(self.settings, sent, assignments)
        self.wire.ask_coordinator(request, self._unless_abandoned(lambda answer: self._synced(answer, sent)))

    def _synced(self, answer: Message | NoAnswer, sent: Generation) -> None:
        standing = self.standing
        if not isinstance(answer, SyncGroupResponse):
            self._unanswered(answer)
        elif answer.error_code != ErrorCode.NONE:
            self._refused(SyncGroupResponse, answer.error_code, sent)
        elif answer.protocol_type not in (None, requests.PROTOCOL_TYPE):
            self._fail(self._inconsistent(f"the group is of type {answer.protocol_type}"))
        elif standing.generation.is_none or standing.phase is not Phase.COMPLETING:
            self._again("the generation was lost before SyncGroup was answered")
        elif answer.protocol_name not in (None, standing.generation.protocol_name):
            self._fail(self._inconsistent(f"the group works with the assignor {answer.protocol_name}"))
        else:
            standing.phase = Phase.STABLE
            standing.rejoin_needed, standing.rejoin_reason = False, ""
            self._failed_in_a_row = 0
            self.assignment = answer.assignment
            self.stage = Stage.SYNCED

    def _inconsistent(self, text: str) -> ConsumerError:
        return ConsumerError(ErrorKind.GROUP, text, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, fatal=True)

    # -- what can go wrong

    def _refused(self, response: type[Message], code: int, sent: Generation) -> None:
        reaction = reaction_to(response, code)
        api = "JOIN_GROUP" if response is JoinGroupResponse else "SYNC_GROUP"
        if reaction.finds_coordinator:
            self.wire.forget_coordinator(ErrorCode.named(code))
        if self.standing.generation == sent:
            self.standing.reset(reaction.forgets, f"encountered {ErrorCode.named(code)} from {api} response")
        if reaction.then is Then.AT_ONCE:
            self._again(f"rebalance failed due to {ErrorCode.named(code)}")
        elif reaction.then is Then.AFTER_BACKOFF:
            self._pause(f"rebalance failed due to {ErrorCode.named(code)}")
        else:
            self._fail(ConsumerError(reaction.kind, f"{api} was refused", code, reaction.fatal))

    def _unanswered(self, answer: Message | NoAnswer) -> None:
        reason = answer.reason if isinstance(answer, NoAnswer) else "the answer was of another kind"
        if isinstance(answer, NoAnswer) and answer.unsupported:
            self._fail(ConsumerError(ErrorKind.SETTINGS, reason, ErrorCode.UNSUPPORTED_VERSION, fatal=True))
        else:
            self._pause(reason)

    def _again(self, reason: str) -> None:
        self.stage = Stage.IDLE
        self.standing.request_rejoin(reason)

    def _pause(self, reason: str) -> None:
        self._again(reason)
        self.join_from_ms = self.wire.now_ms + self.settings.backoff_ms(self._failed_in_a_row)
        self._failed_in_a_row += 1

    def _fail(self, error: ConsumerError) -> None:
        self._again(f"rebalance failed due to {error.kind.name}")
        self.failure = error
