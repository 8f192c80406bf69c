"""A member of the consumer protocol joins a classic group with members: the group becomes one of its protocol."""

import pytest
from msgspec.structs import replace

from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.migration.migration_harness import (
    ALL,
    LOWER,
    UPPER,
    MigrationHarness,
    assignment,
    subscription,
)
from tests.coordinator.group_harness import behaviour

E = ErrorCode


@behaviour("cg.up.online", "cg.up.default-policy")
def test_the_members_of_the_group_go_on_with_the_classic_protocol() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    answer = harness.join("n1")
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 2, {})
    assert (harness.kind, harness.state_name, harness.epochs) == ("consumer", "Reconciling", (2, 2))
    described = harness.described_member("c")
    assert (described.member_type, described.member_epoch) == (0, 1)
    assert harness.assigned("c") == ALL
    assert harness.described_member("n1").member_type == 1
    assert (harness.target("c"), harness.target("n1")) == (LOWER, UPPER)
    assert answer.event_types == [
        "GroupUpgraded",
        "MemberSubscribed",
        "GroupEpochBumped",
        "TargetAssigned",
        "MemberReconciled",
    ]
    assert c.heartbeat().code is E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        pytest.param(MigrationPolicy.UPGRADE, E.NONE, marks=behaviour("cg.up.policy-upgrade")),
        pytest.param(MigrationPolicy.DOWNGRADE, E.GROUP_ID_NOT_FOUND, marks=behaviour("cg.up.policy-downgrade")),
        pytest.param(MigrationPolicy.DISABLED, E.GROUP_ID_NOT_FOUND, marks=behaviour("cg.up.policy-disabled")),
    ],
)
def test_the_policy_decides_whether_a_group_with_members_is_upgraded(policy: MigrationPolicy, code: ErrorCode) -> None:
    harness = MigrationHarness(group_consumer_migration_policy=policy)
    harness.classic()
    before = harness.group
    answer = harness.join("n1")
    assert answer.code is code
    if code is not E.NONE:
        assert harness.group == before
        text = "Cannot upgrade classic group payments to consumer group because online upgrade is disabled."
        assert answer.response.error_message == text


def test_a_group_of_another_protocol_type_is_refused() -> None:
    harness = MigrationHarness()
    connect = harness.client("worker", protocol_type="connect")
    connect.join()
    harness.advance(0)
    connect.sync()
    answer = harness.join("n1")
    assert (answer.code, harness.group.kind) == (E.GROUP_ID_NOT_FOUND, "classic")
    assert answer.response.error_message.endswith("the group does not use the consumer embedded protocol.")


@behaviour("cg.up.offsets-stay")
def test_an_upgrade_and_a_downgrade_keep_every_offset() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    c.commit(("foo", 0, 7), ("bar", 1, 8))
    harness.commit_in_transaction(9, ("foo", 1, 5), generation_id=1, member_id="c")
    harness.mixed(c)
    assert harness.fetch_all().offsets == {("foo", 0): 7, ("bar", 1): 8}
    harness.beat("n1", -1)
    assert harness.kind == "classic"
    harness.end_transaction(9, committed=True)
    assert harness.fetch_all().offsets == {("foo", 0): 7, ("bar", 1): 8, ("foo", 1): 5}


@behaviour("cg.up.session-timers")
def test_the_session_of_each_classic_member_begins_anew_with_its_own_timeout() -> None:
    harness = MigrationHarness()
    harness.classic(session_timeout_ms=10_000)
    harness.advance(9_000)
    harness.join("n1")
    assert harness.session_ms("c") == 10_000
    harness.advance(10_000)
    assert list(harness.consumer.members) == ["n1"]


@behaviour("cg.up.completing")
def test_held_sync_groups_are_refused_and_members_come_over_with_their_former_assignment() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    d = harness.client("d", protocol_names=("range",))
    d.join()
    harness.rejoin(c)
    follower = d if c.is_leader else c
    held = follower.sync({})
    assert held.is_pending
    harness.join("n1")
    assert held.code is E.REBALANCE_IN_PROGRESS
    assert (harness.kind, harness.epochs) == ("consumer", (3, 3))
    assert {member_id: member.epoch for member_id, member in harness.consumer.members.items()} == {
        "c": 2,
        "d": 2,
        "n1": 3,
    }
    assert harness.assigned("c") == ALL
    assert harness.assigned("d") == {}


def test_held_join_groups_are_refused() -> None:
    harness = MigrationHarness()
    harness.classic()
    d = harness.client("d", protocol_names=("range",))
    held = d.join()
    assert held.is_pending
    harness.join("n1")
    assert (held.code, held.response.member_id) == (E.REBALANCE_IN_PROGRESS, "d")
    assert "d" in harness.consumer.members


@behaviour("cg.up.custom-assignor")
def test_an_assignment_with_user_data_of_a_custom_assignor_is_refused() -> None:
    harness = MigrationHarness()
    harness.classic(user_data=b"mine")
    before = harness.group
    answer = harness.join("n1")
    assert answer.code is E.GROUP_ID_NOT_FOUND
    assert "an unsupported custom assignor is in use" in answer.response.error_message
    assert harness.group == before


def test_user_data_of_a_subscription_is_no_obstacle() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    c.metadata = subscription(user_data=b"sticky's own")
    c.send_join()
    harness.complete_generation([c], (ALL,))
    assert harness.join("n1").code is E.NONE


@behaviour("cg.up.too-big")
@pytest.mark.parametrize(("max_size", "code"), [(1, E.GROUP_ID_NOT_FOUND), (2, E.GROUP_MAX_SIZE_REACHED), (3, E.NONE)])
def test_a_group_that_is_too_large_stays_classic(max_size: int, code: ErrorCode) -> None:
    harness = MigrationHarness(group_consumer_max_size=max_size)
    harness.classic("c", "d", shares=(LOWER, UPPER))
    before = harness.group
    assert harness.join("n1").code is code
    assert (harness.group == before) is (code is not E.NONE)


@behaviour("cg.up.refused-after-all-answers-the-parked")
@pytest.mark.parametrize("why", ["malformed", "full", "twice", "instance"])
def test_a_refused_upgrade_answers_held_requests_all_the_same(why: str) -> None:
    """The members simply come again, and the group goes on as a classic one."""
    harness = MigrationHarness(group_consumer_max_size=2 if why == "full" else 10)
    shares = {"twice": (LOWER, LOWER)}.get(why, (LOWER, UPPER))
    c, d = harness.classic("c", "d", shares=shares)
    if why == "malformed":
        broken = {each: replace(member, assignment=b"x") for each, member in harness.group.members.items()}
        harness.group = replace(harness.group, members=broken)
    held = harness.rejoin(c, LOWER)
    assert held.is_pending
    fields = {"subscribed_topics": None, "subscribed_regex": "(", "regex_error": "no"} if why == "instance" else {}
    answer = harness.join("n1", **fields)
    expected = {
        "malformed": E.GROUP_ID_NOT_FOUND,
        "full": E.GROUP_MAX_SIZE_REACHED,
        "twice": E.UNKNOWN_SERVER_ERROR,
        "instance": E.INVALID_REGULAR_EXPRESSION,
    }
    assert answer.code is expected[why]
    assert held.code is E.REBALANCE_IN_PROGRESS
    assert answer.event_types == ["UpgradeRefused"]
    assert (harness.kind, harness.state) == ("classic", GroupState.PREPARING_REBALANCE)
    harness.rejoin(c)
    harness.rejoin(d)
    assert harness.state is GroupState.COMPLETING_REBALANCE


def test_after_a_refused_upgrade_a_new_member_has_the_rest_of_its_five_minutes() -> None:
    harness = MigrationHarness(group_consumer_max_size=3)
    c, d = harness.classic("c", "d", shares=(LOWER, UPPER), session_timeout_ms=10_000, rebalance_timeout_ms=600_000)
    harness.rejoin(c, LOWER)
    new = harness.client("new", protocol_names=("range",), session_timeout_ms=10_000)
    new.metadata = subscription()
    new.join()
    harness.advance(5_000, heartbeating=[d])
    assert harness.join("n1").code is E.GROUP_MAX_SIZE_REACHED
    harness.advance(9_000, heartbeating=[d])
    assert c.member_id in harness.group.members
    harness.advance(2_000, heartbeating=[d])
    assert c.member_id not in harness.group.members, "its session began when its JoinGroup was refused"
    harness.advance(280_000, heartbeating=[d])
    assert new.member_id in harness.group.members
    harness.advance(10_000, heartbeating=[d])
    assert new.member_id not in harness.group.members


def test_an_invalid_heartbeat_answers_no_held_request() -> None:
    harness = MigrationHarness()
    c, _ = harness.classic("c", "d", shares=(LOWER, UPPER))
    held = harness.rejoin(c, LOWER)
    answer = harness.join("n1", subscribed_topics=None)
    assert (answer.code, answer.event_types) == (E.INVALID_REQUEST, [])
    assert held.is_pending


def test_a_group_before_its_first_generation_cannot_be_upgraded() -> None:
    """Kafka fails here, since it has selected no assignor yet; the joining members are asked to join again."""
    harness = MigrationHarness(group_initial_rebalance_delay_ms=3_000)
    c = harness.client("c")
    held = c.join()
    answer = harness.join("n1")
    assert (answer.code, held.code) == (E.UNKNOWN_SERVER_ERROR, E.REBALANCE_IN_PROGRESS)
    assert harness.kind == "classic"


@behaviour("cg.up.static-member-takes-its-place", "cg.up.old-static-id-is-fenced")
def test_a_static_member_that_restarts_with_the_consumer_protocol_takes_its_place_without_a_rebalance() -> None:
    harness = MigrationHarness()
    [c] = harness.classic("i1", static=True)
    answer = harness.join("n1", instance_id="instance-i1")
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 1, ALL)
    assert (harness.state_name, harness.epochs) == ("Stable", (1, 1))
    assert c.heartbeat().code is E.FENCED_INSTANCE_ID
    assert c.sync().code is E.FENCED_INSTANCE_ID


def test_a_classic_member_that_sends_a_heartbeat_of_the_consumer_protocol_speaks_it_from_then_on() -> None:
    harness = MigrationHarness()
    c = harness.settled_mixed()
    answer = harness.beat("c", 2, subscribed_topics=("foo",))
    assert (answer.code, answer.epoch) == (E.NONE, 2)
    assert harness.described_member("c").member_type == 1
    assert c.heartbeat().code is E.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_has_to_revoke_has_a_deadline_once_it_speaks_the_consumer_protocol() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    harness.mixed(c)
    harness.rejoin(c, ALL)
    assert harness.revocation_ms("c") is None
    harness.beat("c", 1)
    assert harness.revocation_ms("c") == 60_000


@behaviour("cg.up.sync-timeout-after-crossing")
def test_a_member_that_changes_its_protocol_before_it_syncs_is_removed_all_the_same() -> None:
    harness = MigrationHarness()
    [c] = harness.classic(rebalance_timeout_ms=12_000)
    harness.mixed(c)
    harness.rejoin(c)
    answer = harness.beat("c", 0, rebalance_timeout_ms=60_000, subscribed_topics=("foo",), owned={})
    assert answer.code is E.NONE
    harness.advance(11_000)
    assert {*harness.consumer.members} == {"c", "n1"}
    harness.advance(1_000)
    assert {*harness.consumer.members} == {"n1"}
    assert harness.events[-2].reason == "did not send SyncGroup within the rebalance timeout"


@behaviour("cg.up.join-timeout-after-crossing")
def test_a_member_that_changes_its_protocol_before_it_joins_is_removed_all_the_same() -> None:
    harness = MigrationHarness()
    [c] = harness.classic(rebalance_timeout_ms=12_000)
    harness.mixed(c)
    assert c.heartbeat().code is E.REBALANCE_IN_PROGRESS
    answer = harness.beat("c", 0, rebalance_timeout_ms=60_000, subscribed_topics=("foo",), owned={})
    assert answer.code is E.NONE
    harness.advance(12_000)
    assert {*harness.consumer.members} == {"n1"}
    assert harness.events[-2].reason == "did not send JoinGroup within the rebalance timeout"


@behaviour("cg.up.sync-timeout-after-downgrade")
def test_a_sync_that_was_due_before_a_downgrade_is_due_after_the_next_upgrade() -> None:
    harness = MigrationHarness()
    [c] = harness.classic(rebalance_timeout_ms=12_000)
    harness.mixed(c)
    harness.rejoin(c)
    harness.beat("n1", -1)
    assert harness.kind == "classic"
    c.send_join()
    harness.advance(0)
    harness.complete_generation([c], (ALL,), None)
    harness.advance(5_000)
    harness.join("n2")
    assert {*harness.consumer.members} == {"c", "n2"}
    harness.advance(7_000)
    assert {*harness.consumer.members} == {"n2"}
    assert harness.events[-2].reason == "did not send SyncGroup within the rebalance timeout"


def test_partitions_of_topics_that_exist_no_more_are_not_taken_over() -> None:
    harness = MigrationHarness()
    harness.classic(shares=({"foo": [0], "gone": [1]},))
    harness.join("n1")
    assert harness.assigned("c") == {"foo": [0]}


def test_records_that_the_log_has_not_committed_are_committed_before_an_upgrade() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    harness.log_delays_appends = True
    committed = c.commit(("foo", 0, 7))
    d = harness.client("d", protocol_names=("range",))
    d.join()
    harness.rejoin(c)
    leader = c if c.is_leader else d
    leader.sync({"c": assignment(LOWER), "d": assignment(UPPER)})
    heartbeat = leader.heartbeat()
    assert heartbeat.is_pending
    harness.log_delays_appends = False
    assert len(harness.group.pending_appends) == 2
    request = harness.send_beat("n1", 0, rebalance_timeout_ms=60_000, owned={}, subscribed_topics=("foo",))
    assert request.is_pending
    assert heartbeat.code is E.NONE
    assert [append.kind for append in harness.group.pending_appends.values()] == ["offsets"]
    harness.complete_append()
    assert request.code is E.NONE
    assert committed.codes == {("foo", 0): E.NONE}


def test_the_members_of_a_group_that_kafka_could_not_write_stay_classic() -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    c.metadata = subscription(user_data=b"x" * 1_100_000)
    c.send_join()
    answer = harness.join("n1")
    assert (answer.code, harness.kind) == (E.UNKNOWN_SERVER_ERROR, "classic")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_assignment_is_read_in_every_version(version: int) -> None:
    harness = MigrationHarness()
    harness.classic()
    member = replace(harness.group.members["c"], assignment=assignment(ALL, version=version))
    harness.group = replace(harness.group, members={"c": member})
    harness.join("n1")
    assert harness.assigned("c") == ALL


def test_a_group_outlives_the_lost_creation_of_the_classic_group_whose_place_it_took() -> None:
    harness = MigrationHarness()
    harness.log_delays_appends = True
    created = harness.client("c").send_join(supports_member_id_required=True)
    assert created.code is E.MEMBER_ID_REQUIRED
    assert [each.kind for each in harness.group.pending_appends.values()] == ["group-creation"]
    harness.log_delays_appends = False
    harness.join("n1")
    assert not harness.group.pending_appends, "the log commits its records in order"
    assert harness.assigned("n1")
