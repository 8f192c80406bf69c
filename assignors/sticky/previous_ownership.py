"""Who had what: the first step of both sticky assignors, where the members' memories are read and reconciled."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regroup.assignors.interface import Cluster, Member, racks_matter
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition


class Memory(NamedTuple):
    """What a member says it had, and in which generation; None if it cannot say."""

    partitions: Sequence[TopicPartition]
    generation: int | None

    @property
    def known_generation(self) -> int:
        """The generation, -1 for none."""
        return NO_GENERATION if self.generation is None else self.generation


@dataclass(slots=True)
class Claims:
    """The outcome: every partition has at most one owner.

    `contested` are partitions that two members claimed in the same generation, which cancels both claims.
    """

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition] = field(default_factory=set)


def reconcile(memories: Mapping[str, Memory], members: Mapping[str, Member], topics: Mapping[str, object]) -> Claims:
    """Read the memories in order; of two claims to a partition the one with the later generation holds.

    Partitions of topics outside `topics` are forgotten. Numbers that a topic no longer has are not, as in Kafka.
    """
    claimed = {name: [each for each in memory.partitions if each[0] in topics] for name, memory in memories.items()}
    every_one: set[TopicPartition] = set()
    if len(every_one.union(*claimed.values())) == sum(map(len, claimed.values())):
        return Claims(claimed)
    claims = Claims({})
    owners: dict[TopicPartition, str] = {}
    for name, partitions in claimed.items():
        claims.owned[name] = []
        for partition in partitions:
            _claim(claims, owners, partition, name, memories[name].known_generation, members)
    return claims


def _claim(
    claims: Claims,
    owners: dict[TopicPartition, str],
    partition: TopicPartition,
    name: str,
    generation: int,
    members: Mapping[str, Member],
) -> None:
    rival = owners.get(partition)
    if rival is None:
        claims.owned[name].append(partition)
        owners[partition] = name
        return
    # Kafka compares with the rival's Subscription, also where the rival's user data says something else.
    rival_generation = members[rival].generation_id
    if generation < rival_generation:
        return
    if generation == rival_generation:
        claims.contested.add(partition)
    else:
        claims.owned[name].append(partition)
    if partition in claims.owned[rival]:
        claims.owned[rival].remove(partition)
    owners[partition] = name


def former_owners(memories: Mapping[str, Memory]) -> dict[TopicPartition, str]:
    """Who had a partition in an older generation than the latest one; where several had, the latest of them."""
    latest = max([memory.known_generation for memory in memories.values()], default=NO_GENERATION)
    former: dict[TopicPartition, tuple[int, str]] = {}
    for name, memory in memories.items():
        if memory.known_generation < latest:
            for partition in memory.partitions:
                known = former.get(partition)
                if known is None or memory.known_generation > known[0]:
                    former[partition] = memory.known_generation, name
    return {partition: name for partition, (_, name) in former.items()}


@dataclass(slots=True)
class Racks:
    """Racks as the sticky assignors look at them (KIP-881); empty where looking at them cannot help."""

    of_member: dict[str, str] = field(default_factory=dict)
    of_replicas: dict[TopicPartition, frozenset[str]] = field(default_factory=dict)

    def mismatch(self, name: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and the partition no replica in it."""
        rack = self.of_member.get(name)
        return rack is not None and rack not in self.of_replicas.get(partition, ())

    def loneliest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The partitions by the number of members that share a rack with one of their replicas."""
        members_in = Counter(self.of_member.values())
        return sorted(partitions, key=lambda each: sum(members_in[rack] for rack in self.of_replicas[each]))


def racks_that_matter(cluster: Cluster, members: Mapping[str, Member], topics: Sequence[str]) -> Racks:
    """The racks of members and replicas, or nothing if no member gains from them."""
    of_member = {name: member.rack_id for name, member in members.items() if member.rack_id} if cluster.racks else {}
    if not of_member:
        return Racks()
    of_replicas = {
        partition: racks
        for topic in topics
        for partition, racks in zip(cluster.partitions(topic), cluster.replica_racks(topic), strict=True)
    }
    return Racks(of_member, of_replicas) if racks_matter(of_member.values(), [*of_replicas.values()]) else Racks()


def still_free(kept: Sequence[TopicPartition], topics: Sequence[str], cluster: Cluster) -> list[TopicPartition]:
    """All partitions of `topics`, in this order, but those that somebody keeps.

    Kafka finds them by walking two sorted lists side by side, and the walk stands still for ever at a kept number
    that the topic no longer has: what comes after it counts as free although it is kept. That is copied here.
    """
    kept_numbers: dict[str, list[int]] = {topic: [] for topic in topics}
    for topic, number in kept:
        kept_numbers[topic].append(number)
    free: list[TopicPartition] = []
    stuck = False
    for topic in topics:
        numbers, count = sorted(kept_numbers[topic]), cluster.partitions_per_topic[topic]
        if stuck or not numbers:
            free += cluster.partitions(topic)
            continue
        stuck = numbers[0] < 0 or numbers[-1] >= count
        taken = set() if numbers[0] < 0 else set(numbers)
        free += [each for each in cluster.partitions(topic) if each[1] not in taken]
    return free


def lost_partition(
    owned: Mapping[str, Sequence[TopicPartition]], cluster: Cluster
) -> tuple[str, TopicPartition] | None:
    """A member and a partition that it had and that no longer exists, if there is one: what such failures come from."""
    for name, partitions in owned.items():
        for partition in partitions:
            if not 0 <= partition.partition < cluster.partitions_per_topic.get(partition.topic, 0):
                return name, partition
    return None
