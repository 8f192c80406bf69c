"""The asyncio coordinator: responses wait for durable events, and deadlines pass by timers."""

import asyncio

import msgspec
from structlog.testing import capture_logs

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import GroupState
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import DelayedLog
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import NO_TOPICS
from regroup.protocol.errors import ErrorCode
from regroup.storage.memory import MemoryStore
from tests.coordinator.coordinator_harness import (
    SETTINGS,
    CoordinatorHarness,
    GatedStore,
    fold_history,
    read_records,
    run_ready,
)
from tests.coordinator.group_harness import behaviour

# Responses and durability


async def test_a_response_is_sent_only_when_its_events_are_durable(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    store.gate.clear()
    join = harness.submit(harness.join_group("anna", supports_member_id_required=True))
    await run_ready()
    assert not join.has_arrived
    assert harness.group.exists
    store.gate.set()
    await run_ready()
    assert join.code is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_response_without_events_waits_for_earlier_events_of_its_group(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    await harness.reach_stable("anna")
    store.gate.clear()
    commit = harness.submit(harness.offset_commit(member_id="anna", generation_id=1))
    heartbeat = harness.submit(harness.heartbeat("anna"))
    other_group = harness.submit(harness.heartbeat("anna", group="another"))
    await run_ready()
    assert (commit.has_arrived, heartbeat.has_arrived) == (False, False)
    assert other_group.code is ErrorCode.UNKNOWN_MEMBER_ID
    store.gate.set()
    await run_ready()
    assert (commit.has_arrived, heartbeat.code) == (True, ErrorCode.NONE)


async def test_a_response_is_sent_at_once_if_every_event_of_its_group_is_durable(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna")
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NONE


async def test_every_record_has_its_coordinator_epoch_and_its_cause(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    harness.coordinator.submit(harness.join_group("anna"), None, Cause(api="JoinGroup"))
    await asyncio.sleep(4)
    records = await read_records(store)
    assert {record.coordinator_epoch for record in records} == {1}
    assert [record.event_number for record in records] == list(range(1, len(records) + 1))
    causes = [msgspec.json.decode(record.cause or b"{}") for record in records]
    assert [cause.get("api") or cause.get("deadline") for cause in causes] == ["JoinGroup"] * 4 + ["join-phase"]


# Deadlines


async def test_the_initial_delay_ends_by_its_timer(harness: CoordinatorHarness) -> None:
    join = harness.submit(harness.join_group("anna"))
    await asyncio.sleep(2.99)
    assert not join.has_arrived
    await asyncio.sleep(0.02)
    assert (join.code, join.response.generation_id) == (ErrorCode.NONE, 1)


@behaviour("timeout.initial-delay.zero")
async def test_an_initial_delay_of_zero_ends_by_its_timer_too() -> None:
    harness = CoordinatorHarness(MemoryStore(), CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    await harness.coordinator.start()
    join = harness.submit(harness.join_group("anna"))
    await run_ready()
    assert not join.has_arrived
    await asyncio.sleep(0.002)
    assert join.response.generation_id == 1
    harness.coordinator.stop()


async def test_a_clock_that_jumps_ahead_does_not_delay_later_deadlines(harness: CoordinatorHarness) -> None:
    ahead_ms = 0
    now = harness.now
    harness.now = lambda: now() + ahead_ms
    harness.coordinator = GroupCoordinator(harness.journal, settings=SETTINGS, now=harness.now)
    await harness.coordinator.start()
    harness.submit(harness.join_group("ben", supports_member_id_required=True))
    await run_ready()
    ahead_ms = 9_000
    join = harness.submit(harness.join_group("anna"))
    await asyncio.sleep(3.1)
    assert harness.group.pending_join_members == {}
    await asyncio.sleep(3.1)
    assert join.response.generation_id == 1
    harness.coordinator.stop()


async def test_heartbeats_restart_the_session_timeout(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna")
    for _ in range(20):
        await asyncio.sleep(9)
        assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NONE
    await asyncio.sleep(9.9)
    assert harness.group.state is GroupState.STABLE
    await asyncio.sleep(0.2)
    assert harness.group.state is GroupState.EMPTY


async def test_a_member_that_leaves_does_not_change_the_session_timeouts_of_others(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna", "ben")
    await asyncio.sleep(5)
    harness.submit(harness.heartbeat("anna"))
    leave = harness.submit(harness.leave_group("ben"))
    await run_ready()
    assert leave.response.members[0].error_code == ErrorCode.NONE
    await asyncio.sleep(9.9)
    assert list(harness.group.members) == ["anna"]
    await asyncio.sleep(0.2)
    assert list(harness.group.members) == []


async def test_the_last_seen_time_of_a_removed_member_is_forgotten(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna", "ben")
    harness.submit(harness.leave_group("ben"))
    # Nothing else shows it: every former member would take memory.
    assert list(harness.coordinator._last_seen_ms["payments"]) == ["anna"]


async def test_the_leader_policy_decides_who_leads_and_the_history_folds_to_the_same_group(
    store: GatedStore,
) -> None:
    harness = CoordinatorHarness(store, choose_leader=lambda group_id, candidates: candidates[-1])
    await harness.coordinator.start()
    await harness.reach_stable("anna", "ben", "carla")
    harness.submit(harness.leave_group("anna"))
    await run_ready()
    assert harness.group.leader_id == "carla"
    assert (await fold_history(store))["payments"] == harness.group


async def test_the_removal_of_an_expired_member_is_recorded_with_its_deadline_and_last_seen_time(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    await harness.reach_stable("anna")
    last_seen_ms = harness.now()
    await asyncio.sleep(11)
    removed = next(record for record in await read_records(store) if record.type == "member-removed")
    assert msgspec.json.decode(removed.cause or b"") == {
        "deadline": "session",
        "member_id": "anna",
        "last_seen_ms": last_seen_ms,
    }


async def test_the_retention_of_offsets_is_checked_periodically() -> None:
    harness = CoordinatorHarness(
        MemoryStore(), CoordinatorSettings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=50_000)
    )
    await harness.coordinator.start()
    harness.submit(harness.offset_commit())
    await asyncio.sleep(99.99)
    assert harness.group.exists
    await asyncio.sleep(0.02)
    assert not harness.group.exists
    harness.coordinator.stop()


async def test_a_stopped_coordinator_has_no_timers(harness: CoordinatorHarness) -> None:
    reads = 0

    def now() -> int:
        nonlocal reads
        reads += 1
        return harness.now()

    coordinator = GroupCoordinator(harness.journal, settings=SETTINGS, now=now)
    await coordinator.start()
    coordinator.submit(harness.join_group("anna"))
    await run_ready()
    coordinator.stop()
    before = reads
    await asyncio.sleep(86_400)
    assert reads == before, "each timer reads the clock"


async def test_events_without_a_request_or_deadline_have_an_internal_cause() -> None:
    log = DelayedLog()
    store = MemoryStore()
    harness = CoordinatorHarness(store, CoordinatorSettings(offsets_retention_minutes=1), kafka_log=log)
    await harness.coordinator.start()
    harness.submit(harness.offset_commit())
    log.complete_all()
    await run_ready()
    harness.coordinator.stop()
    await harness.coordinator.start()
    await asyncio.sleep(601)
    causes = {record.type: msgspec.json.decode(record.cause or b"{}") for record in await read_records(store)}
    assert causes["append-committed"] == {"internal": "Kafka's log"}
    assert causes["coordinator-loaded"] == {"internal": "load of the group"}
    assert causes["offsets-deleted"] == {"deadline": "retention"}
    harness.coordinator.stop()


async def test_rebalances_and_removals_are_logged_with_their_reasons() -> None:
    with capture_logs() as logged:
        harness = CoordinatorHarness(MemoryStore())
        await harness.coordinator.start()
        await harness.reach_stable("anna")
        await asyncio.sleep(11)
        harness.coordinator.stop()
    assert [line["event"] for line in logged] == [
        "rebalance-started",
        "generation-started",
        "member-removed",
        "rebalance-started",
        "group-emptied",
    ]
    assert logged[2] == {
        "event": "member-removed",
        "group": "payments",
        "member_id": "anna",
        "reason": "session timeout of 10000 ms expired",
        "log_level": "info",
    }


async def test_targets_of_consumer_groups_are_logged() -> None:
    with capture_logs() as logged:
        harness = CoordinatorHarness(MemoryStore())
        await harness.coordinator.start()
        harness.submit(
            ConsumerGroupHeartbeat(
                group_id="payments", at_ms=1, member_id="anna", member_epoch=0, client_id="c",
                client_host="/h", rebalance_timeout_ms=60_000, owned={}, subscribed_topics=("orders",),
                topics=NO_TOPICS,
            )
        )  # fmt: skip
        harness.coordinator.stop()
    assert logged == [
        {
            "event": "target-assigned", "group": "payments", "assignment_epoch": 2, "assignor": "uniform",
            "reason": "group epoch 2", "log_level": "info",
        }
    ]  # fmt: skip


# Repeated heartbeats


async def test_an_accepted_heartbeat_is_accepted_again_and_restarts_the_session_timeout(
    harness: CoordinatorHarness,
) -> None:
    await harness.reach_stable("anna")
    accept_again = harness.coordinator.heartbeat_revalidator(harness.heartbeat("anna"))
    for _ in range(5):
        await asyncio.sleep(9)
        assert accept_again()
    assert harness.group.state is GroupState.STABLE


async def test_a_heartbeat_is_accepted_again_after_commits_of_offsets(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna")
    accept_again = harness.coordinator.heartbeat_revalidator(harness.heartbeat("anna"))
    for _ in range(2):
        harness.submit(harness.offset_commit(member_id="anna", generation_id=1))
        assert accept_again()


async def test_a_heartbeat_is_not_accepted_again_after_another_event_of_its_group(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna")
    accept_again = harness.coordinator.heartbeat_revalidator(harness.heartbeat("anna"))
    harness.submit(harness.offset_commit(member_id="anna", generation_id=1))
    harness.submit(harness.join_group("ben"))
    assert not accept_again()


async def test_a_heartbeat_is_not_accepted_again_by_a_stopped_coordinator(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna")
    accept_again = harness.coordinator.heartbeat_revalidator(harness.heartbeat("anna"))
    harness.coordinator.stop()
    assert not accept_again()


# Callers


async def test_a_caller_that_is_cancelled_stays_a_member(harness: CoordinatorHarness) -> None:
    cancelled = asyncio.create_task(harness.coordinator.join_group(harness.join_group("anna")))
    other = asyncio.create_task(harness.coordinator.join_group(harness.join_group("ben")))
    await asyncio.sleep(1)
    cancelled.cancel()
    await asyncio.sleep(6)
    assert (await other).generation_id == 1
    assert list(harness.group.members) == ["anna", "ben"]


async def test_a_repeated_join_group_replaces_the_held_one(harness: CoordinatorHarness) -> None:
    await harness.reach_stable("anna", "ben")
    first = harness.submit(
        harness.join_group("", member_id="ben", supported_protocols=(SupportedProtocol("range", b"new"),))
    )
    second = harness.submit(
        harness.join_group("", member_id="ben", supported_protocols=(SupportedProtocol("range", b"new"),))
    )
    harness.submit(harness.join_group("", member_id="anna"))
    await run_ready()
    assert not first.has_arrived
    assert second.response.generation_id == 2


async def test_transactional_offsets_can_be_committed_with_awaitable_requests(harness: CoordinatorHarness) -> None:
    offsets = (c.RequestedOffset("foo", 0, 5),)
    written = await harness.coordinator.txn_offset_commit(
        c.TxnOffsetCommit(group_id="payments", at_ms=harness.now(), producer_id=10, offsets=offsets)
    )
    assert written.topics[0].partitions[0].error_code == ErrorCode.NONE
    ended = await harness.coordinator.end_transaction(
        c.EndTransaction(group_id="payments", at_ms=harness.now(), producer_id=10, committed=True)
    )
    assert ended.error_code == ErrorCode.NONE
    fetched = await harness.coordinator.offset_fetch(
        c.OffsetFetch(group_id="payments", at_ms=harness.now(), partitions=None, require_stable=True)
    )
    assert fetched.topics[0].partitions[0].committed_offset == 5
