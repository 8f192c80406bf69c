"""Describing and loading groups of the consumer protocol, and requests of the classic protocol to them."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, image
from tests.coordinator.group_driver import GROUP_ID
from tests.coordinator.group_harness import behaviour

E = ErrorCode


@behaviour("cg.desc.members", "cg.desc.regex-is-empty-text")
def test_a_group_is_described_with_its_members_and_targets() -> None:
    described = ConsumerHarness().static_pair().describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 3, 3)
    assert described.assignor_name == "uniform"
    member = next(each for each in described.members if each.member_id == "m2")
    assert (member.instance_id, member.rack_id, member.member_epoch) == ("i2", None, 3)
    assert (member.client_id, member.client_host, member.member_type) == ("c", "/h", 1)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["foo"], "")
    [assigned] = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("foo", [3, 4, 5])
    assert member.target_assignment.topic_partitions == [assigned]


@behaviour("cg.desc.assignment-with-pending")
def test_partitions_pending_revocation_are_described_as_assigned() -> None:
    member = ConsumerHarness().revoking().described_member("m1")
    assert [each.partitions for each in member.assignment.topic_partitions] == [[0, 1, 2, 3, 4, 5]]
    assert [each.partitions for each in member.target_assignment.topic_partitions] == [[0, 1, 2]]


@behaviour("cg.desc.missing")
def test_a_group_that_does_not_exist_is_an_error() -> None:
    described = ConsumerHarness().describe()
    assert (described.error_code, described.group_state, described.group_epoch) == (E.GROUP_ID_NOT_FOUND, "", 0)


@behaviour("cg.desc.classic-group")
def test_a_classic_group_is_an_error() -> None:
    harness = ConsumerHarness()
    harness.reach_stable("anna")
    assert harness.describe().error_code == E.GROUP_ID_NOT_FOUND


@behaviour("cg.desc.by-DescribeGroups-v5")
def test_describe_groups_shows_no_member() -> None:
    described = ConsumerHarness().one().describe_group()
    assert (described.error_code, described.group_state, described.members) == (E.NONE, "Dead", [])


# The classic protocol


@behaviour("cg.down.empty-consumer-group-becomes-classic")
def test_an_empty_group_becomes_classic_and_keeps_its_offsets() -> None:
    harness = ConsumerHarness()
    harness.commit(("foo", 0, 7))
    harness.one()
    harness.beat("m1", -1)
    anna = harness.client("anna")
    anna.join()
    harness.advance(3_000)
    assert (harness.group.kind, harness.generation_id) == ("classic", 1)
    assert harness.fetch_all().offsets == {("foo", 0): 7}


@behaviour("cg.cm.join-policy-disabled")
def test_a_group_with_members_is_not_open_to_the_classic_protocol_if_migration_is_disabled() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy=MigrationPolicy.DISABLED).one()
    anna = harness.client("anna")
    request = anna.send_join()
    assert request.code is E.INCONSISTENT_GROUP_PROTOCOL
    assert list(harness.consumer.members) == ["m1"]


@behaviour(
    "cg.cm.empty-group-requests",
    "cg.cm.heartbeat-of-consumer-member",
    "cg.cm.heartbeat-unknown",
    "cg.cm.sync-by-consumer-member",
)
def test_requests_of_classic_members_are_refused() -> None:
    harness = ConsumerHarness().one()
    for member_id in ("m1", "zz"):
        fields = {"group_id": GROUP_ID, "at_ms": harness.now_ms, "member_id": member_id, "generation_id": 2}
        assert harness.handle(c.Heartbeat(**fields)).code is E.UNKNOWN_MEMBER_ID
        assert harness.handle(c.SyncGroup(**fields)).code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.cm.leave-v2", "cg.cm.leave-nobody")
def test_leave_group_removes_members_and_bumps_once() -> None:
    harness = ConsumerHarness().settled()
    nobody = harness.leave_group("zz")
    assert ([each.error_code for each in nobody.response.members], nobody.events) == ([E.UNKNOWN_MEMBER_ID], ())
    left = harness.leave_group("m1", "zz", "m2", "m1")
    assert [each.error_code for each in left.response.members] == [E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE, E.NONE]
    assert (harness.epochs, harness.state_name) == ((4, 4), "Empty")


@behaviour("cg.cm.leave-by-instance")
def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    harness = ConsumerHarness().static_pair()
    left = harness.remove_members(c.LeavingMember("", "i2"), c.LeavingMember("", "i7"))
    results = [(each.member_id, each.group_instance_id, each.error_code) for each in left.response.members]
    assert results == [("", "i2", E.NONE), ("", "i7", E.UNKNOWN_MEMBER_ID)]
    assert list(harness.consumer.members) == ["m1"]


# Failover


@behaviour(
    "cg.fail.everything-but-timers", "cg.fail.session-timers-start-again", "cg.fail.rebalance-timer-starts-again"
)
def test_a_failover_loses_only_when_timeouts_began() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m2", 3)
    harness.advance(20_000)
    before = harness.consumer
    assert (harness.session_ms("m1"), harness.revocation_ms("m1")) == (25_000, 40_000)
    harness.fail_over(group_consumer_assignment_interval_ms=0, group_consumer_session_timeout_ms=50_000)
    assert (harness.session_ms("m1"), harness.revocation_ms("m1")) == (50_000, 60_000)
    assert (harness.consumer.targets, harness.consumer.holders) == (before.targets, before.holders)
    assert (harness.member_state("m1"), harness.member_state("m2")) == (S.UNREVOKED_PARTITIONS, S.UNRELEASED_PARTITIONS)
    assert harness.beat("m1", 2, owned={"foo": [0, 1, 2]}).epoch == 3
    assert harness.beat("m2", 3).assignment == {"foo": [3, 4, 5]}


@behaviour("cg.fail.empty-consumer-group")
def test_an_empty_group_is_loaded_with_its_epoch() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    harness.fail_over()
    assert (harness.state_name, harness.epochs) == ("Empty", (3, 3))


@behaviour("cg.topic.first-heartbeat-after-a-load")
def test_topics_that_changed_while_no_coordinator_ran_are_found_by_the_first_heartbeat() -> None:
    harness = ConsumerHarness().one()
    harness.topics = type(harness.topics)(each._replace(partitions=7) for each in harness.topics.by_id.values())
    harness.fail_over()
    assert harness.beat("m1", 2).epoch == 3


def test_a_test_may_end_the_session_of_a_member() -> None:
    harness = ConsumerHarness().settled()
    harness.handle(c.EndSession(group_id=GROUP_ID, at_ms=harness.now_ms, member_id="m2"))
    assert (list(harness.consumer.members), harness.epochs) == (["m1"], (4, 3))


def test_changes_of_a_classic_group_that_a_test_forces_do_nothing_here() -> None:
    harness = ConsumerHarness().settled()
    before = harness.group
    for command in (c.StartRebalance, c.CompleteJoinPhase, c.RaiseGeneration):
        harness.handle(command(group_id=GROUP_ID, at_ms=harness.now_ms))
    assert harness.group == before


@pytest.mark.parametrize("way", ["LeaveGroup", "session timeout"])
def test_a_removal_takes_topics_into_account_that_have_changed(way: str) -> None:
    """The next heartbeat finds nothing new in them, and does not bump the group epoch once more."""
    harness = ConsumerHarness().settled()
    harness.advance(10_000)
    harness.beat("m1", 3)
    harness.topics = image(1, foo=8, bar=3)
    if way == "LeaveGroup":
        harness.leave_group("m2")
    else:
        harness.advance(35_000)
    assert harness.epochs == (4, 3)
    harness.beat("m1", 3)
    assert harness.epochs == (4, 4)
