"""How quickly histories are folded and heartbeats decided: `python benchmarks/coordinator.py`. Medians of several runs.

The history is that of one group in which members gather, share, commit, and rebalance when somebody comes or goes; it
is folded from stored records, JSON and all, as a load does.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from regroup.coordinator import commands as c
from regroup.coordinator.decide import decide
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, Protocol
from regroup.coordinator.serialization import Cause, read, written, written_cause
from regroup.coordinator.settings import Settings
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.storage.records import Record

SETTINGS = Settings()
OFFERS = tuple(Protocol(name, encode_subscription(Subscription(3, ("orders",)))) for name in ("range", "sticky"))


class Band:
    """One group of so many consumers that do what consumers do."""

    def __init__(self, members: int) -> None:
        self.now_ms = 1_700_000_000_000
        self.group = Group(name="payments")
        self.records: list[Record] = []
        for _ in range(members):
            self.joins()
        self.tell(c.DeadlinePassed, kind=c.DeadlineKind.JOIN_PHASE)
        while self.group.join_phase:
            self.tell(c.DeadlinePassed, kind=c.DeadlineKind.JOIN_PHASE)
        self.shares()

    def tell(self, kind: type[c.Command], /, **fields: object) -> None:
        decision = decide(SETTINGS, self.group, kind(group_id="payments", at_ms=self.now_ms, **fields))
        first = self.group.number + 1
        cause = written_cause(Cause(api=kind.__name__, connection="0-1", correlation_id=first, client_id="consumer-1"))
        for number, event in enumerate(decision.events, first):
            new = written("payments", number, 1, event, cause)
            self.records.append(
                Record(*(getattr(new, field) for field in new.__struct_fields__), len(self.records) + 1)
            )
        self.group = decision.group

    def joins(self, member: str = "") -> None:
        self.tell(
            c.JoinGroup,
            member_id=member,
            new_member_id=f"consumer-{self.group.number}-5ad7c1f2-3f0e-4a61-9d0b-2f6f3c1e7a55",
            client_id="consumer-1",
            client_host="/10.0.0.7",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=OFFERS,
            can_be_asked_to_return=False,
        )

    def shares(self) -> None:
        assignment = dict.fromkeys(self.group.members, b"\x00" * 60)
        for name in list(self.group.members):
            self.tell(
                c.SyncGroup,
                member_id=name,
                generation_id=self.group.generation,
                assignment=assignment if name == self.group.leader else {},
            )

    def works(self, commits: int) -> None:
        for number in range(commits):
            self.now_ms += 5_000
            for partition, name in enumerate(self.group.members):
                self.tell(
                    c.CommitOffsets,
                    member_id=name,
                    generation_id=self.group.generation,
                    offsets=(c.OffsetToCommit("orders", partition, number),),
                )

    def changes(self) -> None:
        """The first member leaves, a newcomer comes, and everybody joins again."""
        self.tell(c.LeaveGroup, members=(c.Leaving(next(iter(self.group.members))),))
        for name in list(self.group.members):
            if self.group.join_phase:
                self.joins(name)
        self.shares()
        self.joins()
        for name in list(self.group.members)[:-1]:
            self.joins(name)
        self.shares()


def per_second(work: Callable[[], int], runs: int) -> float:
    rates = []
    for _ in range(runs):
        began = time.perf_counter()
        done = work()
        rates.append(done / (time.perf_counter() - began))
    return median(rates)


def history(members: int, commits: int, events: int) -> list[Record]:
    band = Band(members)
    while len(band.records) < events:
        band.works(commits)
        band.changes()
    return band.records[:events]


def folded(records: list[Record]) -> int:
    group = Group(name="payments")
    for record in records:
        group = evolve(group, read(record))
    return len(records)


def beaten(group: Group, count: int) -> int:
    beats = [
        c.Heartbeat(group_id="payments", at_ms=0, generation_id=group.generation, member_id=name)
        for name in group.members
    ]
    for number in range(count):
        decide(SETTINGS, group, beats[number % len(beats)])
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000, help="per history (default 50000)")
    parser.add_argument("--runs", type=int, default=5, help="per line (default 5)")
    options = parser.parse_args()
    for members, commits, what in ((4, 50, "mostly commits"), (4, 0, "nothing but rebalances"), (32, 10, "mixed")):
        records = history(members, commits, options.events)
        rate = per_second(partial(folded, records), options.runs)
        print(f"fold a history of {members:>2} members, {what + ',':24} events/s {rate:>10,.0f}")
    for members in (4, 500):
        group = Band(members).group
        rate = per_second(partial(beaten, group, 100_000), options.runs)
        print(f"decide heartbeats in a group of {members:>3}, {'':26} beats/s {rate:>10,.0f}")


if __name__ == "__main__":
    main()
