"""A timeline that is followed while its store grows equals the one that is read at the end."""

import asyncio
from collections.abc import Sequence

import pytest

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.live import following
from regroup.classroom.live.following import FollowedPosition, FollowedTimelines
from regroup.classroom.reading import read_timelines
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import encode_snapshot
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from regroup.storage.store import append_history
from tests.classroom.histories import drawn_history, groups_of, scenario_history

SCENARIO = "slow-member-delays-the-rebalance"


async def filled(records: Sequence[Record]) -> MemoryStore:
    store = MemoryStore()
    await append_history(store, records)
    return store


@pytest.fixture
def drawn() -> tuple[Record, ...]:
    """Made before the loop of a test runs, since a simulation has a loop of its own."""
    return drawn_history(3)


@pytest.fixture
def records() -> tuple[Record, ...]:
    return scenario_history(SCENARIO)


@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_a_followed_timeline_equals_the_one_of_the_whole_history(drawn: tuple[Record, ...], step: int) -> None:
    records, store = drawn, MemoryStore()
    timelines = FollowedTimelines(lambda: store)
    for start in range(0, len(records), step):
        await append_history(store, records[start : start + step])
        for group in groups_of(records):
            followed = await timelines.read(group)
            seen = [each for each in records[: start + step] if each.group == group]
            assert followed.exists == bool(seen)
            if seen:
                assert followed.timeline().last.position == seen[-1].position
    for group in groups_of(records):
        assert (await timelines.read(group)).timeline() == timeline_of(group, records)


@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_a_followed_position_is_that_of_the_last_event_of_the_group_or_of_a_topic(
    drawn: tuple[Record, ...], step: int
) -> None:
    store, (group, *_) = MemoryStore(), groups_of(drawn)
    followed = FollowedPosition(group)
    assert await followed.advance(store) == 0
    for start in range(0, len(drawn), step):
        await append_history(store, drawn[start : start + step])
        seen = drawn[: start + step]
        expected = [each for each in seen if each.group == group or each.type in following.TOPIC_EVENT_TYPES]
        exists = any(each.group == group for each in seen)
        assert await followed.advance(store) == (expected[-1].position if exists else 0)
        assert await followed.advance(store) == followed.position


async def test_a_position_that_is_followed_late_is_not_below_the_last_event(records: tuple[Record, ...]) -> None:
    store = await filled(records)
    (group,) = groups_of(records)
    assert records[-1].position >= await FollowedPosition(group).advance(store)
    assert await FollowedPosition(group).advance(store) >= timeline_of(group, records).last.position


async def test_readers_at_the_same_time_share_one_reading(records: tuple[Record, ...]) -> None:
    store = await filled(records)
    (group,) = groups_of(records)
    timelines = FollowedTimelines(lambda: store)
    first, second = await asyncio.gather(timelines.read(group), timelines.read(group))
    assert first is second
    assert first.timeline() is second.timeline() == timeline_of(group, records)


async def test_a_group_without_history_has_position_0_until_it_exists(records: tuple[Record, ...]) -> None:
    first = next(each for each in records if each.group is not None)
    store = await filled(records[: first.position - 1])
    timelines = FollowedTimelines(lambda: store)
    before = await timelines.read(str(first.group))
    assert (before.exists, before.position) == (False, 0)
    await append_history(store, records[first.position - 1 : first.position])
    assert (await timelines.read(str(first.group))).position == first.position


async def test_topics_count_as_news(records: tuple[Record, ...]) -> None:
    store = await filled(records)
    (group,) = groups_of(records)
    followed = await FollowedTimelines(lambda: store).read(group)
    assert followed.position == max(
        each.position for each in records if each.group == group or each.type in following.TOPIC_EVENT_TYPES
    )


async def test_the_timelines_that_were_read_longest_ago_are_dropped(
    records: tuple[Record, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MAX_FOLLOWED", 2)
    store = await filled(records)
    timelines = FollowedTimelines(lambda: store)
    first = await timelines.read("a")
    await timelines.read("b")
    assert await timelines.read("a") is first
    await timelines.read("c")
    assert await timelines.read("a") is first
    monkeypatch.setattr(following, "MAX_FOLLOWED", 50)
    monkeypatch.setattr(following, "MAX_KEPT_EVENTS", 1)
    (group,) = groups_of(records)
    long = await timelines.read(group)
    assert await timelines.read(group) is long
    assert await timelines.read("a") is not first


async def test_a_timeline_of_too_many_events_begins_anew(
    records: tuple[Record, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = groups_of(records)
    whole = timeline_of(group, records)
    monkeypatch.setattr(following, "MAX_EVENTS", len(whole.moments) - 3)
    store = await filled(records)
    timeline = (await FollowedTimelines(lambda: store).read(group)).timeline()
    assert timeline.moments == whole.moments[-3:]
    assert (timeline.is_trimmed, timeline.began) == (True, whole.moments[-4].point)
    for position in (timeline.last.position, timeline.moments[0].position):
        owners = {each.partition: each.owners for each in timeline.ownership_at(position)}
        assert owners == {each.partition: each.owners for each in whole.ownership_at(position)}
        assert owners


async def test_a_store_that_is_trimmed_meanwhile_is_read_again(records: tuple[Record, ...]) -> None:
    (group,) = groups_of(records)
    store = await filled(records[:20])
    timelines = FollowedTimelines(lambda: store)
    await timelines.read(group)
    await append_history(store, records[20:])
    cut = store.last_position
    await store.save_snapshots(cut, [encode_snapshot(each, cut, 1) for each in (await load_groups(store)).values()])
    await store.trim(cut + 1)
    assert (await timelines.read(group)).timeline() == (await read_timelines(store, [group]))[group]
