"""A queue that always knows the member with the fewest partitions."""

from collections.abc import Iterable
from heapq import heapify, heappush, heapreplace


class LeastLoaded:
    """The members of one circle, by their number of partitions and then by rank.

    `counts[rank]` is shared with, and changed by, the caller. A heap entry may be out of date as long as it is not
    too high: one that has grown since is put right when it comes to the top, one that fell must be told by `fell`.
    """

    def __init__(self, ranks: Iterable[int], counts: list[int]) -> None:
        self.counts = counts
        self.size = len(counts)
        self.ranks = frozenset(ranks)
        self.heap = [counts[rank] * self.size + rank for rank in self.ranks]
        heapify(self.heap)

    def least(self) -> int:
        """The rank of the member with the fewest partitions, the smallest one of several."""
        while True:
            count, rank = divmod(self.heap[0], self.size)
            if count == self.counts[rank]:
                return rank
            heapreplace(self.heap, self.counts[rank] * self.size + rank)

    def fell(self, rank: int) -> None:
        """A member lost a partition."""
        if rank in self.ranks:
            heappush(self.heap, self.counts[rank] * self.size + rank)
