"""What is recorded of a group while it runs is what its store has in the end, and says what it does not have."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from regroup.classroom.live.following import FollowedTimelines
from regroup.classroom.live.recordings import MAX_MESSAGES, LiveRecordings
from regroup.classroom.reading import read_timelines
from regroup.classroom.recorded.messages import read_messages
from regroup.classroom.timeline import GroupTimeline
from regroup.control import member_views
from regroup.control.simulated import MembersOfProcess, NewMember
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.storage.sqlite.threaded import open_store
from regroup.testing import AsyncEmulator, Emulator


def plan(client: str, **more: object) -> NewMember:
    settings = {"session_timeout_ms": 600, "heartbeat_interval_ms": 50, **more}
    return NewMember(group="billing", topics=("orders",), client_id=client, **settings)


async def until_no_connection(kafka: AsyncEmulator) -> None:
    async with asyncio.timeout(10):
        while any(broker.connections() for broker in kafka.cluster.brokers):  # noqa: ASYNC110  # no event reports it
            await asyncio.sleep(0.01)


async def live_timeline(kafka: AsyncEmulator, recordings: LiveRecordings) -> GroupTimeline:
    timeline = (await FollowedTimelines(lambda: kafka.history).read("billing")).timeline()
    return recordings.added_to(timeline)


async def test_what_was_taken_in_piece_by_piece_is_what_the_store_has(tmp_path: Path) -> None:
    async with Emulator(store=tmp_path / "groups.db", topics={"orders": 4}) as kafka:
        assert kafka.recorder
        members, recordings = MembersOfProcess(kafka), LiveRecordings("billing")
        for count, client in enumerate(("anna", "ben", "carla"), start=1):
            members.add(plan(client))
            recordings.take(kafka.recorder.rows(), ())
            await kafka.group("billing").wait_until_stable(members=count)
            recordings.take(kafka.recorder.rows(), ())
        await members.find("ben").crash()
        await kafka.group("billing").wait_until_stable(members=2)
        await members.close()
        await until_no_connection(kafka)
        recordings.take(kafka.recorder.rows(), ())
        live = await live_timeline(kafka, recordings)
        messages = recordings.messages(live)
    async with await open_store(tmp_path / "groups.db") as store:
        read = (await read_timelines(store, ["billing"]))["billing"]
        stored = await read_messages(store, read.exchanges[-MAX_MESSAGES:])
    assert live.moments == read.moments[: len(live.moments)]
    assert {each.api for each in live.exchanges} >= {"JoinGroup", "SyncGroup", "Heartbeat"}
    # The times of the heartbeats within a run are known more or less exactly, by how often they were looked at.
    assert [replace(each, seen_ms=()) for each in live.exchanges] == [
        replace(each, seen_ms=()) for each in read.exchanges
    ]
    assert messages == stored
    assert live.recorded.exchanges
    assert live.recorded.processes == read.recorded.processes


async def test_exchanges_that_the_recorder_has_forgotten_are_forgotten_and_so_is_their_time() -> None:
    async with Emulator(topics={"orders": 4}) as kafka:
        assert kafka.recorder
        members, recordings = MembersOfProcess(kafka), LiveRecordings("billing")
        members.add(plan("anna"))
        await kafka.group("billing").wait_until_stable(members=1)
        recordings.take(kafka.recorder.rows(), ())
        before = await live_timeline(kafka, recordings)
        assert before.recorded.processes[0][1] == 0
        kafka.recorder._max_exchanges = 3
        async with asyncio.timeout(10):
            while kafka.recorder.rows()[0].number < 8:
                await kafka.group("billing").rebalance()
                await kafka.group("billing").wait_until_stable(members=1)
        recordings.take(kafka.recorder.rows(), ())
        after = await live_timeline(kafka, recordings)
        assert len(after.exchanges) <= 3
        assert after.recorded.processes[0][1] == kafka.recorder.rows()[0].at_ms
        await members.close()


async def test_of_too_many_exchanges_the_latest_are_taken_in() -> None:
    async with Emulator(topics={"orders": 4}) as kafka:
        assert kafka.recorder
        members, recordings = MembersOfProcess(kafka), LiveRecordings("billing")
        members.add(plan("anna"))
        await kafka.group("billing").wait_until_stable(members=1)
        recordings.take(kafka.recorder.rows(), ())
        whole = await live_timeline(kafka, recordings)
        recordings.take(kafka.recorder.rows(), (), most=2)
        part = await live_timeline(kafka, recordings)
        assert len(whole.exchanges) > len(part.exchanges) == 2
        assert part.recorded.processes[0][1] == part.exchanges[0].at_ms
        await members.close()


async def test_views_are_what_members_believed() -> None:
    async with Emulator(topics={"orders": 4}) as kafka:
        members = MembersOfProcess(kafka)
        members.add(plan("anna"))
        members.add(plan("ben"))
        group = await kafka.group("billing").wait_until_stable(members=2)
        async with asyncio.timeout(10):
            while not all(len(each.view.partitions) == 2 for each in members.all()):
                await kafka.changes.next_change()
        ids = [each.member_id for each in group.members]
        views = members.views_of("billing", ids)
        assert views is not None
        last = {each.client: each.partitions for each in views}
        assert last == {each.client_id: tuple(sorted(each.partitions)) for each in group.members}
        await members.find("ben").crash()
        views = members.views_of("billing", ids)
        assert views is not None
        assert (views[-1].client, views[-1].partitions) == ("ben", ())
        recordings = LiveRecordings("billing")
        recordings.take((), views)
        live = await live_timeline(kafka, recordings)
        assert (live.recorded.views, live.recorded.network, live.recorded.exchanges) == (True, False, False)
        anna = [each for each in live.views if each.client_id == "anna"]
        assert TopicPartition("orders", 0) in {each for view in anna for each in view.partitions}
        assert members.views_of("billing", [*ids, "a real client"]) is None
        await members.close()


async def test_too_many_views_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_views, "MAX_VIEWS", 1)
    async with Emulator(topics={"orders": 4}) as kafka:
        members = MembersOfProcess(kafka)
        members.add(plan("anna"))
        members.add(plan("ben"))
        group = await kafka.group("billing").wait_until_stable(members=2)
        assert members.views_of("billing", [each.member_id for each in group.members]) is None
        await members.close()
