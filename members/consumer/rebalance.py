"""How a member takes part in a rebalance: commit, give up, join, lead or follow, sync, take over.

    IDLE ──▶ COMMITTING ──▶ IDLE ──▶ ASKED ─────────────────▶ SYNCED ──▶ IDLE
             before it         JoinGroup, then SyncGroup     the assignment is taken over inside poll()
             gives up          after an error back to IDLE

Everything happens inside poll(), but for the answers: JoinGroup may be answered, and SyncGroup sent, while the
application works on its records.
"""

from collections.abc import Callable, Sequence

from regroup.assignors.interface import Assignor, RebalanceProtocol
from regroup.members.consumer.effects import (
    Change,
    ConsumerError,
    ErrorKind,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.error_actions import Forgets
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.in_flight import Wire
from regroup.members.consumer.join import Joining, Stage
from regroup.members.consumer.leader import LeaderFailed, chosen
from regroup.members.consumer.metadata import Topics
from regroup.members.consumer.offsets import Offsets, OpenCommit
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase, Standing
from regroup.protocol.consumer.subscription import (
    Assignment,
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
)


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
        self._changes = changes
        self.joining = Joining(settings, assignors, wire, standing, topics, offsets, heartbeats, changes)
        self.protocol = common_protocol(assignors)
        self.after_listener: Callable[[], None] | None = None
        """What goes on when the application's callback has returned; nothing else goes on before."""
        self._commit: OpenCommit | None = None

    # -- inside poll()

    def proceed(self) -> None:
        """Go as far as possible without another answer."""
        while (
            self._topics.subscribed and self.after_listener is None and self.joining.failure is None and self._advance()
        ):
            pass

    def _advance(self) -> bool:
        match self.joining.stage:
            case Stage.IDLE:
                return self._begin()
            case Stage.COMMITTING:
                return self._give_up_when_committed()
            case Stage.ASKED:
                return self.joining.lead_when_topics_are_known()
            case Stage.SYNCED:
                return self._complete()

    @property
    def wants_to_join(self) -> bool:
        """Whether the next poll would go on with a rebalance."""
        return self._topics.subscribed and (self.joining.stage is not Stage.IDLE or self._needs_rejoin())

    @property
    def is_about_to_give_up(self) -> bool:
        """An eager member commits before it gives everything up: what it read from then on, somebody else would too."""
        return self.joining.stage is Stage.COMMITTING and self.protocol is RebalanceProtocol.EAGER

    def _needs_rejoin(self) -> bool:
        standing = self._standing
        if (
            not standing.rejoin_needed
            and self.joining.snapshot is not None
            and self.joining.snapshot != self._topics.snapshot()
        ):
            standing.request_rejoin("cached metadata has changed since the leader dealt out the partitions")
        if not standing.rejoin_needed and self.joining.joined_topics not in (None, self._topics.names):
            standing.request_rejoin("subscription has changed since the member joined")
        return standing.rejoin_needed

    def _begin(self) -> bool:
        if not self._needs_rejoin() or self._topics.waits_for_metadata:
            return False
        if self._wire.coordinator is None:
            self._wire.find_coordinator()
            return False
        if self._wire.now_ms < self.joining.join_from_ms:
            return False
        if not self._standing.prepare_needed:
            self.joining.join()
            return False
        self._standing.prepare_needed = False
        self._commit = self._offsets.commit_held(self._settings.rebalance_timeout_ms)
        self.joining.stage = Stage.COMMITTING
        return True

    def _give_up_when_committed(self) -> bool:
        if self._commit is not None and not self._commit.ended:
            return False
        self.joining.stage = Stage.IDLE
        self._give_up()
        return True

    def _give_up(self) -> None:
        """An eager member gives up all, a cooperative one what it no longer subscribes to; a lost place loses all."""
        self.joining.is_leader = False
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

    def abandon(self) -> None:
        """Whatever comes back of the rebalance under way is not for this member any more."""
        self.joining.abandon()
        self.after_listener = None

    # -- the assignment is taken over

    def _complete(self) -> bool:
        standing = self._standing
        if standing.generation.is_none or standing.phase is not Phase.STABLE:
            standing.reset(Forgets.MEMBER_ID, "the generation was lost before the assignment was taken over")
            self.joining.stage = Stage.IDLE
            return True
        try:
            assignor = chosen(self._assignors, standing.generation.protocol_name)
            assignment = self._read_assignment()
        except (LeaderFailed, MalformedConsumerProtocol) as error:
            # The stage stays: in the Java client too every further poll fails like this one, until the place is lost.
            self.joining.failure = ConsumerError(
                ErrorKind.ASSIGNMENT, f"member {standing.generation.member_id}: {error}"
            )
            return False
        self.joining.stage = Stage.IDLE
        standing.prepare_needed = True
        if not self.joining.is_leader:
            self.joining.snapshot = None
        names = frozenset(self._topics.names)
        if any(each.topic not in names for each in assignment.partitions):
            standing.request_rejoin("the assignment does not match the subscription, which has probably changed")
            return True
        self._take_over(assignor, assignment)
        return True

    def _read_assignment(self) -> Assignment:
        if len(self.joining.assignment) < 2:
            raise MalformedConsumerProtocol(
                "SyncGroup brought no assignment; the leader's assignor has probably forgotten this member"
            )
        return decode_assignment(self.joining.assignment)

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
        try:
            number = self._standing.generation.number
            self.joining.last[assignor.name] = assignor.on_assignment(assignment, number)
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything, and the member must live on
            text = f"the assignor {assignor.name} raised {type(error).__name__} in on_assignment: {error}"
            self.joining.failure = ConsumerError(ErrorKind.ASSIGNOR, text)
        self._offsets.hold(tuple(dict.fromkeys(assignment.partitions)))
        self._notify(PartitionsAssigned(added), lambda: None)

    @property
    def deadline_ms(self) -> int | None:
        """When a rebalance that waits for its turn may go on; counts inside poll() only."""
        if self.joining.stage is not Stage.IDLE or not self.wants_to_join or self._topics.waits_for_metadata:
            return None
        return self._wire.find_at_ms if self._wire.coordinator is None else self.joining.join_from_ms


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """COOPERATIVE if every assignor can do it, else EAGER. ValueError if they have nothing in common."""
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.supported_protocols for assignor in assignors):
            return protocol
    names = ", ".join(assignor.name for assignor in assignors)
    raise ValueError(f"the assignors {names} have no rebalance protocol in common")
