"""`range`: each topic by itself, cut into runs of neighbours, one run for each subscriber (KIP-881 adds racks)."""

from collections.abc import Mapping

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    Cluster,
    Member,
    known_topics,
    racks_matter,
    static_members_first,
)
from regroup.protocol.consumer_protocol import TopicPartition, java_hash_map_order, utf16_order


class RangeAssignor(Assignor):
    """Of n partitions each of m subscribers gets n // m, and the first n % m of them one more.

    Where racks matter, partitions with a replica in a member's rack are given first, without touching those shares:
    topics with the same subscribers and as many partitions stay together, one member for a number across all of
    them, others go topic by topic. What is left over is then cut into runs as if there were no racks.
    """

    name = "range"

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Each member's runs. Their order by topic is that of Java's hash map; sorted, if racks were looked at."""
        topics = java_hash_map_order(java_hash_map_order(known_topics(cluster, members)))
        subscribers = _subscribers(topics, members)
        shares = [TopicShares(topic, cluster, subscribers[topic], members) for topic in topics]
        with_racks = any(share.racks_matter for share in shares)
        if with_racks:
            _match_racks(shares)
        assignments: Assignments = {member: [] for member in members}
        for share in shares:
            share.deal_the_rest(assignments)
        if with_racks:
            for partitions in assignments.values():
                partitions.sort(key=lambda each: (utf16_order(each.topic), each.partition))
        return assignments


class TopicShares:
    """One topic: who may still have how much of it, and what is left."""

    def __init__(
        self, topic: str, cluster: Cluster, subscribers: tuple[str, ...], members: Mapping[str, Member]
    ) -> None:
        self.topic = topic
        self.subscribers = subscribers
        self.left: dict[int, TopicPartition] = dict(enumerate(cluster.partitions(topic)))
        self.given: dict[str, list[TopicPartition]] = {}
        self.share, self.larger_shares = divmod(len(self.left), len(subscribers))
        self.rack_of = {name: rack for name in subscribers if (rack := members[name].rack_id)}
        self.replica_racks = cluster.replica_racks(topic) if self.rack_of else []
        self.racks_matter = racks_matter(self.rack_of.values(), self.replica_racks)

    def room(self, member: str) -> int:
        """How many more partitions the member may have; one of the larger shares, as long as there are any."""
        return max(0, self.share + (self.larger_shares > 0) - len(self.given.get(member, ())))

    def give(self, member: str, numbers: list[int]) -> None:
        """Give partitions to a member; whoever gets more than the plain share has taken one of the larger ones."""
        had = self.given.setdefault(member, [])
        had += [self.left.pop(number) for number in numbers]
        self.larger_shares -= bool(numbers) and len(had) > self.share

    def in_rack(self, member: str, number: int) -> bool:
        """Whether the partition has a replica in the member's rack; any will do for a member without one."""
        rack = self.rack_of.get(member)
        return rack is None or rack in self.replica_racks[number]

    def deal_in_racks(self) -> None:
        """Let the subscribers take, in order, what their rack has, up to their shares."""
        for member in self.subscribers:
            self.give(member, [number for number in self.left if self.in_rack(member, number)][: self.room(member)])

    def deal_the_rest(self, assignments: Assignments) -> None:
        """Add what the members were given and, in runs, what is left up to their shares."""
        rest, start = list(self.left.values()), 0
        for member in self.subscribers:
            given = self.given.get(member, [])
            end = start + max(0, self.share + (self.larger_shares > 0) - len(given))
            run = rest[start:end]
            assignments[member] += given + run
            self.larger_shares -= bool(run) and len(given) + len(run) > self.share
            start = end


def _subscribers(topics: list[str], members: Mapping[str, Member]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {topic: {} for topic in topics}
    for name in static_members_first(members):
        for topic in members[name].topics:
            if topic in found:
                found[topic][name] = None
    return {topic: tuple(names) for topic, names in found.items()}


def _match_racks(shares: list[TopicShares]) -> None:
    together: dict[tuple[tuple[str, ...], int], list[TopicShares]] = {}
    for share in shares:
        together.setdefault((share.subscribers, len(share.replica_racks)), []).append(share)
    for group in together.values():
        if len(group) > 1:
            _match_racks_of_all(group)
        elif group[0].racks_matter:
            group[0].deal_in_racks()


def _match_racks_of_all(group: list[TopicShares]) -> None:
    """Give each partition number of all topics to the first member in whose rack every one of them has a replica."""
    candidates = list(group[0].subscribers)
    for number in range(len(group[0].replica_racks)):
        for member in candidates:
            if all(share.room(member) > 0 and share.in_rack(member, number) for share in group):
                for share in group:
                    share.give(member, [number])
                if not any(share.room(member) for share in group):
                    candidates.remove(member)
                break
