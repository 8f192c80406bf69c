"""The first step of both sticky assignors: finds which member owned which partition before, and whether
racks matter.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regroup.assignors.interface import AssignorMember, ClusterMetadata, racks_matter
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition


class MemberData(NamedTuple):
    """What a member claims: its previous partitions, and their generation; None if the user data have no generation."""

    partitions: Sequence[TopicPartition]
    generation: int | None

    @property
    def known_generation(self) -> int:
        """The generation that the member claims; -1 if its user data have none."""
        return NO_GENERATION if self.generation is None else self.generation


@dataclass(slots=True)
class PreviousOwnership:
    """The partitions of each member before the rebalance. A partition has at most one owner."""

    owned: dict[str, list[TopicPartition]]
    multiple_owners: set[TopicPartition] = field(default_factory=set)
    """Partitions that two members claimed in the same generation; both claims are void."""


def resolve_claims(
    member_data: Mapping[str, MemberData], members: Mapping[str, AssignorMember], topics: Mapping[str, object]
) -> PreviousOwnership:
    """Decide which claims are valid: of several claims to a partition, the one with the latest generation.

    Claims to topics outside `topics` are dropped. Claims to numbers that a topic no longer has are not, as in Kafka.
    """
    claimed = {name: [each for each in data.partitions if each[0] in topics] for name, data in member_data.items()}
    all_claimed: set[TopicPartition] = set()
    if len(all_claimed.union(*claimed.values())) == sum(map(len, claimed.values())):
        return PreviousOwnership(claimed)
    previous = PreviousOwnership({})
    owners: dict[TopicPartition, str] = {}
    for name, partitions in claimed.items():
        previous.owned[name] = []
        for partition in partitions:
            _add_claim(previous, owners, partition, name, member_data[name].known_generation, members)
    return previous


def _add_claim(
    previous: PreviousOwnership,
    owners: dict[TopicPartition, str],
    partition: TopicPartition,
    name: str,
    generation: int,
    members: Mapping[str, AssignorMember],
) -> None:
    rival = owners.get(partition)
    if rival is None:
        previous.owned[name].append(partition)
        owners[partition] = name
        return
    # Kafka compares with the generation of the rival's Subscription, even if its user data has another.
    rival_generation = members[rival].generation_id
    if generation < rival_generation:
        return
    if generation == rival_generation:
        previous.multiple_owners.add(partition)
    else:
        previous.owned[name].append(partition)
    if partition in previous.owned[rival]:
        previous.owned[rival].remove(partition)
    owners[partition] = name


def previous_owners(member_data: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
    """The owner of each partition in an older generation than the latest one (Kafka's `prevAssignment`).

    Of several owners the one of the latest of these generations counts.
    """
    latest = max([data.known_generation for data in member_data.values()], default=NO_GENERATION)
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for name, data in member_data.items():
        if data.known_generation < latest:
            for partition in data.partitions:
                known = owners.get(partition)
                if known is None or data.known_generation > known[0]:
                    owners[partition] = data.known_generation, name
    return {partition: name for partition, (_, name) in owners.items()}


@dataclass(slots=True)
class RackInfo:
    """The racks of members and replicas (KIP-881). It is empty if racks do not influence the assignment."""

    of_member: dict[str, str] = field(default_factory=dict)
    of_replicas: dict[TopicPartition, frozenset[str]] = field(default_factory=dict)

    def is_mismatch(self, name: str, partition: TopicPartition) -> bool:
        """Whether the member `name` has a rack, and the partition has no replica in that rack."""
        rack = self.of_member.get(name)
        return rack is not None and rack not in self.of_replicas.get(partition, ())

    def fewest_candidates_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The partitions sorted by how many members are in a rack with one of their replicas, fewest first."""
        members_in = Counter(self.of_member.values())
        return sorted(partitions, key=lambda each: sum(members_in[rack] for rack in self.of_replicas[each]))


def rack_info(cluster: ClusterMetadata, members: Mapping[str, AssignorMember], topics: Sequence[str]) -> RackInfo:
    """The racks of members and replicas, or an empty RackInfo if they do not influence the assignment."""
    of_member = {name: member.rack_id for name, member in members.items() if member.rack_id} if cluster.racks else {}
    if not of_member:
        return RackInfo()
    of_replicas = {
        partition: racks
        for topic in topics
        for partition, racks in zip(cluster.partitions(topic), cluster.replica_racks(topic), strict=True)
    }
    if not racks_matter(of_member.values(), [*of_replicas.values()]):
        return RackInfo()
    return RackInfo(of_member, of_replicas)


def unassigned_partitions(
    kept: Sequence[TopicPartition], topics: Sequence[str], cluster: ClusterMetadata
) -> list[TopicPartition]:
    """All partitions of `topics`, in this order, except those in `kept`.

    Kafka compares two sorted lists element by element. At a kept number that the topic no longer has the comparison
    does not advance, so all later partitions count as unassigned although they are kept. That is copied here.
    """
    kept_numbers: dict[str, list[int]] = {topic: [] for topic in topics}
    for topic, number in kept:
        kept_numbers[topic].append(number)
    unassigned: list[TopicPartition] = []
    is_stuck = False
    for topic in topics:
        numbers, count = sorted(kept_numbers[topic]), cluster.partitions_per_topic[topic]
        if is_stuck or not numbers:
            unassigned += cluster.partitions(topic)
            continue
        is_stuck = numbers[0] < 0 or numbers[-1] >= count
        excluded = set() if numbers[0] < 0 else set(numbers)
        unassigned += [each for each in cluster.partitions(topic) if each[1] not in excluded]
    return unassigned
