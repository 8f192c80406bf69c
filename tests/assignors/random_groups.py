"""Random groups over many rebalances: members join, leave, lag behind and claim too much; topics grow and shrink."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from regroup.assignors.cases import CaseMember, CaseStep
from regroup.assignors.interface import Assignments, leader_order
from regroup.protocol.consumer.subscription import TopicPartition

SIZES = (0, 1, 2, 3, 4, 6, 12, 30)
RACKS = ("east", "west", "north", "south")
LETTERS = "ABCabcé\uff5e\U0001f600"
"""The order of the last two differs between UTF-16 code units and Python's strings."""


@dataclass
class RandomMember:
    """A member from one rebalance to the next."""

    instance_id: str | None
    rack: str | None
    partitions: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    topics: tuple[str, ...] = ()


@dataclass
class RandomGroup:
    """One group with one assignor. `next_step` draws the next rebalance; `assigned` records its result."""

    random: Random
    assignor: str
    topics: dict[str, int] = field(default_factory=dict)
    members: dict[str, RandomMember] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        self.racks = RACKS[: self.random.choice((0, 0, 0, 1, 2, 3, 4))]
        self.has_static_members = self.random.choice((False, True))
        self.equal_subscriptions_probability = self.random.choice((0.0, 0.5, 1.0))
        self.size = self.random.choice((1, 2, 3, 4, 6, 9, 20, 40))
        for _ in range(self.random.choice((1, 2, 3, 5, 8))):
            self._add_topic()

    def next_step(self) -> CaseStep:
        """The input of the next rebalance."""
        self._change_topics()
        self._change_members()
        self.generation += self.random.choice((1, 1, 2))
        equal_topics = self._some_topics() if self.random.random() < self.equal_subscriptions_probability else None
        members = tuple(self._case_member(name, equal_topics) for name in leader_order(self.members))
        return CaseStep(dict(self.topics), members, dict(self._racks_of_topics()))

    def assigned(self, assignments: Assignments) -> None:
        """Every member takes over its assignment."""
        for name, partitions in assignments.items():
            self.members[name].partitions, self.members[name].generation = tuple(partitions), self.generation

    def _add_topic(self) -> None:
        self.topics[f"{self.random.choice('tuvwxyz')}{self.random.randrange(60)}"] = self.random.choice(SIZES)

    def _change_topics(self) -> None:
        for topic in list(self.topics):
            if self.random.random() < 0.05:
                self.topics[topic] = self.random.choice(SIZES)
            elif self.random.random() < 0.02:
                del self.topics[topic]
        if not self.topics or self.random.random() < 0.2:
            self._add_topic()

    def _change_members(self) -> None:
        for name in list(self.members):
            if self.random.random() < 0.15:
                del self.members[name]
        while not self.members or (len(self.members) < self.size and self.random.random() < 0.9):
            name = "".join(self.random.choices(LETTERS, k=3)) + str(self.random.randrange(1000))
            is_static = self.has_static_members and self.random.random() < 0.5
            instance_id = f"i{self.random.randrange(50)}" if is_static else None
            rack = self.random.choice((None, *self.racks)) if self.racks else None
            self.members[name] = RandomMember(instance_id, rack)

    def _some_topics(self) -> tuple[str, ...]:
        known = [*self.topics, "unknown"]
        return tuple(sorted(self.random.sample(known, self.random.randint(0 if len(known) > 2 else 1, len(known)))))

    def _case_member(self, name: str, equal_topics: tuple[str, ...] | None) -> CaseMember:
        member = self.members[name]
        if equal_topics is not None or not member.topics or self.random.random() < 0.3:
            member.topics = equal_topics if equal_topics is not None else self._some_topics()
        owned, generation = self._claimed(member)
        is_sticky = "sticky" in self.assignor
        in_user_data = is_sticky and (self.assignor == "sticky" or self.random.random() < 0.2)
        in_subscription = is_sticky and (self.assignor == "sticky" or not in_user_data)
        return CaseMember(
            name,
            member.topics,
            member.instance_id,
            member.rack,
            owned=owned if is_sticky else (),
            generation=generation if in_subscription else None,
            user_data_generation=generation if in_user_data else None,
        )

    def _claimed(self, member: RandomMember) -> tuple[tuple[TopicPartition, ...], int | None]:
        """What a member claims: mostly its last assignment; rarely nothing, an older generation, or too much."""
        partitions, generation = member.partitions, member.generation
        match self.random.randrange(20):
            case 0:
                partitions = ()
            case 1 if generation is not None:
                generation = max(0, generation - self.random.randint(1, 2))
            case 2:
                generation = None
            case 3 if self.topics:
                topic = self.random.choice(list(self.topics))
                partitions = (*partitions, TopicPartition(topic, self.random.randrange(self.topics[topic] + 2)))
        return tuple(dict.fromkeys(partitions)), generation

    def _racks_of_topics(self) -> Iterator[tuple[str, tuple[tuple[str | None, ...], ...]]]:
        for topic, count in self.topics.items() if self.racks else ():
            yield topic, tuple(tuple(self._replica_racks()) for _ in range(count))

    def _replica_racks(self) -> list[str | None]:
        return self.random.choices((None, *self.racks), k=self.random.randint(1, 3))
