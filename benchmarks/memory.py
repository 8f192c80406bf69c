"""The memory of idle members: `python benchmarks/memory.py [--members N] [--groups N]`.

Members join and synchronise in the coordinator of this process, over a store that keeps nothing:
what is measured is the resident set before these members and after the last of them. Each has one protocol with the
subscription to one topic, and a share of thirty bytes.
"""

import argparse
import asyncio
import gc
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from regroup.coordinator import commands as c
from regroup.coordinator.group import Protocol, State
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import Settings
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.message import Structure
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord

SHARE_BYTES = 30


class Forgetful(MemoryStore):
    """Counts records and keeps none, so that only what the coordinator itself holds is measured."""

    async def append(self, records: Sequence[NewRecord]) -> int:
        self.count = getattr(self, "count", 0) + len(records)
        return self.count

    @property
    def last_position(self) -> int:
        return getattr(self, "count", 0)


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def gather(coordinator: GroupCoordinator, name: str, size: int) -> None:
    """A group of this size goes from nothing to Stable."""
    joined: list[Structure] = []
    all_joined = asyncio.Event()

    def answer(message: Structure) -> None:
        joined.append(message)
        if len(joined) == size:
            all_joined.set()

    for index in range(size):
        command = c.JoinGroup(
            group_id=name,
            at_ms=now_ms(),
            new_member_id=f"consumer-{index}-5ad7c1f2-3f0e-4a61-9d0b-{name:>12}",
            client_id=f"consumer-{index}",
            client_host="/10.0.0.7",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=(Protocol("range", encode_subscription(Subscription(3, (f"topic-of-{name}",)))),),
            can_be_asked_to_return=False,
        )
        coordinator.submit(command, answer)
    await all_joined.wait()
    for member in list(coordinator.group(name).members):
        group = coordinator.group(name)
        shares = {each: bytes(SHARE_BYTES) for each in group.members} if member == group.leader else {}
        command = c.SyncGroup(
            group_id=name, at_ms=now_ms(), generation_id=group.generation, member_id=member, assignment=shares
        )
        coordinator.submit(command, joined.append)


async def measure(members: int, groups: int) -> None:
    store = Forgetful()
    journal = Journal(store)
    settings = Settings(group_initial_rebalance_delay_ms=0)
    coordinator = GroupCoordinator(journal, settings=settings, now=now_ms)
    await coordinator.start()
    await gather(coordinator, "first", members // groups)
    before = resident_bytes()
    for start in range(0, groups, 200):
        names = [f"group-{number}" for number in range(start, min(start + 200, groups))]
        await asyncio.gather(*(gather(coordinator, name, members // groups) for name in names))
        await journal.durable(journal.last_position)
    await asyncio.sleep(0.1)
    assert sum(group.state is State.STABLE for group in coordinator.groups()) == groups + 1
    grown = resident_bytes() - before
    print(
        f"{members:,} idle members in {groups:,} groups: {before / 2**20:.0f} MiB before, "
        f"{(before + grown) / 2**20:.0f} MiB after, {grown / members:,.0f} bytes a member"
    )
    coordinator.stop()
    await journal.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100_000, help="(default 100000)")
    parser.add_argument("--groups", type=int, default=10_000, help="(default 10000)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(measure(options.members, options.groups))


if __name__ == "__main__":
    main()
