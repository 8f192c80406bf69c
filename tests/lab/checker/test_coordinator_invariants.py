"""Each invariant holds for a correct coordinator, and finds a planted bug with its own sentence."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import events as e
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import ConsumerGroup
from regroup.coordinator.evolve import EVOLVERS
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupState,
    LogRecordKind,
    Member,
    MemberProfile,
    PendingAppend,
)
from regroup.coordinator.invariants import a_commit_comes_from_a_member, invariant_sentence
from regroup.coordinator.responses import join_error, join_response
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker import coordinator_invariants as invariants
from regroup.lab.checker.acknowledgements import Acknowledgements
from regroup.lab.checker.store import store_invariants
from regroup.members.consumer.effects import JoinedGroup
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.lab.checker.checker_harness import GROUP, SUBSCRIPTION, CheckerHarness, assignment_of, run_ready
from tests.lab.checker.made_exchanges import checker_state, made_exchange

EVERY = (
    *invariants.RESPONSE_INVARIANTS,
    *invariants.RESPONSE_INVARIANTS_BY_COMMAND[c.JoinGroup],
    *invariants.RESPONSE_INVARIANTS_BY_COMMAND[c.SyncGroup],
    *invariants.RESPONSE_INVARIANTS_BY_COMMAND[c.OffsetCommit],
    *store_invariants.LOAD_INVARIANTS,
    invariants.a_request_has_at_most_one_response,
    invariants.only_dependent_responses_are_held,
    invariants.an_open_request_gets_its_response,
    store_invariants.the_shadow_group_equals_the_live_group,
)


def test_every_invariant_has_a_sentence() -> None:
    for invariant in EVERY:
        assert invariant_sentence(invariant).endswith(".")


# -- commits


async def test_a_zombie_that_commits_after_its_removal_is_refused_without_a_violation() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    await asyncio.sleep(11)
    assert harness.group.state is GroupState.EMPTY
    [response] = harness.commit_as("anna", 5, generation=1)

    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.violated_sentences() == set()
    assert harness.verdict.counts.removals == 1


async def test_a_commit_accepted_from_a_removed_member_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "regroup.coordinator.classic.offset_rules.ClassicOffsetRules.refuse_commit", lambda *arguments: None
    )
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    harness.leave("anna")
    await run_ready()
    harness.commit_as("anna", 5, generation=1)
    await run_ready()

    assert {
        invariant_sentence(invariants.a_removed_member_does_not_commit),
        invariant_sentence(a_commit_comes_from_a_member),
    } <= harness.violated_sentences()


async def test_a_static_member_that_was_not_fenced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.start()
    harness.join("anna", instance_id="anna-1")
    await asyncio.sleep(4)
    harness.sync("anna", anna=assignment_of(0))
    await run_ready()
    monkeypatch.setattr("regroup.coordinator.classic.offset_rules.refuse_generation", lambda *arguments: None)
    harness.join("anna-2", instance_id="anna-1")
    await run_ready()
    harness.commit(5, member_id="anna", group_instance_id="anna-1", generation_id=1)
    await run_ready()

    assert invariant_sentence(invariants.a_removed_member_does_not_commit) in harness.violated_sentences()


async def test_a_transactional_commit_without_a_member_is_no_violation() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    offsets = (c.RequestedOffset("orders", 0, 5),)
    fields: dict[str, Any] = {"group_id": "payments", "producer_id": 1}
    harness.submit(c.TxnOffsetCommit(**fields, at_ms=harness.now(), offsets=offsets))
    harness.end_transaction(producer_id=1)
    await run_ready()

    assert harness.group.committed_offsets["orders"][0].offset == 5
    assert harness.violated_sentences() == set()


async def test_offsets_of_a_transaction_survive_a_crash_like_any_others() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.commit_as("anna", 3)
    await run_ready()
    offsets = (c.RequestedOffset("orders", 0, 5),)
    fields: dict[str, Any] = {"group_id": "payments", "producer_id": 1}
    harness.submit(c.TxnOffsetCommit(**fields, at_ms=harness.now(), offsets=offsets))
    harness.end_transaction(producer_id=1)
    await run_ready()
    harness.coordinator.stop()
    await harness.start()

    assert harness.violated_sentences() == set()


async def test_offsets_that_were_deleted_need_not_survive() -> None:
    harness = CheckerHarness()
    await harness.start()
    harness.commit(3)
    await run_ready()
    harness.submit(c.OffsetDelete(group_id="payments", at_ms=harness.now(), partitions={"orders": (0,)}))
    await run_ready()
    harness.coordinator.stop()
    await harness.start()

    assert harness.group.committed_offsets == {}
    assert harness.violated_sentences() == set()


# -- owners and leaders


async def test_two_owners_of_one_partition_are_found_if_the_assignor_is_sound() -> None:
    harness = CheckerHarness()
    harness.checker.members.add_member("anna", "payments")
    await harness.complete_join_phase("anna", "ben")
    harness.sync("ben")
    harness.sync("anna", anna=assignment_of(0), ben=assignment_of(0, 1))
    await run_ready()

    assert harness.violated_sentences() == {invariant_sentence(invariants.a_partition_has_one_owner)}


async def test_owners_are_not_checked_if_the_leaders_assignor_is_unsound() -> None:
    harness = CheckerHarness()
    harness.checker.members.add_member("anna", "payments", has_sound_assignor=False)
    await harness.complete_join_phase("anna", "ben")
    harness.checker.members.on_change("anna", JoinedGroup(1, "anna", True, "range"), 0)
    harness.sync("ben")
    harness.sync("anna", anna=assignment_of(0), ben=assignment_of(0, 1))
    await run_ready()

    assert harness.violated_sentences() == set()


async def test_the_new_process_of_a_static_member_may_have_the_assignment_of_the_old_one() -> None:
    harness = CheckerHarness()
    await harness.start()
    harness.join("anna", instance_id="anna-1")
    await asyncio.sleep(4)
    harness.sync("anna", anna=assignment_of(0))
    await run_ready()
    harness.join("anna-2", instance_id="anna-1")
    await run_ready()
    harness.sync("anna-2")
    await run_ready()

    assert harness.group.members["anna-2"].assignment == assignment_of(0)
    assert harness.violated_sentences() == set()


async def test_a_replaced_process_is_answered_when_its_replacement_is_durable() -> None:
    harness = CheckerHarness()
    await harness.start()
    harness.store.gate.clear()
    former = harness.join("ben", instance_id="one")
    harness.join("carla", instance_id="one")
    await run_ready()
    harness.join("david", instance_id="two")
    harness.leave("david")
    harness.store.gate.set()
    await run_ready()

    assert [each.error_code for each in former] == [ErrorCode.FENCED_INSTANCE_ID]
    assert harness.violated_sentences() == set()


async def test_two_leaders_of_one_generation_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def every_member_leads(group: Group, member_id: str, **options: Any) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=member_id,
            member_id=member_id,
        )

    monkeypatch.setattr("regroup.coordinator.responses.join_response", every_member_leads)
    harness = CheckerHarness()
    await harness.complete_join_phase("anna", "ben")

    assert invariant_sentence(invariants.a_generation_has_one_leader) in harness.violated_sentences()


# -- responses


async def test_a_request_that_is_held_though_it_depends_on_no_other_member_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "regroup.coordinator.classic.join.reason_to_rebalance", lambda group, member, command: "no reason"
    )
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben", "carla")
    harness.join(member_id="ben")

    assert harness.violated_sentences() == {invariant_sentence(invariants.only_dependent_responses_are_held)}


async def test_a_held_request_that_is_refused_long_after_an_upgrade_was_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = CheckerHarness(group_consumer_max_size=2)
    await harness.stabilize("anna", "ben")
    again = harness.join(member_id="anna")
    harness.submit(
        ConsumerGroupHeartbeat(
            group_id=GROUP,
            at_ms=harness.now(),
            member_id="carla",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topics=("orders",),
            owned={},
            topics=NO_TOPICS,
        )
    )
    await run_ready()
    assert [each.error_code for each in again] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert harness.violated_sentences() == set()

    def anna_is_refused(group: Group, member_id: str, **options: Any) -> JoinGroupResponse:
        if member_id == "anna":
            return join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        return join_response(group, member_id, **options)

    monkeypatch.setattr("regroup.coordinator.responses.join_response", anna_is_refused)
    harness.join(member_id="anna")
    harness.join(member_id="ben")
    await run_ready()
    assert harness.violated_sentences() == {invariant_sentence(invariants.a_response_is_in_the_response_table)}


async def test_an_assignment_that_is_not_the_stored_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    monkeypatch.setattr(
        "regroup.coordinator.classic.sync.responses.sync_response",
        lambda group, member_id: SyncGroupResponse(protocol_type="consumer", assignment=assignment_of(9)),
    )
    harness.sync("ben")

    assert harness.violated_sentences() == {invariant_sentence(invariants.a_response_agrees_with_the_store)}


async def test_offsets_that_a_load_loses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.commit_as("anna", 3)
    await run_ready()
    harness.coordinator.stop()
    load = EVOLVERS[e.CoordinatorLoaded]
    monkeypatch.setitem(
        EVOLVERS, e.CoordinatorLoaded, lambda group, event: replace(load(group, event), committed_offsets={})
    )
    await harness.start()

    assert invariant_sentence(store_invariants.acknowledged_offsets_survive) in harness.violated_sentences()


async def test_an_offset_that_was_deleted_before_its_commit_was_answered_is_not_expected() -> None:
    harness = CheckerHarness()
    await harness.start()
    harness.store.gate.clear()
    answers = [harness.commit(3), harness.submit(c.DeleteGroup(group_id=GROUP, at_ms=harness.now()))]
    await run_ready()
    assert answers == [[], []]
    harness.store.gate.set()
    await run_ready()
    assert all(answers)
    harness.commit(5, partition=1)
    await run_ready()
    harness.coordinator.stop()
    await harness.start()

    assert harness.violated_sentences() == set()


async def test_an_acknowledged_generation_that_a_load_takes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.coordinator.stop()
    load = EVOLVERS[e.CoordinatorLoaded]
    monkeypatch.setitem(
        EVOLVERS, e.CoordinatorLoaded, lambda group, event: replace(load(group, event), generation_id=0)
    )
    await harness.start()

    assert invariant_sentence(store_invariants.acknowledged_assignments_survive) in harness.violated_sentences()


async def test_an_unavailable_coordinator_is_not_checked_against_the_table() -> None:
    harness = CheckerHarness()
    assert harness.heartbeat("anna", 1)[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.complete_join_phase("anna", "ben")
    held = harness.sync("ben")
    harness.coordinator.stop()

    assert held[0].error_code == ErrorCode.NOT_COORDINATOR
    assert harness.violated_sentences() == set()


async def test_revalidated_heartbeats_are_observed_too() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    heartbeat = c.Heartbeat(group_id="payments", at_ms=harness.now(), member_id="anna", generation_id=1)
    before = harness.verdict.counts.exchanges
    accept_again = harness.coordinator.heartbeat_revalidator(heartbeat)

    assert accept_again()
    assert harness.verdict.counts.exchanges == before + 1
    harness.join("ben", supported_protocols=(SupportedProtocol("range", SUBSCRIPTION),))
    assert not accept_again()
    assert harness.violated_sentences() == set()


def test_a_coordinator_that_loads_may_refuse_a_heartbeat_that_is_invalid_by_itself() -> None:
    heartbeat = ConsumerGroupHeartbeat(group_id="g", at_ms=0, member_id="anna", member_epoch=0, topics=NO_TOPICS)
    exchange = made_exchange(heartbeat, Group(group_id="g"))
    exchange.error_code = ErrorCode.INVALID_REQUEST
    exchange.coordinator.refusal = None
    assert not invariants.was_unavailable(exchange)
    exchange.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert invariants.was_unavailable(exchange)
    exchange.error_code = ErrorCode.FENCED_MEMBER_EPOCH
    assert not invariants.was_unavailable(exchange)


# -- what the store has to hold


def test_a_commit_that_was_deleted_with_its_group_is_not_missed_in_the_store() -> None:
    offsets = (c.RequestedOffset("orders", 0, 5),)
    row = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.NONE)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])
    for state, found in ((GroupState.EMPTY, "offset 5 of orders-0"), (GroupState.DEAD, None)):
        group = Group(group_id="payments", state=state, event_number=2)
        commit = c.OffsetCommit(group_id="payments", at_ms=0, offsets=offsets)
        assert invariants.missing_in_store(made_exchange(commit, group), answer, group) == found


JOIN = c.JoinGroup(
    group_id="payments",
    at_ms=0,
    new_member_id="anna",
    protocol_type="consumer",
    profile=MemberProfile(session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=()),
)


def test_a_join_that_makes_a_group_classic_is_answered_with_the_epoch_of_the_member() -> None:
    classic = Group(group_id="payments", state=GroupState.PREPARING_REBALANCE, generation_id=13, event_number=9)
    before = Group(group_id="payments", consumer=ConsumerGroup(), event_number=6)
    answer = JoinGroupResponse(generation_id=0, leader="", member_id="anna", members=[])
    assert invariants.missing_in_store(made_exchange(JOIN, before, classic), answer, classic) is None
    assert invariants.missing_in_store(made_exchange(JOIN, classic), answer, classic) == "anna in generation 0"


@pytest.mark.parametrize(("waits", "found"), [(True, None), (False, "anna in generation 1")])
def test_a_member_may_leave_while_the_log_delays_the_response_to_its_join(waits: bool, found: str | None) -> None:
    append = PendingAppend(kind=LogRecordKind.STATIC_MEMBER_REPLACEMENT, deadline_ms=5_000, member_id="anna")
    joined = Group(
        group_id="payments",
        generation_id=1,
        members={"anna": Member(member_id="anna", profile=JOIN.profile)},
        pending_appends={7: append} if waits else {},
        event_number=7,
    )
    left = Group(group_id="payments", state=GroupState.EMPTY, generation_id=2, event_number=9)
    exchange = made_exchange(JOIN, joined, joined)
    exchange.decided_group, exchange.after_log = left, (joined, 1) if waits else None
    answer = JoinGroupResponse(generation_id=1, leader="anna", member_id="anna", members=[])
    assert invariants.missing_in_store(exchange, answer, left) == found


def test_what_a_member_got_while_the_group_had_the_consumer_protocol_need_not_be_loaded() -> None:
    """A group that becomes classic is stored with the targets, which its members may not have got yet."""
    sync = c.SyncGroup(group_id="payments", at_ms=0, member_id="anna", generation_id=3)
    loaded = Group(group_id="payments", generation_id=3)
    for consumer, lost in ((None, ["the assignment of anna in generation 3"]), (ConsumerGroup(), [])):
        acknowledged = Acknowledgements()
        exchange = made_exchange(sync, Group(group_id="payments", consumer=consumer))
        acknowledged.on_sync_response(exchange, SyncGroupResponse(assignment=b"nothing"))
        assert list(acknowledged.lost_assignments(loaded)) == lost


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_held_sync_group_never_gets_unknown_member_id_also_while_the_log_is_slow(code: ErrorCode) -> None:
    append = PendingAppend(kind=LogRecordKind.ASSIGNMENT, deadline_ms=5_000)
    group = Group(group_id="payments", state=GroupState.COMPLETING_REBALANCE, pending_appends={7: append})
    sync = c.SyncGroup(group_id="payments", at_ms=1, member_id="anna", generation_id=1)
    exchange = made_exchange(sync, group, group, SyncGroupResponse(error_code=code))
    exchange.held_under = AwaitedResponse.SYNC, "anna"
    found = invariants.a_response_is_in_the_response_table(checker_state(), exchange)
    assert (found is not None) is (code == ErrorCode.UNKNOWN_MEMBER_ID)
    assert found is None or found.endswith(" was held, and then got UNKNOWN_MEMBER_ID.")
