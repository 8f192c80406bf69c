"""A store with a long history of one group: thousands of rebalances, with commits between them."""

import asyncio
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.storage.sqlite.threaded import open_store
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of

COMMITS: Final = 40
"""Between two rebalances."""


def write_long_store(path: Path, least_events: int) -> int:
    """Write a store with at least so many events of the group `made`; return how many it has."""
    names = ("anna", "ben", "carla")
    first = generation_of(*names, assignments={"anna": assignment(ORDERS[0]), "ben": assignment(ORDERS[1])})
    events, at_ms = list(first), 10_000
    profiles = [each for each in first if isinstance(each, e.MemberJoined)]
    generation = [each for each in first if isinstance(each, e.GenerationStarted | e.AssignmentWritten)]
    while len(events) < least_events:
        generation_id = 2 + (len(events) - len(first)) // (COMMITS + 10)
        events += [commit(at_ms + number, number, "anna") for number in range(COMMITS)]
        at_ms += 1_000
        events.append(e.RebalanceStarted(at_ms=at_ms, deadline_ms=at_ms + 60_000, reason="a test wants it"))
        events += [
            e.MemberRejoined(at_ms=at_ms + 10, member_id=each.member_id, profile=each.profile) for each in profiles
        ]
        started, written = generation
        events.append(replace(started, at_ms=at_ms + 20, generation_id=generation_id, sync_deadline_ms=at_ms + 60_000))
        events += [e.MemberSynced(at_ms=at_ms + 30, member_id=each, awaits_assignment=True) for each in names]
        events += [replace(written, at_ms=at_ms + 40), e.AssignmentCommitted(at_ms=at_ms + 40)]
        at_ms += 60_000

    async def write() -> None:
        async with await open_store(path) as store:
            await store.append(records_of(events))

    asyncio.run(write())
    return len(events)
