"""The asyncio coordinator: durable before answered, and silence that speaks."""

import asyncio

import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.group import Protocol, State
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.storage.memory import MemoryStore
from tests.coordinator.desk import SETTINGS, Desk, SlowStore, every_record, full_fold, turns
from tests.coordinator.story import behaviour

# Durable before answered


async def test_no_answer_leaves_before_its_events_are_durable(desk: Desk, store: SlowStore) -> None:
    store.gate.clear()
    answer = desk.asks(desk.join("anna", can_be_asked_to_return=True))
    await turns()
    assert not answer.has_come
    assert desk.coordinator.group("payments").exists
    store.gate.set()
    await turns()
    assert answer.code is ErrorCode.MEMBER_ID_REQUIRED


async def test_an_answer_without_events_waits_for_what_it_rests_on(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    store.gate.clear()
    commit = desk.asks(desk.commit(member_id="anna", generation_id=1))
    beat = desk.asks(desk.beat("anna"))
    elsewhere = desk.asks(desk.beat("anna", group="another"))
    await turns()
    assert (commit.has_come, beat.has_come) == (False, False)
    assert elsewhere.code is ErrorCode.UNKNOWN_MEMBER_ID
    store.gate.set()
    await turns()
    assert (commit.has_come, beat.code) == (True, ErrorCode.NONE)


async def test_an_answer_that_rests_on_nothing_new_leaves_at_once(desk: Desk) -> None:
    await desk.stable("anna")
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE


async def test_every_record_says_whose_reign_it_was_written_in_and_why(desk: Desk, store: SlowStore) -> None:
    desk.coordinator.submit(desk.join("anna"), None, lambda: b'{"api":"JoinGroup"}')
    await asyncio.sleep(4)
    records = await every_record(store)
    assert {record.reign for record in records} == {1}
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    causes = [msgspec.json.decode(record.cause or b"{}") for record in records]
    assert [cause.get("api") or cause.get("deadline") for cause in causes] == ["JoinGroup"] * 4 + ["join-phase"]


# Silence


async def test_the_initial_delay_ends_by_itself(desk: Desk) -> None:
    answer = desk.asks(desk.join("anna"))
    await asyncio.sleep(2.99)
    assert not answer.has_come
    await asyncio.sleep(0.02)
    assert (answer.code, answer.message.generation_id) == (ErrorCode.NONE, 1)


@behaviour("timeout.initial-delay.zero")
async def test_without_an_initial_delay_the_answer_still_comes_by_the_timer() -> None:
    desk = Desk(MemoryStore(), Settings(group_initial_rebalance_delay_ms=0))
    await desk.coordinator.start()
    answer = desk.asks(desk.join("anna"))
    await turns()
    assert not answer.has_come
    await asyncio.sleep(0.002)
    assert answer.message.generation_id == 1
    desk.coordinator.stop()


async def test_a_clock_that_jumps_ahead_does_not_delay_what_begins_afterwards(desk: Desk) -> None:
    ahead_ms = 0
    now = desk.now
    desk.now = lambda: now() + ahead_ms
    desk.coordinator = GroupCoordinator(desk.journal, settings=SETTINGS, now=desk.now)
    await desk.coordinator.start()
    desk.asks(desk.join("ben", can_be_asked_to_return=True))
    await turns()
    ahead_ms = 9_000
    answer = desk.asks(desk.join("anna"))
    await asyncio.sleep(3.1)
    assert desk.coordinator.group("payments").reserved_ids == {}
    await asyncio.sleep(3.1)
    assert answer.message.generation_id == 1
    desk.coordinator.stop()


async def test_heartbeats_hold_the_expulsion_back(desk: Desk) -> None:
    await desk.stable("anna")
    for _ in range(20):
        await asyncio.sleep(9)
        assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    await asyncio.sleep(9.9)
    assert desk.coordinator.group("payments").state is State.STABLE
    await asyncio.sleep(0.2)
    assert desk.coordinator.group("payments").state is State.EMPTY


async def test_when_one_leaves_the_others_last_heartbeats_still_count(desk: Desk) -> None:
    await desk.stable("anna", "ben")
    await asyncio.sleep(5)
    desk.asks(desk.beat("anna"))
    left = desk.asks(c.LeaveGroup(group_id="payments", at_ms=desk.now(), members=(c.Leaving("ben"),)))
    await turns()
    assert left.message.members[0].error_code == ErrorCode.NONE
    await asyncio.sleep(9.9)
    assert list(desk.coordinator.group("payments").members) == ["anna"]
    await asyncio.sleep(0.2)
    assert list(desk.coordinator.group("payments").members) == []


async def test_the_next_leader_can_be_named_beforehand_and_the_history_stays_whole(
    desk: Desk, store: SlowStore
) -> None:
    await desk.stable("anna", "ben", "carla")
    desk.coordinator.favours("payments", "carla")
    desk.coordinator.favours("payments", "a stranger")
    desk.asks(c.LeaveGroup(group_id="payments", at_ms=desk.now(), members=(c.Leaving("anna"),)))
    await turns()
    assert desk.coordinator.group("payments").leader == "carla"
    assert (await full_fold(store))["payments"] == desk.coordinator.group("payments")


async def test_an_expulsion_is_recorded_with_the_silence_that_led_to_it(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    heard_ms = desk.now()
    await asyncio.sleep(11)
    expelled = next(record for record in await every_record(store) if record.type == "member-expelled")
    assert msgspec.json.decode(expelled.cause or b"") == {"deadline": "session", "member": "anna", "since_ms": heard_ms}


async def test_old_offsets_are_looked_for_regularly() -> None:
    desk = Desk(MemoryStore(), Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=50_000))
    await desk.coordinator.start()
    desk.asks(desk.commit())
    await asyncio.sleep(99)
    assert desk.coordinator.group("payments").exists
    await asyncio.sleep(2)
    assert not desk.coordinator.group("payments").exists
    desk.coordinator.stop()


async def test_a_coordinator_that_has_stopped_has_no_timers(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    desk.coordinator.stop()
    before = store.last_position
    await asyncio.sleep(86_400)
    assert store.last_position == before


# Whoever no longer listens


async def test_a_caller_that_gives_up_changes_nothing(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.coordinator.join_group(desk.join("anna")))
    other = asyncio.create_task(desk.coordinator.join_group(desk.join("ben")))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.sleep(6)
    assert (await other).generation_id == 1
    assert list(desk.coordinator.group("payments").members) == ["anna", "ben"]


async def test_a_resent_join_is_answered_in_place_of_the_first(desk: Desk) -> None:
    await desk.stable("anna", "ben")
    first = desk.asks(desk.join("", member_id="ben", protocols=(Protocol("range", b"new"),)))
    second = desk.asks(desk.join("", member_id="ben", protocols=(Protocol("range", b"new"),)))
    desk.asks(desk.join("", member_id="anna"))
    await turns()
    assert not first.has_come
    assert second.message.generation_id == 2


async def test_a_transaction_is_ended_through_the_awaitable_face_too(desk: Desk) -> None:
    offsets = (c.OffsetToCommit("foo", 0, 5),)
    written = await desk.coordinator.commit_transactional_offsets(
        c.CommitTransactionalOffsets(group_id="payments", at_ms=desk.now(), producer_id=10, offsets=offsets)
    )
    assert written.topics[0].partitions[0].error_code == ErrorCode.NONE
    ended = await desk.coordinator.end_transaction(
        c.EndTransaction(group_id="payments", at_ms=desk.now(), producer_id=10, committed=True)
    )
    assert ended.error_code == ErrorCode.NONE
    fetched = await desk.coordinator.fetch_offsets(
        c.FetchOffsets(group_id="payments", at_ms=desk.now(), partitions=None, require_stable=True)
    )
    assert fetched.topics[0].partitions[0].committed_offset == 5
