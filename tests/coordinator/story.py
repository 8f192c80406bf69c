"""Stories about one group, told on a virtual clock: `decide` and `next_deadline` alone, no event loop.

    story = Story()
    anna, ben = story.stable("anna", "ben")
    story.passes(10_000, beating=[anna])
    assert story.state is State.PREPARING

A consumer's member id is its name: that is the id which the story draws for it. Where the catalogue says nothing
else, consumers have its defaults: protocols range and roundrobin, session timeout 10 s, rebalance timeout 60 s.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.deadlines import deadlines, next_deadline
from regroup.coordinator.decide import decide
from regroup.coordinator.events import Event
from regroup.coordinator.evolve import fold
from regroup.coordinator.group import Group, Member, Protocol, State
from regroup.coordinator.settings import Settings
from regroup.coordinator.unavailable import unavailable
from regroup.coordinator.waiting_room import Request as Waiter
from regroup.coordinator.waiting_room import WaitingRoom
from regroup.protocol.consumer_protocol import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode

behaviour = pytest.mark.behaviour
"""Names the behaviours of the catalogue that a test holds to: `@behaviour("sync.preparing")`."""

NOW = 1_700_000_000_000
GROUP = "payments"
BEAT_EVERY_MS = 3_000
DAY_MS = 86_400_000


@dataclass
class Request:
    """One request, and what became of it."""

    command: c.Command
    on_answer: Callable[[Any], None]
    story: "Story"
    events: tuple[Event, ...] = ()
    """What happened because of it, at once."""
    answer: Any = None
    answered_at_ms: int | None = None

    def take(self, message: Any) -> None:
        self.answer, self.answered_at_ms = message, self.story.now_ms
        self.on_answer(message)

    @property
    def is_parked(self) -> bool:
        """It has no answer yet."""
        return self.answer is None

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)

    @property
    def codes(self) -> dict[tuple[str, int], ErrorCode]:
        """By topic and partition, of an answer about offsets."""
        return {
            (topic.name, row.partition_index): ErrorCode(row.error_code)
            for topic in self.answer.topics
            for row in topic.partitions
        }

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """By topic and partition, of an answer to OffsetFetch."""
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in self.answer.topics
            for row in topic.partitions
        }

    @property
    def event_names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Story:
    """One group, those who have to do with it, and the time. Settings by their field names."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.now_ms = NOW
        self.group = Group(name=GROUP)
        self.heard: dict[str, int] = {}
        self.history: list[Event] = []
        self.log_holds_back = False
        """Kafka's own log writes records and does not commit them, until it is told to."""
        self._waiting = WaitingRoom()

    # What is

    @property
    def state(self) -> State:
        return self.group.state

    @property
    def generation(self) -> int:
        return self.group.generation

    @property
    def members(self) -> list[str]:
        return list(self.group.members)

    def member(self, consumer: "Consumer") -> Member:
        return self.group.members[consumer.id]

    def ms_left(self, kind: DeadlineKind, member: str = "") -> int | None:
        """How long until this patience ends; None if no such timer runs."""
        for deadline in deadlines(self.group, self.heard):
            if (deadline.kind, deadline.member) == (kind, member):
                return deadline.at_ms - self.now_ms
        return None

    # What happens

    def tell(self, command: c.Command, on_answer: Callable[[Any], None] = lambda answer: None) -> Request:
        """Let the group decide, as the asyncio coordinator would with a disk that takes no time."""
        command = replace(command, log_holds_back=self.log_holds_back)
        request = Request(command, on_answer, self)
        decision = decide(self.settings, self.group, command)
        assert decision.group == fold(self.group, decision.events), "a decision is what its events add up to"
        self.group = decision.group
        self.history += decision.events
        self.heard.update(dict.fromkeys(decision.heard, self.now_ms))
        self.heard = {name: at_ms for name, at_ms in self.heard.items() if name in self.group.members}
        request.events = decision.events
        if not self._waiting.keeps(decision, Waiter(command, request.take)) and decision.answer is not None:
            request.take(decision.answer)
        for (_, answering), message in self._waiting.released_by(decision):
            answering(message)
        return request

    def passes(self, ms: int, beating: Iterable["Consumer"] = ()) -> None:
        """Time goes by; whoever is `beating` sends Heartbeats meanwhile."""
        end_ms, beating = self.now_ms + ms, list(beating)
        while beating and self.now_ms + BEAT_EVERY_MS < end_ms:
            self._passes_in_silence(self.now_ms + BEAT_EVERY_MS)
            for consumer in beating:
                consumer.beats()
        self._passes_in_silence(end_ms)

    def _passes_in_silence(self, end_ms: int) -> None:
        while (deadline := next_deadline(self.group, self.heard)) and deadline.at_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline.at_ms)
            self.tell(
                c.DeadlinePassed(
                    group_id=GROUP,
                    at_ms=self.now_ms,
                    kind=deadline.kind,
                    member=deadline.member,
                    last_heard_ms=deadline.last_heard_ms,
                )
            )
        self.now_ms = end_ms

    def fails_over(self, **settings: int) -> list[Event]:
        """Another coordinator, perhaps with other settings, takes the group over from Kafka's own log."""
        if settings:
            self.settings = Settings(**settings)
        for command, answering in self._waiting.empty():
            answering(unavailable(command, ErrorCode.NOT_COORDINATOR))
        return list(self.tell(c.TakeOver(group_id=GROUP, at_ms=self.now_ms)).events)

    def is_cleaned_up(self) -> list[Event]:
        """The regular look for old offsets and forgotten groups."""
        return list(self.tell(c.ForgetOldOffsets(group_id=GROUP, at_ms=self.now_ms)).events)

    def topic_is_deleted(self, topic: str) -> list[Event]:
        """Somebody has deleted a topic, perhaps one whose offsets were committed here."""
        return list(self.tell(c.ForgetTopic(group_id=GROUP, at_ms=self.now_ms, topic=topic)).events)

    def the_log_commits(self, append: int | None = None) -> Request:
        """Kafka's log commits the oldest record that it holds back, or another one."""
        oldest = next(iter(self.group.appends)) if append is None else append
        return self.tell(c.CommitAppend(group_id=GROUP, at_ms=self.now_ms, append=oldest))

    def the_log_loses(self, code: ErrorCode) -> Request:
        """Kafka's log loses the oldest record that it holds back."""
        oldest = next(iter(self.group.appends))
        return self.tell(c.RefuseAppend(group_id=GROUP, at_ms=self.now_ms, append=oldest, code=code))

    # Who asks from outside

    def describe(self) -> Any:
        return self.tell(c.DescribeGroup(group_id=GROUP, at_ms=self.now_ms)).answer

    def delete(self, group_id: str = GROUP) -> Request:
        return self.tell(c.DeleteGroup(group_id=group_id, at_ms=self.now_ms))

    def delete_offsets(self, group_id: str = GROUP, **partitions: tuple[int, ...]) -> Request:
        return self.tell(c.DeleteOffsets(group_id=group_id, at_ms=self.now_ms, partitions=partitions))

    def fetch(self, **partitions: tuple[int, ...]) -> Request:
        return self.tell(c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=partitions))

    def fetch_stable(self, **partitions: tuple[int, ...]) -> Request:
        """As `read_committed` consumers do: rather none than one that an open transaction may replace."""
        return self.tell(c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=partitions, require_stable=True))

    def fetch_everything(self, *, require_stable: bool = False) -> Request:
        return self.tell(
            c.FetchOffsets(group_id=GROUP, at_ms=self.now_ms, partitions=None, require_stable=require_stable)
        )

    def commit_in_transaction(self, producer_id: int, *offsets: tuple[str, int, int], **about: Any) -> Request:
        """TxnOffsetCommit: (topic, partition, offset)."""
        return self.tell(
            c.CommitTransactionalOffsets(
                group_id=GROUP,
                at_ms=self.now_ms,
                producer_id=producer_id,
                offsets=tuple(c.OffsetToCommit(topic, number, offset) for topic, number, offset in offsets),
                **about,
            )
        )

    def end_transaction(self, producer_id: int, *, committed: bool) -> Request:
        return self.tell(
            c.EndTransaction(group_id=GROUP, at_ms=self.now_ms, producer_id=producer_id, committed=committed)
        )

    def commit(self, *offsets: tuple[str, int, int], **about: Any) -> Request:
        """A commit of somebody outside the group: (topic, partition, offset)."""
        return self.tell(commit_command(self.now_ms, offsets, about))

    def leave(self, *leaving: c.Leaving) -> Request:
        """An operator removes members."""
        return self.tell(c.LeaveGroup(group_id=GROUP, at_ms=self.now_ms, members=leaving))

    # How stories begin

    def consumer(self, name: str, *, static: bool = False, **about: Any) -> "Consumer":
        return Consumer(self, name, instance_id=f"till-of-{name}" if static else None, **about)

    def completing(self, *names: str, **about: Any) -> list["Consumer"]:
        """One after another joined, the first leads; nobody has sent SyncGroup in the last generation yet.

        The generation is as large as the group.
        """
        consumers = [self.consumer(name, **about) for name in names]
        for number, newcomer in enumerate(consumers):
            if number:
                syncs(consumers[:number])
            newcomer.joins()
            for other in consumers[:number]:
                other.asks_to_join()
            if number == 0:
                self.passes(self.settings.group_initial_rebalance_delay_ms)
        assert (self.state, self.generation) == (State.COMPLETING, len(names))
        return consumers

    def stable(self, *names: str, **about: Any) -> list["Consumer"]:
        """The same, and everybody has a share."""
        consumers = self.completing(*names, **about)
        syncs(consumers)
        assert self.state is State.STABLE
        return consumers

    def preparing(self, *names: str, newcomer: str = "carla", **about: Any) -> list["Consumer"]:
        """Everybody had a share; then a newcomer joined and is parked. It comes last in the list."""
        consumers = self.stable(*names, **about)
        last = self.consumer(newcomer)
        last.joins()
        assert self.state is State.PREPARING
        return [*consumers, last]

    def empty(self) -> "Consumer":
        """Anna was alone in generation 1, and left."""
        [anna] = self.stable("anna")
        anna.leaves()
        assert (self.state, self.generation) == (State.EMPTY, 2)
        return anna


@dataclass
class Consumer:
    """Somebody who wants to be in the group, and knows of it what it was told."""

    story: Story
    name: str
    version: int = 9
    """Of its JoinGroup."""
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: tuple[str, ...] = ("range", "roundrobin")
    topics: tuple[str, ...] = ("foo",)
    metadata: bytes | None = None
    """In place of a subscription to the topics."""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    client_id: str = "c"
    client_host: str = "/10.0.0.7"
    id: str = ""
    generation: int = -1
    lives: int = field(default=1, repr=False)
    joined: Any = field(default=None, repr=False)
    """The last JoinGroup answer without an error."""

    def new_id(self) -> str:
        return self.name if self.lives == 1 else f"{self.name}-{self.lives}"

    def offers(self) -> tuple[Protocol, ...]:
        metadata = encode_subscription(Subscription(3, self.topics)) if self.metadata is None else self.metadata
        return tuple(Protocol(name, metadata) for name in self.protocols)

    def asks_to_join(self, **fields: Any) -> Request:
        """One JoinGroup, with the id it has, if any."""
        usual: dict[str, Any] = {
            "group_id": GROUP,
            "at_ms": self.story.now_ms,
            "member_id": self.id,
            "new_member_id": self.new_id(),
            "group_instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocol_type": self.protocol_type,
            "protocols": self.offers(),
            "can_be_asked_to_return": self.version >= 4,
            "can_skip_assignment": self.version >= 9,
        }
        return self.story.tell(c.JoinGroup(**usual | fields), self._hears_of_joining)

    def joins(self, **fields: Any) -> Request:
        """JoinGroup, and once more if it was asked to return with an id."""
        asked = self.asks_to_join(**fields)
        if not asked.is_parked and asked.code is ErrorCode.MEMBER_ID_REQUIRED:
            return self.asks_to_join(**fields)
        return asked

    def _hears_of_joining(self, answer: Any) -> None:
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer.error_code == ErrorCode.NONE:
            self.joined, self.generation = answer, answer.generation_id

    @property
    def leads(self) -> bool:
        return self.joined is not None and self.joined.leader == self.id

    def restarts(self) -> "Consumer":
        """A new process under the same instance id, if any: it knows nothing. Gives back the old one, a zombie now."""
        zombie = Consumer(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        self.id, self.generation, self.joined, self.lives = "", -1, None, self.lives + 1
        return zombie

    def syncs(self, shares: Mapping[str, bytes] | None = None, **fields: Any) -> Request:
        """SyncGroup; a leader gives everybody `share of <member id>` unless told otherwise."""
        if shares is None and self.leads and not self.joined.skip_assignment:
            shares = {each.member_id: f"share of {each.member_id}".encode() for each in self.joined.members}
        usual: dict[str, Any] = {
            "group_id": GROUP,
            "at_ms": self.story.now_ms,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.joined.protocol_name if self.joined else None,
            "assignment": shares or {},
        }
        return self.story.tell(c.SyncGroup(**usual | fields))

    def beats(self, **fields: Any) -> Request:
        usual: dict[str, Any] = {
            "group_id": GROUP,
            "at_ms": self.story.now_ms,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        return self.story.tell(c.Heartbeat(**usual | fields))

    def leaves(self, reason: str = "") -> Request:
        return self.story.leave(c.Leaving(self.id, self.instance_id, reason))

    def commits(self, *offsets: tuple[str, int, int], **fields: Any) -> Request:
        """(topic, partition, offset); foo-0 at 100 if nothing is said."""
        usual: dict[str, Any] = {
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        return self.story.commit(*(offsets or (("foo", 0, 100),)), **usual | fields)


def syncs(consumers: list[Consumer]) -> None:
    """Everybody sends SyncGroup, the leader first."""
    for consumer in sorted(consumers, key=lambda each: not each.leads):
        consumer.syncs()


def commit_command(at_ms: int, offsets: Iterable[tuple[str, int, int]], about: Mapping[str, Any]) -> c.CommitOffsets:
    usual: dict[str, Any] = {
        "group_id": GROUP,
        "at_ms": at_ms,
        "offsets": tuple(c.OffsetToCommit(topic, number, offset) for topic, number, offset in offsets),
    }
    return c.CommitOffsets(**usual | dict(about))
