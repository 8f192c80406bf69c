"""The asyncio coordinator: durable before answered, silence that speaks, crashes, loads and snapshots."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.coordinator import GroupCoordinator
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, Protocol, State
from regroup.coordinator.history import history, load_groups
from regroup.coordinator.kafka_log import KafkaLog, SlowLog
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.errors import StoreIsFull
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record
from regroup.tests.coordinator.story import behaviour
from regroup.tests.virtual_time import virtual_now

SETTINGS = Settings()


class SlowStore(MemoryStore):
    """Waits at a gate before each commit, and can run out of room."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_full = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        await self.gate.wait()
        if self.is_full:
            raise StoreIsFull("no room")
        return await super().append(records)


class Desk:
    """A coordinator at work, and short words for what consumers send it."""

    def __init__(self, store: MemoryStore, settings: Settings = SETTINGS, kafka_log: KafkaLog | None = None) -> None:
        self.store = store
        self.journal = Journal(store)
        self.now = virtual_now()
        self.coordinator = GroupCoordinator(self.journal, settings=settings, now=self.now, kafka_log=kafka_log)
        self.tasks: list[asyncio.Task[Any]] = []

    def join(self, name: str, group: str = "payments", **fields: Any) -> c.JoinGroup:
        usual: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (Protocol("range"),),
            "can_be_asked_to_return": False,
            "new_member_id": name,
        }
        return c.JoinGroup(**usual | fields, group_id=group, at_ms=self.now())

    def sync(self, name: str, generation: int = 1, group: str = "payments", **shares: bytes) -> c.SyncGroup:
        return c.SyncGroup(
            group_id=group, at_ms=self.now(), member_id=name, generation_id=generation, assignment=shares
        )

    def beat(self, name: str, generation: int = 1, group: str = "payments") -> c.Heartbeat:
        return c.Heartbeat(group_id=group, at_ms=self.now(), member_id=name, generation_id=generation)

    def commit(self, offset: int = 100, group: str = "payments", **fields: Any) -> c.CommitOffsets:
        offsets = (c.OffsetToCommit("foo", 0, offset),)
        return c.CommitOffsets(group_id=group, at_ms=self.now(), offsets=offsets, **fields)

    def asks(self, command: c.Command) -> "Answer":
        """Hand a command in; the answer comes when it comes."""
        answer = Answer()
        self.coordinator.submit(command, answer.take)
        return answer

    async def stable(self, *names: str, group: str = "payments") -> None:
        """Everybody joins in the initial delay and has a share of generation 1."""
        for name in names:
            self.asks(self.join(name, group))
        await asyncio.sleep(7)
        for name in names:
            self.asks(self.sync(name, group=group, **{each: each.encode() for each in names}))
        await turns()
        assert self.coordinator.group(group).state is State.STABLE


class Answer:
    """What came back, and how often."""

    def __init__(self) -> None:
        self.all: list[Structure] = []

    def take(self, message: Structure) -> None:
        self.all.append(message)

    @property
    def has_come(self) -> bool:
        return bool(self.all)

    @property
    def message(self) -> Any:
        [message] = self.all
        return message

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.message.error_code)


async def turns(count: int = 10) -> None:
    """Let everybody do what can be done without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def every_record(store: MemoryStore) -> list[Record]:
    return [record async for record in store.read()]


async def full_fold(store: MemoryStore) -> dict[str, Group]:
    """Every group from its first event on, without snapshots."""
    groups: dict[str, Group] = {}
    async for record, event in history(store):
        name = record.group or ""
        groups[name] = evolve(groups.get(name) or Group(name=name), event)
    return groups


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk(SlowStore())
    await desk.coordinator.start()
    yield desk
    desk.coordinator.stop()
    if desk.journal.failure is None:
        await desk.journal.close()


@pytest.fixture
def store(desk: Desk) -> SlowStore:
    assert isinstance(desk.store, SlowStore)
    return desk.store


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


# Starting, stopping, failing


async def test_before_it_starts_a_coordinator_is_not_available() -> None:
    desk = Desk(MemoryStore())
    assert desk.asks(desk.beat("anna")).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not desk.coordinator.is_ready


@behaviour("recovery.unload-answers-parked-requests")
async def test_a_coordinator_that_stops_sends_everybody_elsewhere(desk: Desk) -> None:
    parked = desk.asks(desk.join("anna"))
    desk.coordinator.stop()
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NOT_COORDINATOR


@behaviour("recovery.loading-answers", "heartbeat.loading")
async def test_while_it_loads_a_coordinator_answers_heartbeats_alone() -> None:
    class StoreThatReadsSlowly(MemoryStore):
        async def next_reign(self) -> int:
            await asyncio.sleep(5)
            return await super().next_reign()

    desk = Desk(StoreThatReadsSlowly())
    starting = asyncio.create_task(desk.coordinator.start())
    await asyncio.sleep(1)
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    assert desk.asks(desk.join("anna")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await starting
    assert desk.asks(desk.beat("anna")).code is ErrorCode.UNKNOWN_MEMBER_ID
    desk.coordinator.stop()


async def test_when_the_disk_fails_parked_requests_get_16_and_all_others_14(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", group="quiet")
    parked = desk.asks(desk.join("anna"))
    await turns()
    store.is_full = True
    waiting = desk.asks(desk.join("ben", can_be_asked_to_return=True))
    await turns()
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert waiting.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not desk.coordinator.is_ready
    assert desk.asks(desk.join("carla")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.asks(desk.beat("anna", group="quiet")).code is ErrorCode.NONE


async def test_after_a_failure_the_coordinator_goes_on_from_what_is_durable(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    assert desk.asks(desk.commit(100, member_id="anna", generation_id=1)).all == []
    await turns()
    store.is_full = True
    lost = desk.asks(desk.commit(200, member_id="anna", generation_id=1))
    await turns()
    [row] = lost.message.topics[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store.is_full = False
    desk.journal.reopen(store)
    await desk.coordinator.start()
    group = desk.coordinator.group("payments")
    assert (group.state, group.generation) == (State.STABLE, 1)
    assert group.offsets["foo"][0].offset == 100
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    assert (await every_record(store))[-1].reign == 2
    await asyncio.sleep(10.1)
    assert desk.coordinator.group("payments").state is State.EMPTY


async def test_a_failure_while_nothing_is_written_is_noticed_by_the_next_write(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    store.is_full = True
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    await asyncio.sleep(11)
    assert not desk.coordinator.is_ready


# Loading


async def test_another_coordinator_finds_the_groups_as_they_were(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", "ben")
    desk.asks(desk.commit(7, group="simple"))
    desk.asks(desk.join("carla", group="forming"))
    await turns()
    desk.coordinator.stop()
    after = Desk(store)
    await after.coordinator.start()
    groups = {group.name: group for group in after.coordinator.groups()}
    assert {name: group.state for name, group in groups.items()} == {
        "payments": State.STABLE,
        "simple": State.EMPTY,
        "forming": State.EMPTY,
    }
    assert await load_groups(store) == groups == await full_fold(store)
    assert after.asks(after.beat("ben")).code is ErrorCode.NONE
    again = after.join("", group="forming", member_id="carla")
    assert after.asks(again).code is ErrorCode.UNKNOWN_MEMBER_ID
    after.coordinator.stop()


async def test_a_snapshot_and_what_came_after_it_are_the_whole_history(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", "ben")
    await desk.stable("carla", group="another")
    await desk.journal.durable(desk.journal.last_position)
    cut = desk.journal.last_position
    snapshots = desk.coordinator.take_snapshots()
    assert sorted(each.group or "" for each in snapshots) == ["another", "payments"]
    assert desk.coordinator.take_snapshots() == []
    await store.save_snapshots(cut, snapshots)
    everything = await full_fold(store)
    await store.trim(cut + 1)
    assert await load_groups(store) == everything
    desk.asks(desk.commit(5, group="payments", member_id="anna", generation_id=1))
    await turns()
    assert [each.group for each in desk.coordinator.take_snapshots()] == ["payments"]
    loaded = await load_groups(store)
    assert loaded["payments"] == desk.coordinator.group("payments")
    assert loaded["another"] == desk.coordinator.group("another")


# Kafka's own log


async def test_a_slow_log_lets_everybody_wait_and_then_answers_in_order() -> None:
    desk = Desk(MemoryStore(), kafka_log=SlowLog(latency_ms=700))
    await desk.coordinator.start()
    answered: list[str] = []
    desk.coordinator.submit(desk.commit(1), lambda message: answered.append("first"))
    desk.coordinator.submit(desk.commit(2), lambda message: answered.append("second"))
    await asyncio.sleep(0.69)
    assert answered == []
    await asyncio.sleep(0.02)
    assert answered == ["first", "second"]
    assert desk.coordinator.group("payments").offsets["foo"][0].offset == 2
    desk.coordinator.stop()


@behaviour("sync.append-failure", "join.new-group.create-append-failure")
async def test_a_faulty_log_loses_what_is_written() -> None:
    log = SlowLog(outcome=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    joining = desk.asks(desk.join("anna"))
    log.settle_all()
    await turns()
    assert joining.code is ErrorCode.NOT_COORDINATOR
    assert not desk.coordinator.group("payments").exists
    log.is_slow = False
    desk.asks(desk.join("ben"))
    await asyncio.sleep(4)
    log.is_slow = True
    sharing = desk.asks(desk.sync("ben"))
    log.settle_all()
    await turns()
    assert sharing.code is ErrorCode.NOT_COORDINATOR
    assert desk.coordinator.group("payments").state is State.PREPARING
    desk.coordinator.stop()


@behaviour("recovery.write-timeout")
async def test_a_log_that_never_answers_is_waited_for_so_long_and_no_longer() -> None:
    log = SlowLog()
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    commit = desk.asks(desk.commit(1))
    await asyncio.sleep(4.9)
    assert not commit.has_come
    await asyncio.sleep(0.2)
    [row] = commit.message.topics[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.settle_all()
    assert desk.coordinator.group("payments").offsets["foo"][0].offset == 1
    desk.coordinator.stop()


async def test_a_coordinator_that_stops_sends_those_away_who_wait_for_the_log() -> None:
    log = SlowLog()
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    commit = desk.asks(desk.commit(1))
    desk.coordinator.stop()
    [row] = commit.message.topics[0].partitions
    assert row.error_code == ErrorCode.NOT_COORDINATOR
    log.settle_all()
    await desk.coordinator.start()
    assert desk.coordinator.group("payments").offsets == {}
    desk.coordinator.stop()


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
