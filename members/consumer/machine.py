"""A consumer of the classic group protocol as a machine without IO: happenings in, steps out.

    consumer = Consumer(ConsumerSettings(group_id="payments"))
    step = consumer.receive(Subscribe(("orders",)), now_ms)
    step = consumer.receive(Poll(), now_ms)
    step.requests      to be sent, each with a number
    step.changes       what happened to its partitions, its commits and its place in the group
    step.raised        what poll() would throw
    step.deadline_ms   when to come back with TimePassed, if nothing else happens

It behaves as Kafka's Java client does: rebalances advance only while the application is inside poll(), heartbeats go
on in between. Milliseconds count from any origin, but never backwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regroup.assignors.interface import Assignor
from regroup.assignors.registry import assignor_named
from regroup.members.consumer import requests
from regroup.members.consumer.effects import (
    Address,
    Change,
    Closed,
    ConsumerError,
    LeftGroup,
    PartitionsRevoked,
    Step,
)
from regroup.members.consumer.error_actions import Forgets
from regroup.members.consumer.heartbeats import Heartbeats
from regroup.members.consumer.in_flight import NoAnswer, Wire
from regroup.members.consumer.inputs import (
    Answered,
    Close,
    ClusterSeen,
    Commit,
    Consumed,
    EnforceRebalance,
    Happening,
    ListenerReturned,
    Poll,
    PollReturned,
    Subscribe,
    TimePassed,
    Unanswered,
    Unsubscribe,
)
from regroup.members.consumer.metadata import Topics
from regroup.members.consumer.offsets import Offsets, OpenCommit
from regroup.members.consumer.rebalance import Rebalance
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Generation, Phase, Standing
from regroup.protocol.consumer.subscription import TopicPartition


@dataclass(slots=True)
class _Closing:
    until_ms: int
    leaves_group: bool | None
    commit: OpenCommit | None
    left: bool = False


class Consumer:
    """One member of one group.

    `partition_assignment_strategy` names assignors among those handed in, Kafka's own, and those that installed
    packages offer. Raises AssignorError for an unknown name, ValueError if several cannot work together.
    """

    def __init__(self, settings: ConsumerSettings, assignors: Iterable[Assignor] = ()) -> None:
        self.settings = settings
        self._changes: list[Change] = []
        self._wire = Wire(settings)
        self._standing = Standing()
        self._topics = Topics(settings, self._wire)
        self._offsets = Offsets(settings, self._wire, self._standing, self._topics, self._changes)
        self._heartbeats = Heartbeats(settings, self._wire, self._standing, self._leave)
        self._rebalance = Rebalance(
            settings,
            _offered(settings, assignors),
            self._wire,
            self._standing,
            self._topics,
            self._offsets,
            self._heartbeats,
            self._changes,
        )
        self._polling = False
        self._raised: ConsumerError | None = None
        self._closing: _Closing | None = None
        self.is_closed = False

    # -- what one may look at

    @property
    def phase(self) -> Phase:
        return self._standing.phase

    @property
    def generation(self) -> Generation:
        """Number, member id and assignor of the generation that the member believes in."""
        return self._standing.generation

    @property
    def coordinator(self) -> Address | None:
        """Where the coordinator is, if that is known."""
        return self._wire.coordinator

    @property
    def is_leader(self) -> bool:
        return self._rebalance.joining.is_leader

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions it owns, in the order of its assignment."""
        return self._offsets.held

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record to read, where that is known."""
        return self._offsets.positions

    @property
    def topics(self) -> tuple[str, ...]:
        """What it subscribes to at this moment; a pattern gives what it matches."""
        return self._topics.names

    @property
    def is_polling(self) -> bool:
        """Whether the application is inside poll()."""
        return self._polling

    @property
    def is_closing(self) -> bool:
        """It was told to close; what its application has not finished by now is not its own any more."""
        return self._closing is not None

    @property
    def returns_records(self) -> bool:
        """Whether poll() has records for the application: not while all is about to be given up (KAFKA-14196)."""
        return self._polling and not self._rebalance.is_about_to_give_up

    @property
    def wants_to_join(self) -> bool:
        """Whether the next poll would begin or continue a rebalance."""
        return self._rebalance.wants_to_join

    # -- the machine

    def receive(self, happening: Happening, now_ms: int) -> Step:
        """Take in one happening and say what follows from it."""
        if self.is_closed:
            return Step()
        self._wire.now_ms = max(now_ms, self._wire.now_ms)
        self._wire.expire()
        self._take(happening)
        if self._closing is None:
            self._proceed()
        self._offsets.proceed()
        if self._closing is not None:
            self._close(self._closing)
        return self._step()

    def _take(self, happening: Happening) -> None:
        match happening:
            case Answered(number, response):
                self._wire.take(number, response)
            case Unanswered(number, reason, unsupported):
                self._wire.take(number, NoAnswer(reason, unsupported))
            case ClusterSeen(cluster):
                self._topics.know(cluster)
            case TimePassed():
                pass
            case Poll():
                self._polling = not self.is_closing  # a closed consumer cannot be polled any more
            case PollReturned():
                self._polling = False
            case ListenerReturned():
                self._rebalance.listener_returned()
            case _:
                self._obey(happening)

    def _obey(self, wish: Happening) -> None:
        match wish:
            case Subscribe():
                self._topics.subscribe(wish)
            case Unsubscribe():
                self._drop_all()
                self._leave("the consumer unsubscribed from all topics")
                self._topics.unsubscribe()
            case Consumed(positions):
                self._offsets.consumed(positions)
            case Commit(offsets, wait):
                retry_for_ms = self.settings.default_api_timeout_ms if wait else None
                self._offsets.commit(self.positions if offsets is None else offsets, retry_for_ms=retry_for_ms)
            case EnforceRebalance(reason):
                self._standing.request_rejoin(reason)
            case Close(timeout_ms, leaves_group) if self._closing is None:
                self._polling = False
                commit = self._offsets.commit_held(timeout_ms)
                self._closing = _Closing(self._wire.now_ms + timeout_ms, leaves_group, commit)

    def _proceed(self) -> None:
        self._heartbeats.proceed(self._polling)
        if not self._polling or self._raise_what_failed():
            return
        self._topics.proceed()
        self._rebalance.proceed()
        if not self._raise_what_failed():
            if not self._rebalance.wants_to_join:  # until that is over poll() comes no further, as in the Java client
                self._offsets.proceed_in_poll()
            self._topics.proceed()

    def _raise_what_failed(self) -> bool:
        """An error that was kept for it comes out of poll(), and the application is outside again."""
        for part in (self._heartbeats, self._wire, self._rebalance.joining, self._offsets):
            if part.failure is not None:
                self._raised, part.failure = part.failure, None
                self._polling = False
                return True
        return False

    def _leave(self, reason: str, leaves_group: bool | None = None) -> None:
        """Say goodbye, once and without waiting for the answer. A static member goes silently, unless it is told to."""
        standing, settings = self._standing, self.settings
        speaks = not settings.is_static if leaves_group is None else leaves_group
        is_in = standing.phase is not Phase.UNJOINED and standing.generation.member_id
        if is_in and speaks and self._wire.coordinator is not None:
            request = requests.leave_group(settings, standing.generation, reason)
            self._wire.ask_coordinator(request, lambda answer: None)
            self._changes.append(LeftGroup(reason))
        standing.reset(Forgets.MEMBER_ID, "consumer pro-actively leaving the group")

    def _drop_all(self) -> None:
        """Give everything up in good order if the place is sure, else lose it."""
        standing, held = self._standing, self.assigned
        self._rebalance.abandon()
        if standing.generation.is_none or standing.in_rebalance:
            self._rebalance.lose_all()
            self._rebalance.after_listener = None
        elif held:
            self._offsets.hold(())
            self._changes.append(PartitionsRevoked(held))

    def _close(self, closing: _Closing) -> None:
        time_is_up = self._wire.now_ms >= closing.until_ms
        if closing.commit is not None and not closing.commit.ended and not time_is_up:
            return
        if not closing.left:
            closing.left = True
            self._drop_all()
            self._leave("the consumer is being closed", closing.leaves_group)
        if time_is_up or not self._wire.waits_for_coordinator:
            self.is_closed = True
            self._changes.append(Closed())

    # -- its result

    def _step(self) -> Step:
        requests_now, self._wire.outbox = tuple(self._wire.outbox), []
        changes = tuple(self._changes)
        self._changes.clear()
        raised, self._raised = self._raised, None
        hang_up, self._wire.hang_up = self._wire.hang_up, False
        return Step(requests_now, changes, raised, hang_up, None if self.is_closed else self._deadline_ms())

    def _deadline_ms(self) -> int | None:
        comes_to_offsets = self._polling and not self._rebalance.wants_to_join
        moments = [self._wire.deadline_ms, self._offsets.deadline_ms(comes_to_offsets)]
        if self._closing is not None:
            moments.append(self._closing.until_ms)
        else:
            moments.append(self._heartbeats.deadline_ms(self._polling))
            if self._polling:
                moments.append(self._topics.deadline_ms)
                if self._rebalance.after_listener is None:
                    moments.append(self._rebalance.deadline_ms)
        return min((moment for moment in moments if moment is not None), default=None)


def _offered(settings: ConsumerSettings, assignors: Iterable[Assignor]) -> Sequence[Assignor]:
    own = {assignor.name: assignor for assignor in assignors}
    return tuple(own.get(name) or assignor_named(name) for name in settings.partition_assignment_strategy)
