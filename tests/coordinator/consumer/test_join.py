"""Joining with epoch 0, the epochs of later requests, and what bumps the group epoch."""

import pytest

from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, image, topic_id
from tests.coordinator.group_harness import behaviour

E = ErrorCode
ALL = {"foo": [0, 1, 2, 3, 4, 5]}


@behaviour("cg.join.first-member", "cg.log.first-join", "cg.int.first-target-at-once")
@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_the_first_member_gets_everything_at_epoch_2(interval_ms: int) -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=interval_ms)
    answer = harness.join("m1")
    assert (answer.response.member_id, answer.epoch, answer.response.heartbeat_interval_ms) == ("m1", 2, 5_000)
    assert answer.assignment == ALL
    assert (harness.state_name, harness.epochs) == ("Stable", (2, 2))
    assert answer.event_types == [
        "ConsumerGroupCreated",
        "MemberSubscribed",
        "GroupEpochBumped",
        "TargetAssigned",
        "MemberReconciled",
    ]


def test_a_first_member_without_topics_begins_no_assignment_interval() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1_000)
    assert harness.join("m1", subscribed_topics=()).epoch == 1
    answer = harness.join("m2")
    assert (answer.epoch, answer.assignment) == (2, ALL)


@behaviour("cg.join.unknown-member-positive-epoch")
def test_a_stranger_with_an_epoch_is_refused() -> None:
    assert ConsumerHarness().one().beat("mx", 1).code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.join.again-with-epoch-0-stable", "cg.resp.assignment-at-join")
def test_a_member_that_joins_again_keeps_its_epoch_and_gets_its_assignment() -> None:
    answer = ConsumerHarness().one().join("m1")
    assert (answer.epoch, answer.assignment, answer.event_types) == (2, ALL, [])


@behaviour("cg.join.again-with-epoch-0-unrevoked")
def test_a_member_that_joins_again_has_given_up_everything() -> None:
    harness = ConsumerHarness().revoking()
    answer = harness.join("m1")
    assert (answer.epoch, answer.assignment) == (3, {"foo": [0, 1, 2]})
    assert harness.member_state("m1") is S.STABLE
    assert harness.beat("m2", 3).assignment == {"foo": [3, 4, 5]}


@behaviour("cg.join.again-after-leaving", "cg.int.empty-group-resets-it", "cg.leave.last-member", "cg.log.last-leave")
def test_an_empty_group_keeps_its_epoch_and_serves_its_next_member_at_once() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1_000).one()
    left = harness.beat("m1", -1)
    assert (harness.state_name, harness.epochs) == ("Empty", (3, 3))
    assert left.event_types == ["MemberLeft", "GroupEpochBumped", "TargetAssigned"]
    answer = harness.join("m9")
    assert (answer.epoch, answer.assignment) == (4, ALL)


@behaviour("cg.join.after-group-was-deleted", "cg.del.twice")
def test_a_group_that_was_deleted_begins_at_epoch_1_again() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    assert harness.delete_group().code is E.NONE
    assert harness.delete_group().code is E.GROUP_ID_NOT_FOUND
    assert harness.join("m1").epoch == 2


@behaviour("cg.join.unknown-topic")
def test_a_topic_that_does_not_exist_is_subscribed_without_partitions() -> None:
    harness = ConsumerHarness()
    answer = harness.join("m", "nix")
    assert (answer.epoch, answer.assignment, harness.state_name) == (2, {}, "Stable")


@behaviour("cg.join.empty-classic-group", "cg.of.group-converted")
def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol_and_keeps_its_offsets() -> None:
    harness = ConsumerHarness()
    harness.commit(("foo", 0, 7))
    assert harness.join("n1").epoch == 2
    assert harness.fetch(foo=(0,)).offsets == {("foo", 0): 7}


@behaviour("cg.join.dynamic-member-does-not-become-static")
def test_a_heartbeat_with_an_unknown_instance_id_is_refused() -> None:
    assert ConsumerHarness().one().beat("m1", 2, instance_id="i1").code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.join.dynamic-member-becomes-static-by-joining")
def test_a_member_that_joins_again_with_an_instance_id_becomes_static() -> None:
    harness = ConsumerHarness().one()
    answer = harness.join("m1", instance_id="i1")
    assert (answer.code, harness.epochs, harness.consumer.static_members) == (E.NONE, (2, 2), {"i1": "m1"})
    assert harness.join("m1", instance_id="i2").code is E.NONE
    assert harness.consumer.static_members == {"i2": "m1"}


@behaviour("cg.up.policy-disabled", "cg.up.positive-epoch")
def test_a_non_empty_classic_group_is_not_open_to_the_consumer_protocol_if_migration_is_disabled() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    harness.reach_stable("anna")
    before = harness.group
    for epoch in (1, -1):
        assert harness.beat("n1", epoch).code is E.GROUP_ID_NOT_FOUND
    assert harness.join("n1").code is E.GROUP_ID_NOT_FOUND
    assert harness.group == before


@behaviour("cg.up.offline-needs-no-policy", "cg.up.reserved-ids-do-not-count")
def test_a_classic_group_that_its_members_have_left_becomes_one_of_the_consumer_protocol() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    harness.reach_empty()
    harness.client("ben").send_join()
    assert harness.group.pending_join_members
    assert (harness.join("n1").epoch, harness.group.kind) == (2, "consumer")


# Epochs


@behaviour("cg.epoch.smaller")
def test_an_epoch_before_the_previous_one_is_fenced() -> None:
    assert ConsumerHarness().settled().beat("m1", 1).code is E.FENCED_MEMBER_EPOCH


@behaviour("cg.epoch.previous-with-subset")
def test_the_previous_epoch_is_accepted_with_a_part_of_what_is_assigned() -> None:
    answer = ConsumerHarness().settled().beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 3, None)


@behaviour("cg.epoch.previous-with-null-owned")
def test_the_previous_epoch_is_fenced_without_owned_partitions() -> None:
    assert ConsumerHarness().settled().beat("m1", 2).code is E.FENCED_MEMBER_EPOCH


@behaviour("cg.epoch.previous-with-more")
def test_the_previous_epoch_is_fenced_with_more_than_is_assigned() -> None:
    assert ConsumerHarness().settled().beat("m1", 2, owned=ALL).code is E.FENCED_MEMBER_EPOCH


@behaviour("cg.epoch.previous-is-lost-by-a-second-step")
def test_a_second_step_makes_the_present_epoch_the_previous_one() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", 2, subscribed_topics=("foo", "bar"))
    harness.join("m2", "foo", "bar")
    assert harness.beat("m1", 3).epoch == 3
    assert (harness.member_state("m1"), harness.member("m1").previous_epoch) == (S.UNREVOKED_PARTITIONS, 3)
    assert harness.beat("m1", 2, owned={"foo": [0]}).code is E.FENCED_MEMBER_EPOCH


@behaviour("cg.epoch.current-epoch-needs-no-owned-list", "cg.resp.interval", "cg.sess.starts-and-restarts")
def test_a_plain_heartbeat_changes_nothing_but_the_session() -> None:
    harness = ConsumerHarness().one()
    assert harness.session_ms("m1") == 45_000
    harness.advance(10_000)
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment, answer.event_types) == (2, None, [])
    assert answer.response.heartbeat_interval_ms == 5_000
    assert harness.session_ms("m1") == 45_000


@behaviour("cg.epoch.owned-is-not-checked-at-current-epoch", "cg.resp.owned-less-than-assigned")
@pytest.mark.parametrize("owned", [{"bar": [0], **ALL}, {"nope": [7]}, {"foo": [0]}])
def test_what_a_member_reports_at_its_epoch_is_not_corrected(owned: dict[str, list[int]]) -> None:
    answer = ConsumerHarness().one().beat("m1", 2, owned=owned)
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 2, None)


@behaviour("cg.epoch.bump-by-subscription")
def test_another_subscription_bumps_the_group_epoch() -> None:
    answer = ConsumerHarness().one().beat("m1", 2, subscribed_topics=("foo", "bar"))
    assert (answer.epoch, answer.assignment) == (3, {**ALL, "bar": [0, 1, 2]})


@behaviour("cg.epoch.no-bump-by-order-of-names")
def test_the_order_of_names_does_not_bump() -> None:
    harness = ConsumerHarness()
    harness.join("m1", "foo", "bar")
    answer = harness.beat("m1", 2, subscribed_topics=("bar", "foo"))
    assert (answer.epoch, answer.assignment, answer.event_types) == (2, None, [])


@behaviour("cg.epoch.no-bump-by-rebalance-timeout", "cg.epoch.no-bump-by-rack")
@pytest.mark.parametrize("fields", [{"rebalance_timeout_ms": 7_777}, {"rack_id": "r9"}])
def test_another_rack_or_timeout_is_stored_and_does_not_bump(fields: dict[str, object]) -> None:
    answer = ConsumerHarness().one().beat("m1", 2, **fields)
    assert (answer.epoch, answer.event_types) == (2, ["MemberSubscribed"])


@behaviour("cg.epoch.leave-bumps", "cg.leave.dynamic", "cg.state.assigning", "cg.log.leave")
def test_leaving_bumps_and_computes_no_target() -> None:
    harness = ConsumerHarness().settled()
    answer = harness.beat("m2", -1)
    response = answer.response
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("m2", -1, 0)
    assert response.assignment is None
    assert (harness.state_name, harness.epochs) == ("Assigning", (4, 3))
    assert answer.event_types == ["MemberLeft", "GroupEpochBumped"]
    assert harness.session_ms("m2") is None


@behaviour("cg.epoch.member-follows-target-not-group", "cg.leave.frees-partitions-at-once")
def test_the_next_heartbeat_of_another_member_computes_the_target() -> None:
    harness = ConsumerHarness().settled()
    harness.beat("m2", -1)
    answer = harness.beat("m1", 3)
    assert (answer.epoch, answer.assignment, harness.state_name) == (4, ALL, "Stable")


@behaviour("cg.epoch.fenced-request-changes-nothing", "cg.sess.refused-heartbeat-does-not-count")
def test_a_refused_heartbeat_does_not_restart_the_session() -> None:
    harness = ConsumerHarness().settled()
    for _ in range(9):
        harness.advance(5_000)
        harness.beat("m1", 3)
        assert harness.beat("m2", 99).code in (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID)
    assert list(harness.consumer.members) == ["m1"]


# Topics


@behaviour("cg.topic.created")
def test_a_topic_that_is_created_is_assigned_by_the_next_heartbeat() -> None:
    harness = ConsumerHarness()
    harness.join("m1", "nx")
    harness.topics = image(nx=2)
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment) == (3, {"nx": [0, 1]})


@behaviour("cg.topic.deleted", "cg.topic.assignment-of-unknown-id")
def test_partitions_of_a_deleted_topic_are_given_up_like_others() -> None:
    harness = ConsumerHarness()
    harness.topics = image(nx=4, ny=1)
    harness.join("m1", "nx", "ny")
    harness.topics = image(nx=4)
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment, harness.epochs[0]) == (2, {"nx": [0, 1, 2, 3]}, 3)
    assert harness.member_state("m1") is S.UNREVOKED_PARTITIONS
    [described] = harness.described_member("m1").assignment.topic_partitions
    assert described.topic_name == "nx"
    acknowledged = harness.beat("m1", 2, owned={"nx": [0, 1, 2, 3]})
    assert (acknowledged.epoch, acknowledged.assignment) == (3, None)


def test_a_member_that_leaves_takes_the_present_topics_into_account() -> None:
    """Seen on Apache Kafka 4.4.0: foo has grown, and the epoch is bumped by the leaving alone."""
    harness = ConsumerHarness().settled()
    harness.topics = image(foo=7, bar=3)
    harness.beat("m2", -1)
    answer = harness.beat("m1", 3)
    assert (answer.epoch, answer.assignment) == (4, {"foo": [0, 1, 2, 3, 4, 5, 6]})


@behaviour("cg.topic.unrelated", "cg.topic.no-difference")
def test_a_change_of_another_topic_changes_nothing() -> None:
    harness = ConsumerHarness().one()
    harness.topics = image(foo=6, bar=30)
    assert harness.beat("m1", 2).event_types == []


def test_a_topic_that_grows_is_assigned_by_the_next_heartbeat() -> None:
    harness = ConsumerHarness().one()
    harness.topics = image(foo=7, bar=3)
    assert harness.beat("m1", 2).assignment == {"foo": [0, 1, 2, 3, 4, 5, 6]}


# The state


@behaviour("cg.state.reconciling", "cg.state.stable", "cg.state.is-derived")
def test_the_state_follows_from_the_epochs() -> None:
    harness = ConsumerHarness().two_joined()
    assert (harness.state_name, harness.epochs) == ("Reconciling", (3, 3))
    assert ConsumerHarness().settled().state_name == "Stable"


@pytest.mark.parametrize("is_loaded", [False, True])
def test_the_first_target_after_a_load_is_made_for_the_present_subscriptions(is_loaded: bool) -> None:
    """m3 joins without topics, which raises no epoch, while a target is due. Kafka makes it for the subscriptions of
    before, when all members named the same topics, unless a load has made it look at them anew."""
    harness = ConsumerHarness()
    harness.join("m1", server_assignor="range")
    harness.join("m2", subscribed_topics=("bar",))
    harness.beat("m2", -1)
    harness.advance(1_000)
    if is_loaded:
        harness.fail_over()
    harness.join("m3", subscribed_topics=())
    consumer = harness.consumer
    shares = {each: consumer.targets[each].get(topic_id("foo"), ()) for each in ("m1", "m3")}
    assert consumer.assignment_epoch == consumer.group_epoch == 4
    everything = (0, 1, 2, 3, 4, 5)
    assert shares == ({"m1": everything, "m3": ()} if is_loaded else {"m1": everything[:3], "m3": everything[3:]})
    assert not consumer.members["m3"].assigned
