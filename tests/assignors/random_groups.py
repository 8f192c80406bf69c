"""Groups that live through random rebalances: members come, go, lag and claim too much; topics grow and shrink."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from regroup.assignors.cases import MemberRecord, StepRecord
from regroup.assignors.interface import Assignments, leader_order
from regroup.protocol.consumer.subscription import TopicPartition

SIZES = (0, 1, 2, 3, 4, 6, 12, 30)
RACKS = ("east", "west", "north", "south")
LETTERS = "ABCabcé\uff5e\U0001f600"
"""The last two sort otherwise in UTF-16 than in Python."""


@dataclass
class Person:
    """A member from one rebalance to the next."""

    instance_id: str | None
    rack: str | None
    had: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    topics: tuple[str, ...] = ()


@dataclass
class RandomGroup:
    """One group with one assignor. `step` makes the next rebalance, `deal` tells it what came of it."""

    chance: Random
    assignor: str
    topics: dict[str, int] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        self.racks = RACKS[: self.chance.choice((0, 0, 0, 1, 2, 3, 4))]
        self.is_static = self.chance.choice((False, True))
        self.all_alike = self.chance.choice((0.0, 0.5, 1.0))
        self.size = self.chance.choice((1, 2, 3, 4, 6, 9, 20, 40))
        for _ in range(self.chance.choice((1, 2, 3, 5, 8))):
            self._topic_appears()

    def step(self) -> StepRecord:
        """What the leader is told next."""
        self._topics_change()
        self._people_change()
        self.generation += self.chance.choice((1, 1, 2))
        for_all = self._some_topics() if self.chance.random() < self.all_alike else None
        members = tuple(self._member(name, for_all) for name in leader_order(self.people))
        return StepRecord(dict(self.topics), members, dict(self._racks_of_topics()))

    def dealt(self, assignments: Assignments) -> None:
        """Everybody takes over what it was given."""
        for name, partitions in assignments.items():
            self.people[name].had, self.people[name].generation = tuple(partitions), self.generation

    def _topic_appears(self) -> None:
        self.topics[f"{self.chance.choice('tuvwxyz')}{self.chance.randrange(60)}"] = self.chance.choice(SIZES)

    def _topics_change(self) -> None:
        for topic in list(self.topics):
            if self.chance.random() < 0.05:
                self.topics[topic] = self.chance.choice(SIZES)
            elif self.chance.random() < 0.02:
                del self.topics[topic]
        if not self.topics or self.chance.random() < 0.2:
            self._topic_appears()

    def _people_change(self) -> None:
        for name in list(self.people):
            if self.chance.random() < 0.15:
                del self.people[name]
        while not self.people or (len(self.people) < self.size and self.chance.random() < 0.9):
            name = "".join(self.chance.choices(LETTERS, k=3)) + str(self.chance.randrange(1000))
            instance_id = f"i{self.chance.randrange(50)}" if self.is_static and self.chance.random() < 0.5 else None
            rack = self.chance.choice((None, *self.racks)) if self.racks else None
            self.people[name] = Person(instance_id, rack)

    def _some_topics(self) -> tuple[str, ...]:
        known = [*self.topics, "unknown"]
        return tuple(sorted(self.chance.sample(known, self.chance.randint(0 if len(known) > 2 else 1, len(known)))))

    def _member(self, name: str, for_all: tuple[str, ...] | None) -> MemberRecord:
        person = self.people[name]
        if for_all is not None or not person.topics or self.chance.random() < 0.3:
            person.topics = for_all if for_all is not None else self._some_topics()
        had, generation = self._remembered(person)
        is_sticky = "sticky" in self.assignor
        in_user_data = is_sticky and (self.assignor == "sticky" or self.chance.random() < 0.2)
        in_subscription = is_sticky and (self.assignor == "sticky" or not in_user_data)
        return MemberRecord(
            name,
            person.topics,
            person.instance_id,
            person.rack,
            owned=had if is_sticky else (),
            generation=generation if in_subscription else None,
            user_data_generation=generation if in_user_data else None,
        )

    def _remembered(self, person: Person) -> tuple[tuple[TopicPartition, ...], int | None]:
        """Mostly what it had; now and then nothing, something older, or more than it was given."""
        had, generation = person.had, person.generation
        match self.chance.randrange(20):
            case 0:
                had = ()
            case 1 if generation is not None:
                generation = max(0, generation - self.chance.randint(1, 2))
            case 2:
                generation = None
            case 3 if self.topics:
                topic = self.chance.choice(list(self.topics))
                had = (*had, TopicPartition(topic, self.chance.randrange(self.topics[topic] + 2)))
        return tuple(dict.fromkeys(had)), generation

    def _racks_of_topics(self) -> Iterator[tuple[str, tuple[tuple[str | None, ...], ...]]]:
        for topic, count in self.topics.items() if self.racks else ():
            yield topic, tuple(tuple(self._replicas()) for _ in range(count))

    def _replicas(self) -> list[str | None]:
        return self.chance.choices((None, *self.racks), k=self.chance.randint(1, 3))
