"""A group of the consumer protocol under test, on a virtual clock: `decide` and `next_deadline` alone.

    harness = ConsumerHarness()
    harness.join("m1")
    assert harness.beat("m1", 2).assignment is None

As in the catalogue `consumer-behaviours.jsonl`: topics foo (6 partitions) and bar (3), no assignment interval, members
that subscribe to foo with a rebalance timeout of 60 s.
"""

from collections.abc import Callable
from typing import Any

from regroup.coordinator.commands import Command, DeadlineKind, LeavingMember
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat, ResolveRegexes
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ReconciliationState
from regroup.coordinator.evolve import evolve
from regroup.coordinator.invariants import violations_of_group, violations_of_step
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.protocol.topic_ids import topic_id_text
from tests.coordinator.group_driver import GROUP_ID, SentRequest
from tests.coordinator.group_harness import GroupHarness

REBALANCE_TIMEOUT_MS = 60_000
Named = dict[str, list[int]]
"""Partitions by topic name."""


def topic_id(name: str) -> str:
    """The id that a topic has in these tests."""
    return topic_id_text(name.encode().ljust(16, b"-"))


def image(version: int = 0, **partitions: int) -> TopicsImage:
    """Topics with these numbers of partitions."""
    return TopicsImage((TopicMetadata(topic_id(name), name, count) for name, count in partitions.items()), version)


class Answer:
    """The response to a heartbeat, with topics by name."""

    def __init__(self, request: SentRequest) -> None:
        self.request = request
        self.response = request.response
        self.code = request.code
        self.epoch: int = request.response.member_epoch
        self.event_types = request.event_types
        given = request.response.assignment
        self.assignment: Named | None = None
        if given is not None:
            self.assignment = {
                each.topic_id.rstrip(b"-").decode(): sorted(each.partitions) for each in given.topic_partitions
            }


class ConsumerHarness(GroupHarness):
    """One group of the consumer protocol, its topics and its clock."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"group_consumer_assignment_interval_ms": 0, **settings})
        self.topics = image(foo=6, bar=3)

    @property
    def consumer(self) -> ConsumerGroup:
        assert self.group.consumer is not None
        return self.group.consumer

    @property
    def state_name(self) -> str:
        return self.group.state_name

    @property
    def epochs(self) -> tuple[int, int]:
        """The group epoch and the assignment epoch."""
        return self.consumer.group_epoch, self.consumer.assignment_epoch

    def member(self, member_id: str) -> ConsumerMember:
        return self.consumer.members[member_id]

    def member_state(self, member_id: str) -> ReconciliationState:
        return self.member(member_id).state

    def assigned(self, member_id: str) -> Named:
        return self.named(self.member(member_id).assigned)

    def pending(self, member_id: str) -> Named:
        return self.named(self.member(member_id).pending_revocation)

    def target(self, member_id: str) -> Named:
        return self.named(self.consumer.targets[member_id])

    def named(self, partitions: Any) -> Named:
        return {self.topics.by_id[each].name: sorted(indexes) for each, indexes in partitions.items()}

    def session_ms(self, member_id: str) -> int | None:
        """Time until the session of the member expires."""
        return self.remaining_ms(DeadlineKind.SESSION, member_id)

    def revocation_ms(self, member_id: str) -> int | None:
        """Time until the member must have given up its partitions."""
        return self.remaining_ms(DeadlineKind.REVOCATION, member_id)

    # Requests

    def handle(self, command: Command, on_response: Callable[[Any], None] = lambda response: None) -> SentRequest:
        """As the driver does; the invariants hold after every command and every event."""
        group = self.group
        request = super().handle(command, on_response)
        for event in request.events:
            before, group = group, evolve(group, event)
            assert violations_of_step(before, event, group) == []
        assert violations_of_group(self.group) == []
        return request

    def beat(self, member_id: str, epoch: int, *, owned: Named | None = None, **fields: Any) -> Answer:
        """ConsumerGroupHeartbeat. `owned` names topics; those of other fields are the command's."""
        return Answer(self.send_beat(member_id, epoch, owned=owned, **fields))

    def send_beat(self, member_id: str, epoch: int, *, owned: Named | None = None, **fields: Any) -> SentRequest:
        """The same, where the response may wait for the log."""
        group_id = fields.pop("group_id", GROUP_ID)
        reported = None if owned is None else {topic_id(name): tuple(indexes) for name, indexes in owned.items()}
        command = ConsumerGroupHeartbeat(
            group_id=group_id,
            at_ms=self.now_ms,
            member_id=member_id,
            member_epoch=epoch,
            client_id="c",
            client_host="/h",
            owned=reported,
            topics=self.topics,
            **fields,
        )
        return self.handle(command)

    def join(self, member_id: str, *names: str, **fields: Any) -> Answer:
        """Join with epoch 0, by default subscribed to foo."""
        request = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "owned": {}, "subscribed_topics": names or ("foo",)}
        return self.beat(member_id, 0, **{**request, **fields})

    def describe(self) -> Any:
        """The ConsumerGroupDescribe response."""
        command = ConsumerGroupDescribe(group_id=GROUP_ID, at_ms=self.now_ms, topics=self.topics)
        return self.handle(command).response

    def described_member(self, member_id: str) -> Any:
        return next(each for each in self.describe().members if each.member_id == member_id)

    def resolve(self, **resolved: tuple[str, ...]) -> SentRequest:
        """The broker has searched the topics for these patterns."""
        command = ResolveRegexes(group_id=GROUP_ID, at_ms=self.now_ms, resolved=resolved, topics=self.topics)
        return self.handle(command)

    def leave_group(self, *member_ids: str) -> SentRequest:
        """LeaveGroup of the classic protocol."""
        return self.remove_members(*(LeavingMember(each) for each in member_ids))

    # States to start from, as the catalogue describes them

    def one(self) -> "ConsumerHarness":
        """m1 is the only member: epoch 2, STABLE, owns foo 0-5."""
        answer = self.join("m1")
        assert (answer.code, answer.epoch, answer.assignment) == (ErrorCode.NONE, 2, {"foo": [0, 1, 2, 3, 4, 5]})
        return self

    def two_joined(self) -> "ConsumerHarness":
        """m1 has foo 0-5; m2 has joined: group epoch 3, target foo 0-2 and 3-5, m2 has epoch 3 and nothing."""
        self.one()
        answer = self.join("m2")
        assert (answer.epoch, answer.assignment) == (3, {})
        assert (self.target("m1"), self.target("m2")) == ({"foo": [0, 1, 2]}, {"foo": [3, 4, 5]})
        return self

    def revoking(self) -> "ConsumerHarness":
        """As `two_joined`; m1 was told to keep foo 0-2, and is UNREVOKED_PARTITIONS at epoch 2."""
        self.two_joined()
        answer = self.beat("m1", 2)
        assert (answer.epoch, answer.assignment) == (2, {"foo": [0, 1, 2]})
        assert self.member_state("m1") is ReconciliationState.UNREVOKED_PARTITIONS
        return self

    def settled(self) -> "ConsumerHarness":
        """Both STABLE at epoch 3: m1 foo 0-2, m2 foo 3-5."""
        self.revoking()
        self.beat("m1", 2, owned={"foo": [0, 1, 2]})
        assert self.beat("m2", 3).assignment == {"foo": [3, 4, 5]}
        assert (self.state_name, self.epochs) == ("Stable", (3, 3))
        return self

    def static_pair(self) -> "ConsumerHarness":
        """As `settled`, and m2 is static with the instance id i2."""
        self.one()
        self.join("m2", instance_id="i2")
        self.beat("m1", 2, owned={"foo": [0, 1, 2]})
        self.beat("m2", 3)
        assert (self.state_name, self.assigned("m2")) == ("Stable", {"foo": [3, 4, 5]})
        return self

    def away(self) -> "ConsumerHarness":
        """As `static_pair`, and m2 has left with -2."""
        self.static_pair()
        assert self.beat("m2", -2, instance_id="i2").code is ErrorCode.NONE
        return self
