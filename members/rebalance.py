"""How a member takes part in a rebalance: commit, give up, join, lead or follow, sync, take over.

    IDLE ──▶ COMMITTING ──▶ IDLE ──▶ ASKED ─────────────────▶ SYNCED ──▶ IDLE
             before it         JoinGroup, then SyncGroup     the assignment is taken over inside poll()
             gives up          after an error back to IDLE

Everything happens inside poll(), but for the answers: JoinGroup may be answered, and SyncGroup sent, while the
application works on its records.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from regroup.assignors.interface import Assignor, LastAssignment, Member, RebalanceProtocol
from regroup.members import requests
from regroup.members.heartbeats import Heartbeats
from regroup.members.leading import LeaderFailed, chosen, deal, read_members, subscribed_topics
from regroup.members.offsets import Offsets, OpenCommit
from regroup.members.reactions import Forgets, Then, reaction_to
from regroup.members.settings import ConsumerSettings
from regroup.members.standing import Generation, Phase, Standing
from regroup.members.steps import (
    Change,
    ConsumerError,
    ErrorKind,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.topics import Snapshot, Topics
from regroup.members.wire import NoAnswer, Wire
from regroup.protocol.consumer_protocol import (
    Assignment,
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupRequestAssignment, SyncGroupResponse


class Stage(Enum):
    """How far the member has come; see the drawing above."""

    IDLE = "idle"
    COMMITTING = "committing"
    ASKED = "asked"
    SYNCED = "synced"


class Rebalance:
    """One member's side of all its rebalances."""

    def __init__(
        self,
        settings: ConsumerSettings,
        assignors: Sequence[Assignor],
        wire: Wire,
        standing: Standing,
        topics: Topics,
        offsets: Offsets,
        heartbeats: Heartbeats,
        changes: list[Change],
    ) -> None:
        self._settings = settings
        self._assignors = assignors
        self._wire = wire
        self._standing = standing
        self._topics = topics
        self._offsets = offsets
        self._heartbeats = heartbeats
        self._changes = changes
        self.protocol = common_protocol(assignors)
        self.is_leader = False
        self.failure: ConsumerError | None = None
        self.after_listener: Callable[[], None] | None = None
        """What goes on when the application's callback has returned; nothing else goes on before."""
        self._stage = Stage.IDLE
        self._attempt = 0
        self._failed_in_a_row = 0
        self._join_from_ms = 0
        self._commit: OpenCommit | None = None
        self._leading: dict[str, Member] | None = None
        self._assignment = b""
        self._joined_topics: tuple[str, ...] | None = None
        self._snapshot: Snapshot | None = None
        self._last: dict[str, LastAssignment] = {}

    # -- inside poll()

    def proceed(self) -> None:
        """Go as far as possible without another answer."""
        while self._topics.subscribed and self.after_listener is None and self.failure is None and self._advance():
            pass

    def _advance(self) -> bool:
        match self._stage:
            case Stage.IDLE:
                return self._begin()
            case Stage.COMMITTING:
                return self._give_up_when_committed()
            case Stage.ASKED:
                return self._lead_when_topics_are_known()
            case Stage.SYNCED:
                return self._complete()

    @property
    def wants_to_join(self) -> bool:
        """Whether the next poll would go on with a rebalance."""
        return self._topics.subscribed and (self._stage is not Stage.IDLE or self._needs_rejoin())

    def _needs_rejoin(self) -> bool:
        standing = self._standing
        if not standing.rejoin_needed and self._snapshot is not None and self._snapshot != self._topics.snapshot():
            standing.request_rejoin("cached metadata has changed since the leader dealt out the partitions")
        if not standing.rejoin_needed and self._joined_topics not in (None, self._topics.names):
            standing.request_rejoin("subscription has changed since the member joined")
        return standing.rejoin_needed

    def _begin(self) -> bool:
        if not self._needs_rejoin() or self._topics.waits_for_metadata:
            return False
        if self._wire.coordinator is None:
            self._wire.find_coordinator()
            return False
        if self._wire.now_ms < self._join_from_ms:
            return False
        if not self._standing.prepare_needed:
            self._join()
            return False
        self._standing.prepare_needed = False
        self._commit = self._offsets.commit_held(self._settings.rebalance_timeout_ms)
        self._stage = Stage.COMMITTING
        return True

    def _give_up_when_committed(self) -> bool:
        if self._commit is not None and not self._commit.ended:
            return False
        self._stage = Stage.IDLE
        self._give_up()
        return True

    def _give_up(self) -> None:
        """An eager member gives up all, a cooperative one what it no longer subscribes to; a lost place loses all."""
        self.is_leader = False
        self._topics.follow()
        held, generation = self._offsets.held, self._standing.generation
        if generation.is_none or not generation.member_id:
            self.lose_all()
        elif self.protocol is RebalanceProtocol.EAGER:
            self._notify(PartitionsRevoked(held), lambda: self._offsets.hold(()))
        else:
            names = frozenset(self._topics.names)
            revoked = tuple(each for each in held if each.topic not in names)
            if revoked:
                kept = tuple(each for each in held if each.topic in names)
                self._notify(PartitionsRevoked(revoked), lambda: self._offsets.hold(kept))

    def lose_all(self) -> None:
        """Others may own them already, so they are gone before the application hears of it."""
        held = self._offsets.held
        if held:
            self._offsets.hold(())
            self._notify(PartitionsLost(held), lambda: None)

    def _notify(self, change: Change, then: Callable[[], None]) -> None:
        self._changes.append(change)
        if self._settings.waits_for_listener:
            self.after_listener = then
        else:
            then()

    def listener_returned(self) -> None:
        """Go on behind the callback."""
        then, self.after_listener = self.after_listener, None
        if then is not None:
            then()

    # -- JoinGroup

    def _join(self) -> None:
        generation, names = self._standing.generation, self._topics.names
        try:
            offered = requests.protocols(
                self._settings, self._assignors, names, self._offsets.held, generation, self._last
            )
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything, and the member must live on
            self._fail(ConsumerError(ErrorKind.ASSIGNOR, f"the subscription could not be written: {error}"))
            return
        self._standing.phase = Phase.PREPARING
        self._stage = Stage.ASKED
        self._joined_topics = names
        request = requests.join_group(self._settings, generation, offered, self._standing.rejoin_reason)
        handler = self._unless_abandoned(lambda answer: self._joined(answer, generation))
        self._wire.ask_coordinator(request, handler, requests.join_timeout_ms(self._settings))

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
        self._stage = Stage.IDLE
        self.after_listener = None
        self._leading = None
        self._snapshot = None
        self.is_leader = False
        self._joined_topics = None

    def _joined(self, answer: Message | NoAnswer, sent: Generation) -> None:
        if not isinstance(answer, JoinGroupResponse):
            self._unanswered(answer)
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._standing.generation = Generation(member_id=answer.member_id)
            self._standing.request_rejoin("need to re-join with the given member-id: " + answer.member_id)
            self._stage = Stage.IDLE
        elif answer.error_code != ErrorCode.NONE:
            self._refused(JoinGroupResponse, answer.error_code, sent)
        elif answer.protocol_type not in (None, requests.PROTOCOL_TYPE):
            self._fail(self._inconsistent(f"the group is of type {answer.protocol_type}"))
        elif self._standing.phase is not Phase.PREPARING:
            self._again("the member left while it was joining")
        else:
            self._begin_generation(answer)

    def _begin_generation(self, answer: JoinGroupResponse) -> None:
        standing = self._standing
        standing.phase = Phase.COMPLETING
        standing.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self._heartbeats.restart()
        self.is_leader = answer.leader == answer.member_id
        self._changes.append(JoinedGroup(answer.generation_id, answer.member_id, self.is_leader, answer.protocol_name))
        if not self.is_leader:
            self._sync([])
            return
        try:
            self._elected(answer)
        except LeaderFailed as error:
            self._leader_failed(error)

    def _elected(self, answer: JoinGroupResponse) -> None:
        members = read_members(answer.members)
        topics_are_known = self._topics.lead(subscribed_topics(members))
        if answer.skip_assignment:
            # A static leader that came back: the coordinator has the assignment, the leader only keeps watch (KIP-814).
            self._snapshot = self._topics.snapshot()
            self._sync([])
        elif topics_are_known:
            self._deal(members)
        else:
            self._leading = members

    def _lead_when_topics_are_known(self) -> bool:
        members = self._leading
        if members is None or not self._topics.seen:
            return False
        self._leading = None
        if self._standing.phase is not Phase.COMPLETING:
            self._again("the generation was lost before the partitions were dealt out")
            return True
        try:
            self._deal(members)
        except LeaderFailed as error:
            self._leader_failed(error)
        return False

    def _deal(self, members: dict[str, Member]) -> None:
        assignor = chosen(self._assignors, self._standing.generation.protocol_name)
        assignments = deal(assignor, members, self._topics.cluster)
        self._snapshot = self._topics.snapshot()
        self._sync(assignments)

    def _leader_failed(self, error: LeaderFailed) -> None:
        self._fail(ConsumerError(ErrorKind.ASSIGNOR, str(error)))

    # -- SyncGroup

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        if self._wire.coordinator is None:
            self._pause("the coordinator is not known")
            return
        sent = self._standing.generation
        request = requests.sync_group(self._settings, sent, assignments)
        self._wire.ask_coordinator(request, self._unless_abandoned(lambda answer: self._synced(answer, sent)))

    def _synced(self, answer: Message | NoAnswer, sent: Generation) -> None:
        standing = self._standing
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
            self._assignment = answer.assignment
            self._stage = Stage.SYNCED

    def _inconsistent(self, text: str) -> ConsumerError:
        return ConsumerError(ErrorKind.GROUP, text, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, fatal=True)

    # -- the assignment is taken over

    def _complete(self) -> bool:
        standing = self._standing
        if standing.generation.is_none or standing.phase is not Phase.STABLE:
            standing.reset(Forgets.MEMBER_ID, "the generation was lost before the assignment was taken over")
            self._stage = Stage.IDLE
            return True
        try:
            assignor = chosen(self._assignors, standing.generation.protocol_name)
            assignment = self._read_assignment()
        except (LeaderFailed, MalformedConsumerProtocol) as error:
            # The stage stays: in the Java client too every further poll fails like this one, until the place is lost.
            self.failure = ConsumerError(ErrorKind.ASSIGNMENT, f"member {standing.generation.member_id}: {error}")
            return False
        self._stage = Stage.IDLE
        standing.prepare_needed = True
        if not self.is_leader:
            self._snapshot = None
        names = frozenset(self._topics.names)
        if any(each.topic not in names for each in assignment.partitions):
            standing.request_rejoin("the assignment does not match the subscription, which has probably changed")
            return True
        self._take_over(assignor, assignment)
        return True

    def _read_assignment(self) -> Assignment:
        if len(self._assignment) < 2:
            raise MalformedConsumerProtocol(
                "SyncGroup brought no assignment; the leader's assignor has probably forgotten this member"
            )
        return decode_assignment(self._assignment)

    def _take_over(self, assignor: Assignor, assignment: Assignment) -> None:
        had, gets = frozenset(self._offsets.held), frozenset(assignment.partitions)
        revoked = tuple(each for each in self._offsets.held if each not in gets)
        added = tuple(each for each in dict.fromkeys(assignment.partitions) if each not in had)

        def take() -> None:
            self._settle(assignor, assignment, added)

        if self.protocol is RebalanceProtocol.COOPERATIVE and revoked:
            # What was given up can go to its new owner only in another rebalance (KIP-429).
            self._standing.request_rejoin("need to revoke partitions and re-join")
            self._notify(PartitionsRevoked(revoked), take)
        else:
            take()

    def _settle(self, assignor: Assignor, assignment: Assignment, added: tuple[TopicPartition, ...]) -> None:
        self._last[assignor.name] = assignor.on_assignment(assignment, self._standing.generation.number)
        self._offsets.hold(tuple(dict.fromkeys(assignment.partitions)))
        self._notify(PartitionsAssigned(added), lambda: None)

    # -- what can go wrong

    def _refused(self, response: type[Message], code: int, sent: Generation) -> None:
        reaction = reaction_to(response, code)
        api = "JOIN_GROUP" if response is JoinGroupResponse else "SYNC_GROUP"
        if reaction.finds_coordinator:
            self._wire.forget_coordinator(ErrorCode.named(code))
        if self._standing.generation == sent:
            self._standing.reset(reaction.forgets, f"encountered {ErrorCode.named(code)} from {api} response")
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
        self._stage = Stage.IDLE
        self._standing.request_rejoin(reason)

    def _pause(self, reason: str) -> None:
        self._again(reason)
        self._join_from_ms = self._wire.now_ms + self._settings.backoff_ms(self._failed_in_a_row)
        self._failed_in_a_row += 1

    def _fail(self, error: ConsumerError) -> None:
        self._again(f"rebalance failed due to {error.kind.name}")
        self.failure = error

    @property
    def deadline_ms(self) -> int | None:
        """When a rebalance that waits for its turn may go on; counts inside poll() only."""
        if self._stage is not Stage.IDLE or not self.wants_to_join or self._topics.waits_for_metadata:
            return None
        return self._wire.find_at_ms if self._wire.coordinator is None else self._join_from_ms


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """COOPERATIVE if every assignor can do it, else EAGER. ValueError if they have nothing in common."""
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.supported_protocols for assignor in assignors):
            return protocol
    names = ", ".join(assignor.name for assignor in assignors)
    raise ValueError(f"the assignors {names} have no rebalance protocol in common")
