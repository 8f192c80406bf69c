"""How many events a second are folded, and how many requests are decided: `python benchmarks/pure/coordinator.py`.

Medians of several runs. The history is that of one group whose members join, sync and commit, and rebalance whenever
one leaves and another joins. It is folded from stored records, JSON included, as a load does.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from statistics import median

from regroup.coordinator import commands as c
from regroup.coordinator.decide import decide
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, MemberProfile, SupportedProtocol
from regroup.coordinator.serialization import Cause, decode_event, encode_cause, encode_event
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.storage.records import Record

SETTINGS = CoordinatorSettings()
GROUP_ID = "payments"
DECISIONS_PER_RUN = 100_000
PROFILE = MemberProfile(
    client_id="consumer-1",
    client_host="/10.0.0.7",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    supported_protocols=tuple(
        SupportedProtocol(name, encode_subscription(Subscription(3, ("orders",)))) for name in ("range", "sticky")
    ),
)


class RecordedGroup:
    """A Stable group of `members` consumers, and the records of everything that has happened to it."""

    def __init__(self, members: int) -> None:
        self.now_ms = 1_700_000_000_000
        self.group = Group(group_id=GROUP_ID)
        self.records: list[Record] = []
        for _ in range(members):
            self.join()
        while self.group.join_phase:
            self.handle(c.DeadlinePassed(group_id=GROUP_ID, at_ms=self.now_ms, kind=c.DeadlineKind.JOIN_PHASE))
        self.sync()

    def handle(self, command: c.Command) -> None:
        decision = decide(SETTINGS, self.group, command)
        first = self.group.event_number + 1
        api = type(command).__name__
        cause = encode_cause(Cause(api=api, connection="0-1", correlation_id=first, client_id="consumer-1"))
        for event_number, event in enumerate(decision.events, first):
            new = encode_event(GROUP_ID, event_number, 1, event, cause)
            self.records.append(new.stored_at(len(self.records) + 1))
        self.group = decision.group

    def join(self, member_id: str = "") -> None:
        self.handle(
            c.JoinGroup(
                group_id=GROUP_ID,
                at_ms=self.now_ms,
                member_id=member_id,
                new_member_id=f"consumer-{self.group.event_number}-5ad7c1f2-3f0e-4a61-9d0b-2f6f3c1e7a55",
                protocol_type="consumer",
                profile=PROFILE,
                supports_member_id_required=False,
            )
        )

    def sync(self) -> None:
        """Let every member sync; the leader's request carries the assignments."""
        assignments = dict.fromkeys(self.group.members, b"\x00" * 60)
        for member_id in list(self.group.members):
            self.handle(
                c.SyncGroup(
                    group_id=GROUP_ID,
                    at_ms=self.now_ms,
                    member_id=member_id,
                    generation_id=self.group.generation_id,
                    assignments=assignments if member_id == self.group.leader_id else {},
                )
            )

    def commit(self, rounds: int) -> None:
        """Let every member commit an offset, `rounds` times."""
        for offset in range(rounds):
            self.now_ms += 5_000
            for command in commits(self.group, self.now_ms, offset):
                self.handle(command)

    def replace_member(self) -> None:
        """Let the oldest member leave and a new one join. The group rebalances twice."""
        leaving = c.LeavingMember(next(iter(self.group.members)))
        self.handle(c.LeaveGroup(group_id=GROUP_ID, at_ms=self.now_ms, members=(leaving,)))
        for member_id in list(self.group.members):
            if self.group.join_phase:
                self.join(member_id)
        self.sync()
        self.join()
        for member_id in list(self.group.members)[:-1]:
            self.join(member_id)
        self.sync()


def commits(group: Group, at_ms: int, offset: int) -> list[c.Command]:
    return [
        c.OffsetCommit(
            group_id=GROUP_ID,
            at_ms=at_ms,
            member_id=member_id,
            generation_id=group.generation_id,
            offsets=(c.RequestedOffset("orders", partition, offset),),
        )
        for partition, member_id in enumerate(group.members)
    ]


def heartbeats(group: Group) -> list[c.Command]:
    return [
        c.Heartbeat(group_id=GROUP_ID, at_ms=0, generation_id=group.generation_id, member_id=member_id)
        for member_id in group.members
    ]


def history(members: int, commit_rounds: int, events: int) -> list[Record]:
    """The records of one group, exactly `events` of them.

    Between two changes of its members each member commits `commit_rounds` times.
    """
    recorded = RecordedGroup(members)
    while len(recorded.records) < events:
        recorded.commit(commit_rounds)
        recorded.replace_member()
    return recorded.records[:events]


def fold_records(records: Sequence[Record]) -> int:
    group = Group(group_id=GROUP_ID)
    for record in records:
        group = evolve(group, decode_event(record))
    return len(records)


def decide_all(group: Group, commands: Sequence[c.Command]) -> int:
    """Decide commands against the same group, in turn; returns how many, which is DECISIONS_PER_RUN."""
    for command in islice(cycle(commands), DECISIONS_PER_RUN):
        decide(SETTINGS, group, command)
    return DECISIONS_PER_RUN


def rate_per_second(work: Callable[[], int], runs: int) -> float:
    """How much `work` does in a second: the median of its result divided by the seconds that it took."""
    rates = []
    for _ in range(runs):
        started = time.perf_counter()
        done = work()
        rates.append(done / (time.perf_counter() - started))
    return median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000, help="events of each history (default 50000)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each measurement (default 5)")
    options = parser.parse_args()
    for members, commit_rounds, contents in ((4, 50, "mostly commits"), (4, 0, "rebalances only"), (32, 10, "mixed")):
        records = history(members, commit_rounds, options.events)
        rate = rate_per_second(partial(fold_records, records), options.runs)
        print(f"fold a history of {members:>3} members, {contents + ',':16} events/s     {rate:>10,.0f}")
    for members in (4, 500):
        group = RecordedGroup(members).group
        for name, commands in (("heartbeats", heartbeats(group)), ("commits", commits(group, 0, 1))):
            rate = rate_per_second(partial(decide_all, group, commands), options.runs)
            print(f"decide {name + ',':11} group of {members:>3} members, {'':11} decisions/s  {rate:>10,.0f}")


if __name__ == "__main__":
    main()
