"""Static members of the consumer protocol: they go away with -2, and come back under any member id."""

from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness
from tests.coordinator.group_harness import behaviour

E = ErrorCode


@behaviour("cg.static.new-instance")
def test_a_new_static_member_joins_like_any() -> None:
    answer = ConsumerHarness().one().join("m2", instance_id="i2")
    assert (answer.epoch, answer.assignment) == (3, {})


@behaviour("cg.static.instance-in-use", "cg.static.own-rejoin-is-refused-too")
def test_an_instance_id_that_is_in_use_is_refused_also_to_its_owner() -> None:
    harness = ConsumerHarness().static_pair()
    assert harness.join("m3", instance_id="i2").code is E.UNRELEASED_INSTANCE_ID
    assert harness.join("m2", instance_id="i2").code is E.UNRELEASED_INSTANCE_ID


@behaviour("cg.static.wrong-member-id", "cg.static.wrong-member-id-leaves")
def test_another_member_id_is_fenced() -> None:
    harness = ConsumerHarness().static_pair()
    assert harness.beat("mx", 3, instance_id="i2").code is E.FENCED_INSTANCE_ID
    assert harness.beat("mx", -2, instance_id="i2").code is E.FENCED_INSTANCE_ID


@behaviour("cg.static.unknown-instance", "cg.static.unknown-instance-leaves")
def test_an_unknown_instance_id_is_refused() -> None:
    harness = ConsumerHarness().static_pair()
    assert harness.beat("m2", 3, instance_id="i9").code is E.UNKNOWN_MEMBER_ID
    assert harness.beat("m2", -1, instance_id="i9").code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.static.epoch-checked-like-any")
def test_the_epoch_of_a_static_member_is_checked() -> None:
    assert ConsumerHarness().static_pair().beat("m2", 9, instance_id="i2").code is E.FENCED_MEMBER_EPOCH


@behaviour("cg.static.heartbeat-after-temporary-leave")
def test_a_member_that_is_away_is_fenced() -> None:
    assert ConsumerHarness().away().beat("m2", 3, instance_id="i2").code is E.FENCED_MEMBER_EPOCH


@behaviour(
    "cg.static.away-counts-as-member", "cg.state.reconciling-while-a-static-member-is-away", "cg.log.static-away"
)
def test_a_member_that_is_away_keeps_its_partitions_and_the_group() -> None:
    harness = ConsumerHarness().static_pair()
    answer = harness.beat("m2", -2, instance_id="i2")
    assert (answer.response.member_id, answer.epoch, answer.event_types) == ("m2", -2, ["StaticMemberAway"])
    described = harness.described_member("m2")
    assert (described.member_epoch, described.instance_id) == (-2, "i2")
    assert [each.partitions for each in described.assignment.topic_partitions] == [[3, 4, 5]]
    assert (harness.state_name, harness.epochs) == ("Reconciling", (3, 3))


@behaviour("cg.static.comes-back", "cg.log.static-back")
def test_a_member_that_comes_back_gets_its_share_without_a_rebalance() -> None:
    harness = ConsumerHarness().away()
    answer = harness.join("m2b", instance_id="i2")
    assert (answer.response.member_id, answer.epoch, answer.assignment) == ("m2b", 3, {"foo": [3, 4, 5]})
    assert (harness.state_name, harness.epochs) == ("Stable", (3, 3))
    assert answer.event_types == ["StaticConsumerReplaced", "MemberReconciled"]


@behaviour("cg.static.comes-back-under-the-same-id")
def test_a_member_may_come_back_under_its_own_id() -> None:
    answer = ConsumerHarness().away().join("m2", instance_id="i2")
    assert (answer.epoch, answer.assignment) == (3, {"foo": [3, 4, 5]})


@behaviour("cg.static.old-id-after-replacement", "cg.static.old-id-without-instance")
def test_the_replaced_member_id_is_fenced() -> None:
    harness = ConsumerHarness().away()
    harness.join("m2b", instance_id="i2")
    assert harness.beat("m2", 3, instance_id="i2").code is E.FENCED_INSTANCE_ID
    assert harness.beat("m2", 3).code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.static.comes-back-with-other-topics")
def test_a_member_that_comes_back_with_other_topics_bumps() -> None:
    harness = ConsumerHarness().away()
    assert harness.join("m2c", "foo", "bar", instance_id="i2").epoch == 4
    assert harness.epochs[0] == 4
    assert set(harness.target("m2c")["foo"]) <= {3, 4, 5}


@behaviour("cg.static.leaves-for-good")
def test_a_static_member_may_leave_for_good() -> None:
    harness = ConsumerHarness().static_pair()
    assert harness.beat("m2", -1, instance_id="i2").epoch == -1
    assert (harness.epochs[0], harness.consumer.static_members) == (4, {})


@behaviour("cg.leave.static-member-without-instance-id")
def test_a_static_member_that_leaves_by_its_member_id_is_removed() -> None:
    harness = ConsumerHarness().static_pair()
    assert harness.beat("m2", -1).code is E.NONE
    assert "m2" not in harness.consumer.members


@behaviour("cg.sess.static-member-away")
def test_going_away_neither_restarts_nor_stops_the_session() -> None:
    harness = ConsumerHarness()
    harness.join("m1", instance_id="i1")
    harness.advance(20_000)
    harness.beat("m1", -2, instance_id="i1")
    assert harness.session_ms("m1") == 25_000
    harness.advance(25_000)
    assert (harness.state_name, harness.epochs) == ("Empty", (3, 3))


@behaviour("cg.static.temporary-leave-leaves-rebalance-timer")
def test_a_member_that_is_away_is_not_removed_by_its_rebalance_timeout() -> None:
    harness = ConsumerHarness()
    harness.join("s1", instance_id="i1", rebalance_timeout_ms=10_000)
    harness.join("m2")
    harness.beat("s1", 2, instance_id="i1")
    assert harness.member_state("s1") is S.UNREVOKED_PARTITIONS
    harness.beat("s1", -2, instance_id="i1")
    harness.advance(11_000)
    assert "s1" in harness.consumer.members
    assert harness.beat("m2", 3).assignment == {"foo": [3, 4, 5]}


@behaviour("cg.static.replacement-keeps-old-timers")
def test_the_session_of_a_replaced_member_ends_with_it() -> None:
    harness = ConsumerHarness().away()
    harness.advance(30_000)
    harness.beat("m1", 3)
    harness.join("m2b", instance_id="i2")
    harness.advance(20_000)
    assert list(harness.consumer.members) == ["m1", "m2b"]


@behaviour("cg.static.replacement-in-a-full-group")
def test_a_static_member_comes_back_to_a_full_group() -> None:
    harness = ConsumerHarness(group_consumer_max_size=2).away()
    assert harness.join("m2b", instance_id="i2").code is E.NONE


def test_a_member_that_takes_the_place_of_another_gives_up_its_own() -> None:
    harness = ConsumerHarness().away()
    answer = harness.join("m1", instance_id="i2")
    assert (answer.epoch, answer.assignment) == (3, {"foo": [3, 4, 5]})
    assert list(harness.consumer.members) == ["m1"]
    assert {each: set(holders.values()) for each, holders in harness.consumer.holders.items()} == {
        each: {"m1"} for each in harness.member("m1").assigned
    }
