"""Members of the classic protocol in a group of the consumer protocol, once they have joined."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import image, topic_id
from tests.coordinator.consumer.migration.migration_harness import (
    ALL,
    LOWER,
    UPPER,
    MigrationHarness,
    assigned_by,
    founded_by_consumer,
)
from tests.coordinator.group_driver import GROUP_ID
from tests.coordinator.group_harness import behaviour
from tests.coordinator.simulated_client import SimulatedClient

E = ErrorCode


# SyncGroup


@behaviour("cg.cm.sync-ok")
def test_a_sync_fetches_what_the_member_is_assigned() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    harness.rejoin(client)
    harness.advance(1_000)
    assert harness.remaining_ms(DeadlineKind.CLASSIC_SYNC, "c") == 59_000
    response = client.sync({"c": b"ignored"}).response
    assert (response.error_code, response.protocol_type, response.protocol_name) == (E.NONE, "consumer", "range")
    assert assigned_by(response) == LOWER
    assert harness.remaining_ms(DeadlineKind.CLASSIC_SYNC, "c") is None
    assert harness.session_ms("c") == 10_000
    assert client.sync().event_types == []


def test_a_sync_and_a_downgrade_have_topics_of_one_bucket_in_the_order_of_the_target() -> None:
    """`uniform` has given the member the larger topic first, and puts each new topic at the beginning of its bucket."""
    harness, client = founded_by_consumer()
    harness.topics = image(foo=6, a=3, b=2)
    client.member_id, client.topics = "c", ("a", "b")
    harness.rejoin(client)
    assert [*assigned_by(client.sync().response)] == ["b", "a"]
    harness.beat("m1", -1)
    assert harness.kind == "classic"
    assert [*assigned_by(harness.group.members["c"])] == ["b", "a"]


@behaviour("cg.cm.sync-when-behind")
def test_a_member_behind_the_target_is_told_to_join_again() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    harness.advance(1_000)
    assert client.sync().code is E.REBALANCE_IN_PROGRESS
    assert harness.remaining_ms(DeadlineKind.CLASSIC_JOIN, "c") == 60_000
    assert harness.session_ms("c") == 9_000, "a refused request does not prolong the session"


@behaviour("cg.cm.sync-while-unrevoked")
def test_a_member_that_has_to_give_up_partitions_gets_what_it_may_keep() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    assert harness.rejoin(client, ALL).response.generation_id == 1
    assert harness.member_state("c") is S.UNREVOKED_PARTITIONS
    assert assigned_by(client.sync().response) == LOWER
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS


@behaviour("cg.cm.sync-wrong-generation", "cg.cm.sync-wrong-protocol-name")
def test_the_checks_of_a_sync() -> None:
    harness = MigrationHarness()
    client = harness.settled_mixed()
    assert client.sync(generation_id=9).code is E.ILLEGAL_GENERATION
    assert client.sync(protocol_name="roundrobin").code is E.INCONSISTENT_GROUP_PROTOCOL
    assert client.sync(protocol_type="connect").code is E.INCONSISTENT_GROUP_PROTOCOL
    assert client.sync(group_instance_id="i9").code is E.UNKNOWN_MEMBER_ID
    assert client.sync(protocol_name=None, protocol_type=None).code is E.NONE


@behaviour("cg.cm.sync-timeout")
def test_a_member_that_does_not_sync_in_time_is_removed_although_it_heartbeats() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.rebalance_timeout_ms = "c", 12_000
    client.send_join()
    for _ in range(4):
        harness.advance(3_000)
        client.heartbeat()
    assert "c" not in harness.consumer.members
    assert harness.events[-2].reason == "did not send SyncGroup within the rebalance timeout"
    assert harness.epochs == (4, 3)


# Heartbeat


@behaviour("cg.cm.heartbeat-behind")
def test_a_heartbeat_behind_the_target_is_told_to_join_again() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    harness.advance(1_000)
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS
    assert harness.remaining_ms(DeadlineKind.CLASSIC_JOIN, "c") == 60_000
    assert harness.session_ms("c") == 10_000


@behaviour("cg.cm.heartbeat-wrong-generation")
def test_a_heartbeat_names_the_epoch_of_the_member() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    assert client.heartbeat(generation_id=8).code is E.ILLEGAL_GENERATION


def test_a_member_waits_in_peace_until_what_it_waits_for_is_free() -> None:
    harness, client = founded_by_consumer()
    client.member_id = "c"
    client.send_join()
    client.sync()
    assert harness.member_state("c") is S.UNRELEASED_PARTITIONS
    assert client.heartbeat().code is E.NONE
    harness.beat("m1", 2)
    assert client.heartbeat().code is E.NONE
    harness.beat("m1", 2, owned=harness.assigned("m1"))
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS
    assert harness.rejoin(client).response.generation_id == 3
    assert sum(map(len, assigned_by(client.sync().response).values())) == 3
    assert (client.heartbeat().code, harness.state_name) == (E.NONE, "Stable")


@behaviour("cg.cm.join-timeout")
def test_a_member_that_does_not_join_again_in_time_is_removed_although_it_heartbeats() -> None:
    harness = MigrationHarness()
    [client] = harness.classic(rebalance_timeout_ms=12_000)
    harness.mixed(client)
    for _ in range(4):
        assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS
        harness.advance(3_000)
    assert "c" not in harness.consumer.members
    assert harness.events[-2].reason == "did not send JoinGroup within the rebalance timeout"


@behaviour("cg.cm.session-timeout")
def test_a_silent_member_is_removed_by_its_own_session_timeout() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    harness.advance(10_000)
    assert list(harness.consumer.members) == ["n1"]
    assert harness.epochs == (3, 2)


def test_a_new_target_calls_for_the_next_join_and_the_offered_assignment_counts() -> None:
    harness = MigrationHarness()
    client = harness.settled_mixed()
    harness.topics = image(1, foo=8, bar=3)
    harness.beat("n1", 2)
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS
    harness.rejoin(client, LOWER)
    assert sum(map(len, assigned_by(client.sync().response).values())) == 4


# LeaveGroup, offsets, failover


@behaviour("cg.cm.leave-batch")
def test_a_batch_removes_members_of_both_protocols_and_bumps_once() -> None:
    harness = MigrationHarness()
    harness.classic("c1", "c2", shares=(LOWER, UPPER))
    harness.join("n1")
    harness.join("n2")
    before = harness.epochs[0]
    left = harness.remove_members(LeavingMember("c1"), LeavingMember("n1"), LeavingMember("zz"))
    assert [(each.member_id, each.error_code) for each in left.response.members] == [
        ("c1", E.NONE),
        ("n1", E.NONE),
        ("zz", E.UNKNOWN_MEMBER_ID),
    ]
    assert harness.epochs[0] == before + 1
    assert list(harness.consumer.members) == ["c2", "n2"]


def commit(harness: MigrationHarness, client: SimulatedClient, generation_id: int, index: int, **fields: Any) -> Any:
    offsets = (c.RequestedOffset("foo", index, 1, topic_id=topic_id("foo")),)
    return client.commit(generation_id=generation_id, offsets=offsets, **fields).codes[("foo", index)]


@behaviour("cg.cm.commit-greater-generation", "cg.cm.commit-lost-partition")
def test_classic_members_commit_with_the_errors_that_their_clients_know() -> None:
    harness = MigrationHarness()
    client = harness.settled_mixed()
    assert commit(harness, client, 3, 0) is E.ILLEGAL_GENERATION
    assert commit(harness, client, 2, 5) is E.NONE
    for supports in (True, False):
        assert commit(harness, client, 1, 5, supports_group_id_not_found=supports) is E.ILLEGAL_GENERATION
        assert commit(harness, client, 1, 0, supports_group_id_not_found=supports) is E.NONE
    transactional = harness.commit_in_transaction(
        9, ("foo", 5, 1), generation_id=3, member_id="c", supports_group_id_not_found=True
    )
    assert transactional.codes == {("foo", 5): E.ILLEGAL_GENERATION}


@behaviour("cg.cm.fetch-old-generation")
def test_a_fetch_with_another_generation_is_refused() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    fetch = c.OffsetFetch(group_id=GROUP_ID, at_ms=harness.now_ms, partitions=None, member_id="c", member_epoch=1)
    assert harness.handle(fetch).code is E.ILLEGAL_GENERATION
    assert harness.handle(replace(fetch, member_epoch=2)).code is E.NONE


def test_a_load_forgets_what_members_were_waited_for_and_counts_sessions_with_the_timeout_of_the_protocol() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    client.heartbeat()
    harness.rejoin(client, ALL)
    harness.fail_over()
    for kind in (DeadlineKind.CLASSIC_JOIN, DeadlineKind.CLASSIC_SYNC):
        assert harness.remaining_ms(kind, "c") is None
    assert harness.session_ms("c") == 45_000
    assert harness.revocation_ms("c") == 60_000, "Kafka gives it to classic members as well, after a load"
    harness.advance(1_000)
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS
    assert harness.session_ms("c") == 10_000
    harness.rejoin(client, LOWER)
    assert harness.revocation_ms("c") is None


def test_static_classic_members_replace_each_other_without_leaving() -> None:
    harness = MigrationHarness()
    [client] = harness.classic("s", static=True)
    harness.join("n1")
    former = client.restart()
    joined = harness.rejoin(client)
    assert (joined.code, joined.response.member_id) == (E.NONE, "s-2")
    assert former.heartbeat().code is E.FENCED_INSTANCE_ID
    assert (harness.epochs, harness.assigned("s-2")) == ((2, 2), LOWER)


def test_a_static_classic_member_that_restarts_has_given_up_what_it_had_to() -> None:
    harness = MigrationHarness()
    [client] = harness.classic("s", static=True)
    harness.join("n1")
    harness.rejoin(client, ALL)
    assert harness.pending("s") == UPPER
    client.restart()
    assert harness.rejoin(client, UPPER).response.generation_id == 0, "it says that it still has them"
    assert harness.pending("s-2") == UPPER
    client.restart()
    assert harness.rejoin(client).response.generation_id == 2
    assert harness.beat("n1", 2).assignment == UPPER


def test_a_member_that_gives_up_partitions_without_a_newer_target_is_told_to_join_again() -> None:
    harness = MigrationHarness(group_consumer_assignment_interval_ms=1_000)
    [client] = harness.classic()
    harness.mixed(client)
    harness.hand_over(client)
    client.topics = ("bar",)
    assert harness.rejoin(client, LOWER).response.generation_id == harness.epochs[1]
    assert harness.member_state("c") is S.UNREVOKED_PARTITIONS
    assert client.heartbeat().code is E.REBALANCE_IN_PROGRESS


def test_lists_and_descriptions_show_a_mixed_group_as_one_of_the_consumer_protocol() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    assert (harness.group.shown_protocol_type, harness.group.kind, harness.group.state_name) == (
        "consumer",
        "consumer",
        "Stable",
    )
    assert harness.describe_group().group_state == "Dead"
    assert {each.member_id: each.member_type for each in harness.describe().members} == {"c": 0, "n1": 1}


@pytest.mark.parametrize("command", [c.SyncGroup, c.Heartbeat])
def test_the_empty_group_id_is_no_groups(command: Any) -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    request = command(group_id="", at_ms=harness.now_ms, member_id="c", generation_id=2)
    assert harness.handle(request).code is E.INVALID_GROUP_ID
