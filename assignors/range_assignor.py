"""`range`: each topic by itself, cut into runs of neighbours, one run for each subscriber (KIP-881 adds racks)."""

from collections.abc import Mapping, Sequence
from itertools import islice

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    Cluster,
    Member,
    known_topics,
    racks_matter,
)
from regroup.assignors.member_order import seats_by_topic, static_members_first
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import java_hash_map_order, utf16_order


class RangeAssignor(Assignor):
    """Of n partitions each of m subscribers gets n // m, and the first n % m of them one more.

    Where racks matter, partitions with a replica in a member's rack are given first, without touching those shares:
    topics with the same subscribers and as many partitions stay together, one member for a number across all of
    them, others go topic by topic. What is left over is then cut into runs as if there were no racks.
    """

    name = "range"

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Each member's runs. Their order by topic is that of Java's hash map; sorted, if racks were looked at."""
        order = static_members_first(members)
        seats = seats_by_topic(order, members)
        topics = known_topics(cluster, java_hash_map_order(seats))
        if len(topics) < len(seats):  # a smaller map may have fewer buckets
            topics = java_hash_map_order(topics)
        assignments: Assignments = {member: [] for member in members}
        if cluster.racks and any(member.rack_id for member in members.values()):
            racks = {seat: members[name].rack_id for seat, name in enumerate(order)}
            shares = [TopicShares(topic, cluster, seats[topic], racks) for topic in topics]
            _deal_shares(shares, [assignments[name] for name in order])
        else:
            _cut(cluster, topics, seats, [assignments[name] for name in order])
        return assignments


Held = list[list[TopicPartition]]
"""What each member has, by its seat."""


def _cut(cluster: Cluster, topics: Sequence[str], seats: Mapping[str, list[int]], held: Held) -> None:
    """Cut topics into runs; one that agrees in subscribers and size with that before it is cut at the same places."""
    subscribers: list[int] = []
    count = 0
    runs: list[tuple[int, int, int]] = []
    for topic in topics:
        partitions = cluster.partitions(topic)
        if len(seats[topic]) == 1:
            held[seats[topic][0]] += partitions
            continue
        if len(partitions) != count or seats[topic] != subscribers:
            subscribers, count = seats[topic], len(partitions)
            runs = _runs(subscribers, count)
        for seat, start, end in runs:
            held[seat] += partitions[start:end]


def _runs(subscribers: list[int], count: int) -> list[tuple[int, int, int]]:
    """Seat, start and end of every run that is not empty."""
    share, larger_shares = divmod(count, len(subscribers))
    runs = []
    start = 0
    for place, seat in enumerate(subscribers[:count]):
        end = start + share + (place < larger_shares)
        runs.append((seat, start, end))
        start = end
    return runs


class TopicShares:
    """One topic where racks are looked at: who may still have how much of it, and what is left."""

    def __init__(self, topic: str, cluster: Cluster, subscribers: list[int], racks: Mapping[int, str | None]) -> None:
        self.subscribers = subscribers
        self.left = dict(enumerate(cluster.partitions(topic)))
        self.given: dict[int, list[TopicPartition]] = {seat: [] for seat in subscribers}
        self.share, self.larger_shares = divmod(len(self.left), len(subscribers))
        self.rack_of = {seat: rack for seat in subscribers if (rack := racks[seat])}
        self.replica_racks = cluster.replica_racks(topic) if self.rack_of else []
        self.racks_matter = racks_matter(self.rack_of.values(), self.replica_racks)

    def room(self, seat: int) -> int:
        """How many more partitions the member may have; one of the larger shares, as long as there are any."""
        return max(0, self.share + (self.larger_shares > 0) - len(self.given[seat]))

    def give(self, seat: int, numbers: list[int]) -> None:
        """Give partitions to a member; whoever gets more than the plain share has taken one of the larger ones."""
        self.given[seat] += [self.left.pop(number) for number in numbers]
        self.larger_shares -= bool(numbers) and len(self.given[seat]) > self.share

    def in_rack(self, seat: int, number: int) -> bool:
        """Whether the partition has a replica in the member's rack; any will do for a member without one."""
        rack = self.rack_of.get(seat)
        return rack is None or rack in self.replica_racks[number]

    def deal_in_racks(self) -> None:
        """Let the subscribers take, in order, what their rack has, up to their shares."""
        for seat in self.subscribers:
            self.give(seat, [number for number in self.left if self.in_rack(seat, number)][: self.room(seat)])

    def deal_the_rest(self) -> None:
        """Let the subscribers take, in order, runs of what is left, up to their shares."""
        for seat in self.subscribers:
            self.give(seat, list(islice(self.left, self.room(seat))))


def _deal_shares(shares: list[TopicShares], held: Held) -> None:
    with_racks = any(share.racks_matter for share in shares)
    if with_racks:
        _match_racks(shares)
    for share in shares:
        share.deal_the_rest()
        for seat, partitions in share.given.items():
            held[seat] += partitions
    if with_racks:
        for partitions in held:
            partitions.sort(key=lambda each: (utf16_order(each.topic), each.partition))


def _match_racks(shares: list[TopicShares]) -> None:
    together: dict[tuple[tuple[int, ...], int], list[TopicShares]] = {}
    for share in shares:
        together.setdefault((tuple(share.subscribers), len(share.replica_racks)), []).append(share)
    for group in together.values():
        if len(group) > 1:
            _match_racks_of_all(group)
        elif group[0].racks_matter:
            group[0].deal_in_racks()


def _match_racks_of_all(group: list[TopicShares]) -> None:
    """Give each partition number of all topics to the first member in whose rack every one of them has a replica."""
    candidates = list(group[0].subscribers)
    for number in range(len(group[0].replica_racks)):
        for seat in candidates:
            if all(share.room(seat) > 0 and share.in_rack(seat, number) for share in group):
                for share in group:
                    share.give(seat, [number])
                if not any(share.room(seat) for share in group):
                    candidates.remove(seat)
                break
