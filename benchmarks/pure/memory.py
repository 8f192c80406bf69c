"""The memory that idle members take: `python benchmarks/pure/memory.py [--members N] [--groups N]`.

Members join and sync in the coordinator of this process, over a store that discards its records. The benchmark
compares the resident set before these members with the one after the last of them. Each member supports one protocol,
subscribes to one topic, and has an assignment of thirty bytes.
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
from regroup.coordinator.group import GroupState, MemberProfile
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.message import Structure
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord

ASSIGNMENT_BYTES = 30


class DiscardingStore(MemoryStore):
    """A store that counts records and keeps none, so that only the coordinator itself takes memory."""

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


async def reach_stable(coordinator: GroupCoordinator, group_id: str, size: int) -> None:
    """Let `size` members join a group and sync, until the group is Stable."""
    responses: list[Structure] = []
    all_joined = asyncio.Event()

    def on_response(response: Structure) -> None:
        responses.append(response)
        if len(responses) == size:
            all_joined.set()

    for index in range(size):
        join = c.JoinGroup(
            group_id=group_id,
            at_ms=now_ms(),
            new_member_id=f"consumer-{index}-5ad7c1f2-3f0e-4a61-9d0b-{group_id:>12}",
            protocol_type="consumer",
            profile=MemberProfile(
                client_id=f"consumer-{index}",
                client_host="/10.0.0.7",
                session_timeout_ms=1_800_000,
                rebalance_timeout_ms=300_000,
                supported_protocols=(
                    SupportedProtocol("range", encode_subscription(Subscription(3, (f"topic-of-{group_id}",)))),
                ),
            ),
            supports_member_id_required=False,
        )
        coordinator.submit(join, on_response)
    await all_joined.wait()
    for member_id in list(coordinator.group(group_id).members):
        group = coordinator.group(group_id)
        is_leader = member_id == group.leader_id
        assignments = {each: bytes(ASSIGNMENT_BYTES) for each in group.members} if is_leader else {}
        sync = c.SyncGroup(
            group_id=group_id,
            at_ms=now_ms(),
            generation_id=group.generation_id,
            member_id=member_id,
            assignments=assignments,
        )
        coordinator.submit(sync, responses.append)


async def measure(members: int, groups: int) -> None:
    store = DiscardingStore()
    journal = Journal(store)
    settings = CoordinatorSettings(group_initial_rebalance_delay_ms=0)
    coordinator = GroupCoordinator(journal, settings=settings, now=now_ms)
    await coordinator.start()
    await reach_stable(coordinator, "first", members // groups)
    before = resident_bytes()
    for start in range(0, groups, 200):
        group_ids = [f"group-{number}" for number in range(start, min(start + 200, groups))]
        await asyncio.gather(*(reach_stable(coordinator, group_id, members // groups) for group_id in group_ids))
        await journal.wait_until_durable(journal.last_position)
    await asyncio.sleep(0.1)
    assert sum(group.state is GroupState.STABLE for group in coordinator.groups()) == groups + 1
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
