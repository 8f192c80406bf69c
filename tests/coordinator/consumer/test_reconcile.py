"""How partitions change hands, and the timeouts of members that give them up."""

from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, topic_id
from tests.coordinator.group_harness import behaviour

E = ErrorCode
ALL = {"foo": [0, 1, 2, 3, 4, 5]}


@behaviour("cg.rec.revoke-told-once", "cg.log.told-to-revoke")
def test_a_member_is_asked_once_to_give_up_partitions() -> None:
    harness = ConsumerHarness().two_joined()
    assert harness.beat("m1", 2).event_types == ["MemberReconciled"]
    assert (harness.pending("m1"), harness.member_state("m1")) == ({"foo": [3, 4, 5]}, S.UNREVOKED_PARTITIONS)
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment, answer.event_types) == (2, None, [])


@behaviour("cg.rec.owned-list-with-pending-partition")
def test_one_partition_that_is_still_owned_stops_the_member() -> None:
    answer = ConsumerHarness().revoking().beat("m1", 2, owned={"foo": [0, 1, 2, 5]})
    assert (answer.epoch, answer.assignment, answer.event_types) == (2, None, [])


@behaviour("cg.rec.acknowledge-with-less")
def test_only_the_pending_partitions_of_the_report_matter() -> None:
    answer = ConsumerHarness().revoking().beat("m1", 2, owned={})
    assert (answer.epoch, answer.assignment) == (3, None)


@behaviour("cg.rec.revoked-already")
def test_partitions_that_are_not_reported_need_not_be_revoked() -> None:
    harness = ConsumerHarness().two_joined()
    answer = harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (answer.epoch, answer.assignment, harness.member_state("m1")) == (3, {"foo": [0, 1, 2]}, S.STABLE)


@behaviour("cg.rec.unreleased-waits", "cg.reb.not-while-unreleased")
def test_a_member_waits_for_partitions_without_a_time_limit() -> None:
    harness = ConsumerHarness().revoking()
    answer = harness.beat("m2", 3)
    assert (answer.epoch, answer.assignment) == (3, None)
    assert (harness.member_state("m2"), harness.revocation_ms("m2")) == (S.UNRELEASED_PARTITIONS, None)


@behaviour("cg.rec.unreleased-receives")
def test_a_member_gets_released_partitions_by_its_own_heartbeat() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert harness.assigned("m2") == {}
    answer = harness.beat("m2", 3)
    assert (answer.epoch, answer.assignment, harness.member_state("m2")) == (3, {"foo": [3, 4, 5]}, S.STABLE)


def swapping() -> ConsumerHarness:
    """m2 has foo 3-5 at epoch 3; the target of epoch 4 takes foo 4 and 5, and gives it foo 2, which is free."""
    harness = ConsumerHarness()
    harness.join("m1", server_assignor="range")
    harness.join("m2")
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    harness.beat("m2", 3)
    harness.join("m3")
    assert harness.beat("m1", 3, owned={"foo": [0, 1]}).epoch == 4
    assert (harness.assigned("m2"), harness.target("m2")) == ({"foo": [3, 4, 5]}, {"foo": [2, 3]})
    return harness


@behaviour("cg.rec.new-partitions-wait-for-revocation")
def test_no_partition_is_given_while_others_must_be_given_up() -> None:
    answer = swapping().beat("m2", 3)
    assert (answer.epoch, answer.assignment) == (3, {"foo": [3]})


@behaviour("cg.rec.revoke-and-receive-together")
def test_a_member_that_owns_nothing_else_any_more_gets_its_partitions_at_once() -> None:
    answer = swapping().beat("m2", 3, owned={"foo": [3]})
    assert (answer.epoch, answer.assignment) == (4, {"foo": [2, 3]})


@behaviour("cg.rec.target-turns-back-unacknowledged", "cg.rec.target-turns-back-acknowledged")
def test_a_revocation_is_not_called_off() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m2", -1)
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment, harness.target("m1")) == (2, None, ALL)
    assert harness.member_state("m1") is S.UNREVOKED_PARTITIONS
    acknowledged = harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (acknowledged.epoch, acknowledged.assignment, harness.member_state("m1")) == (4, ALL, S.STABLE)


@behaviour("cg.rec.partition-taken-back-gets-a-new-epoch")
def test_a_partition_that_is_taken_back_has_a_new_assignment_epoch() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    harness.beat("m2", -1)
    assert harness.beat("m1", 3).assignment == ALL
    assert harness.member("m1").assigned == {topic_id("foo"): {0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 4}}


@behaviour("cg.rec.newer-target-after-acknowledging")
def test_a_newer_target_may_ask_for_more_at_the_same_epoch() -> None:
    harness = ConsumerHarness().revoking()
    harness.advance(10_000)
    harness.join("m3")
    answer = harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (answer.epoch, answer.assignment) == (2, {"foo": [0, 1]})
    assert (harness.member_state("m1"), harness.revocation_ms("m1")) == (S.UNREVOKED_PARTITIONS, 60_000)


@behaviour("cg.rec.newer-target-while-unreleased")
def test_a_member_that_waits_may_be_asked_to_give_up_partitions() -> None:
    harness = ConsumerHarness()
    harness.join("m1", server_assignor="range")
    harness.join("m2")
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    harness.beat("m2", 3)
    harness.join("m3")
    assert harness.beat("m2", 3, owned={"foo": [3]}).epoch == 4
    assert (harness.member_state("m2"), harness.assigned("m2")) == (S.UNRELEASED_PARTITIONS, {"foo": [3]})
    harness.join("m0")
    assert harness.target("m2") == {"foo": [4]}
    answer = harness.beat("m2", 4)
    assert (answer.epoch, answer.assignment) == (4, {})
    assert (harness.member_state("m2"), harness.pending("m2")) == (S.UNREVOKED_PARTITIONS, {"foo": [3]})


@behaviour("cg.rec.unreleased-moves-with-the-epoch")
def test_a_member_that_waits_moves_to_a_newer_target() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m2", 3)
    harness.join("m3", "bar")
    answer = harness.beat("m2", 3)
    assert (answer.epoch, harness.member_state("m2")) == (4, S.UNRELEASED_PARTITIONS)


@behaviour("cg.rec.stable-with-the-same-share")
def test_a_member_with_the_same_share_gets_the_epoch_alone() -> None:
    harness = ConsumerHarness().settled()
    harness.join("m3", "bar")
    answer = harness.beat("m1", 3)
    assert (answer.epoch, answer.assignment, answer.event_types) == (4, None, ["MemberReconciled"])


@behaviour("cg.rec.unsubscribed-topic-goes-at-once")
def test_a_topic_that_is_no_more_subscribed_goes_at_once() -> None:
    harness = ConsumerHarness()
    harness.join("m1", "foo", "bar")
    answer = harness.beat("m1", 2, subscribed_topics=("bar",))
    assert (answer.epoch, answer.assignment, harness.epochs) == (2, {"bar": [0, 1, 2]}, (3, 3))
    assert harness.member_state("m1") is S.UNREVOKED_PARTITIONS


@behaviour("cg.rec.unsubscribed-topic-already-dropped")
def test_a_topic_that_is_not_owned_any_more_need_not_be_revoked() -> None:
    harness = ConsumerHarness()
    harness.join("m1", "foo", "bar")
    answer = harness.beat("m1", 2, subscribed_topics=("bar",), owned={"bar": [0, 1, 2]})
    assert (answer.epoch, answer.assignment, harness.member_state("m1")) == (3, {"bar": [0, 1, 2]}, S.STABLE)


# Timeouts


def test_a_member_that_does_not_give_up_its_partitions_is_removed_in_spite_of_its_heartbeats() -> None:
    harness = ConsumerHarness().revoking()
    for _ in range(12):
        assert harness.member("m1")
        harness.advance(5_000)
        harness.beat("m2", 3)
        harness.beat("m1", 2)
    assert harness.beat("m1", 2).code is E.UNKNOWN_MEMBER_ID
    harness.beat("m2", 3)
    assert harness.assigned("m2") == ALL


@behaviour("cg.reb.value-at-the-time-of-asking")
def test_another_rebalance_timeout_counts_from_the_next_revocation_on() -> None:
    harness = ConsumerHarness().revoking()
    harness.beat("m1", 2, rebalance_timeout_ms=90_000)
    assert harness.revocation_ms("m1") == 60_000


@behaviour("cg.reb.only-for-its-epoch")
def test_a_member_that_has_given_up_its_partitions_is_not_removed() -> None:
    harness = ConsumerHarness().revoking()
    harness.advance(30_000)
    harness.beat("m2", 3)
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    harness.advance(31_000)
    assert "m1" in harness.consumer.members


@behaviour("cg.sess.expired-member-comes-back")
def test_a_member_that_expired_is_unknown() -> None:
    harness = ConsumerHarness().settled()
    harness.advance(40_000)
    harness.beat("m1", 3)
    harness.advance(5_000)
    assert (list(harness.consumer.members), harness.epochs) == (["m1"], (4, 3))
    assert harness.beat("m2", 3).code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.sess.last-member-expires")
def test_a_group_whose_last_member_expires_is_empty() -> None:
    harness = ConsumerHarness().one()
    harness.advance(45_000)
    assert (harness.state_name, harness.epochs) == ("Empty", (3, 3))


@behaviour("cg.sess.clients-cannot-choose", "cg.sess.by-the-group")
def test_the_session_timeout_is_a_setting_that_counts_from_the_next_heartbeat_on() -> None:
    harness = ConsumerHarness().one()
    harness.settings = ConsumerHarness(group_consumer_session_timeout_ms=60_000).settings
    assert harness.session_ms("m1") == 45_000
    harness.beat("m1", 2)
    assert harness.session_ms("m1") == 60_000


@behaviour("cg.leave.during-revocation")
def test_a_member_that_leaves_frees_all_its_partitions() -> None:
    harness = ConsumerHarness().revoking()
    assert harness.beat("m1", -1).code is E.NONE
    assert (harness.revocation_ms("m1"), harness.consumer.holders) == (None, {})


@behaviour("cg.leave.unknown-member")
def test_a_stranger_cannot_leave() -> None:
    assert ConsumerHarness().one().beat("mx", -1).code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.leave.classic-group")
def test_a_member_of_a_classic_group_does_not_leave_by_this_heartbeat() -> None:
    harness = ConsumerHarness()
    harness.reach_stable("m1")
    assert harness.beat("m1", -1).code is E.GROUP_ID_NOT_FOUND


@behaviour("cg.leave.answer-echoes-request")
def test_the_response_to_a_member_that_leaves_has_its_id_and_epoch() -> None:
    answer = ConsumerHarness().one().beat("m1", -1)
    assert (answer.response.member_id, answer.epoch) == ("m1", -1)


@behaviour("cg.leave.dynamic-with-minus-two")
def test_a_dynamic_member_cannot_go_away_for_a_while() -> None:
    assert ConsumerHarness().one().beat("m1", -2, instance_id="i1").code is E.UNKNOWN_MEMBER_ID
