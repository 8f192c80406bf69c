"""When a response carries the assignment, and when a target is computed."""

import pytest

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, image
from tests.coordinator.group_harness import behaviour

E = ErrorCode
ALL = {"foo": [0, 1, 2, 3, 4, 5]}
FULL = {"rebalance_timeout_ms": 60_000, "subscribed_topics": ("foo",)}


@behaviour("cg.resp.assignment-in-full-request")
def test_a_full_request_gets_the_assignment() -> None:
    assert ConsumerHarness().one().beat("m1", 2, owned=ALL, **FULL).assignment == ALL


@behaviour("cg.resp.assignment-in-full-request-unrevoked")
def test_a_full_request_of_a_member_that_revokes_gets_what_it_may_keep() -> None:
    answer = ConsumerHarness().revoking().beat("m1", 2, owned=ALL, **FULL)
    assert (answer.epoch, answer.assignment) == (2, {"foo": [0, 1, 2]})


@behaviour("cg.resp.assignment-in-full-request-unreleased")
def test_a_full_request_of_a_member_that_waits_gets_an_empty_assignment() -> None:
    answer = ConsumerHarness().two_joined().beat("m2", 3, owned={}, **FULL)
    assert (answer.epoch, answer.assignment) == (3, {})


@behaviour("cg.resp.assignment-in-full-request-that-acknowledges")
def test_a_full_request_that_acknowledges_gets_the_assignment() -> None:
    answer = ConsumerHarness().revoking().beat("m1", 2, owned={"foo": [0, 1, 2]}, **FULL)
    assert (answer.epoch, answer.assignment) == (3, {"foo": [0, 1, 2]})


@behaviour("cg.resp.no-assignment-when-only-the-epoch-moves", "cg.rec.acknowledge", "cg.log.acknowledged")
def test_an_acknowledgement_gets_the_epoch_and_no_assignment() -> None:
    harness = ConsumerHarness().revoking()
    assert harness.revocation_ms("m1") == 60_000
    answer = harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    assert (answer.epoch, answer.assignment, answer.event_types) == (3, None, ["MemberReconciled"])
    assert (harness.member_state("m1"), harness.revocation_ms("m1")) == (S.STABLE, None)


# The assignment interval (KIP-1263)


def delayed() -> ConsumerHarness:
    """m1 and m2 have joined within the interval of 1 s."""
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1_000)
    harness.join("m1")
    answer = harness.join("m2")
    assert (answer.epoch, answer.assignment) == (2, {})
    return harness


@behaviour("cg.int.second-join-waits")
def test_a_second_member_within_the_interval_gets_the_old_target() -> None:
    harness = delayed()
    assert (harness.state_name, harness.epochs) == ("Assigning", (3, 2))
    assert (harness.member_state("m2"), harness.assigned("m2")) == (S.STABLE, {})


@behaviour("cg.int.nobody-computes-without-a-heartbeat")
def test_no_timer_computes_a_target() -> None:
    harness = delayed()
    harness.advance(1_100)
    described = harness.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 3, 2)


@behaviour("cg.int.next-heartbeat-computes", "cg.int.edge-is-inclusive")
@pytest.mark.parametrize(("wait_ms", "epoch"), [(999, 2), (1_000, 3), (1_100, 3)])
def test_the_first_heartbeat_after_the_interval_computes_the_target(wait_ms: int, epoch: int) -> None:
    harness = delayed()
    harness.advance(wait_ms)
    answer = harness.beat("m2", 2)
    assert (answer.epoch, answer.assignment, harness.epochs) == (epoch, None, (3, epoch))


@behaviour("cg.int.members-still-reconcile-to-the-old-target")
def test_members_reconcile_to_the_old_target_meanwhile() -> None:
    harness = delayed()
    harness.advance(1_000)
    harness.beat("m2", 2)
    harness.join("m3")
    answer = harness.beat("m1", 2)
    assert (answer.epoch, answer.assignment, harness.epochs) == (2, {"foo": [0, 1, 2]}, (4, 3))


@behaviour("cg.int.clock-is-stored", "cg.fail.delayed-target")
def test_the_interval_goes_on_in_the_next_coordinator() -> None:
    harness = delayed()
    harness.advance(300)
    harness.fail_over()
    assert (harness.state_name, harness.beat("m1", 2).epoch) == ("Assigning", 2)
    harness.advance(700)
    assert harness.beat("m2", 2).epoch == 3


@behaviour("cg.int.subscription-change-drops-topics-at-once")
def test_topics_that_are_no_more_subscribed_go_before_there_is_a_new_target() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1_000)
    harness.join("m1", "foo", "bar")
    answer = harness.beat("m1", 2, subscribed_topics=("bar",))
    assert (answer.epoch, answer.assignment, harness.state_name) == (2, {"bar": [0, 1, 2]}, "Assigning")
    assert (harness.member_state("m1"), harness.pending("m1")) == (S.UNREVOKED_PARTITIONS, ALL)


# Assignors


@behaviour("cg.epoch.no-bump-when-vote-is-unchanged")
def test_a_vote_for_the_default_does_not_bump() -> None:
    answer = ConsumerHarness().one().beat("m1", 2, server_assignor="uniform")
    assert (answer.epoch, answer.event_types) == (2, ["MemberSubscribed"])


@behaviour("cg.epoch.null-assignor-keeps-the-vote")
def test_a_vote_is_kept() -> None:
    harness = ConsumerHarness().one()
    assert harness.beat("m1", 2, server_assignor="range").epoch == 3
    assert (harness.beat("m1", 3).epoch, harness.describe().assignor_name) == (3, "range")


@behaviour("cg.asr.majority", "cg.asr.tie", "cg.asr.majority-turns")
def test_most_votes_win_and_a_tie_goes_to_uniform() -> None:
    harness = ConsumerHarness()
    for member_id, assignor in (("m1", "range"), ("m2", "uniform"), ("m3", None)):
        harness.join(member_id, server_assignor=assignor)
    assert harness.describe().assignor_name == "uniform"
    harness.join("m4", server_assignor="uniform")
    assert (harness.describe().assignor_name, harness.epochs[0]) == ("uniform", 5)
    assert harness.beat("m4", 5, server_assignor="range").epoch == 6
    assert (harness.describe().assignor_name, harness.epochs[0]) == ("range", 6)


def test_the_only_vote_for_an_assignor_wins_a_tie_in_its_own_requests_each_of_which_bumps() -> None:
    """Seen on Apache Kafka 4.4.0: b keeps 0-2 of five partitions where `uniform` computes the target."""
    harness = ConsumerHarness()
    harness.topics = image(foo=5)
    harness.join("b", server_assignor="uniform")
    harness.join("a", server_assignor="range")
    assert (harness.target("a"), harness.target("b")) == ({"foo": [0, 1, 2]}, {"foo": [3, 4]})
    assert harness.describe().assignor_name == "uniform"
    for epoch in (3, 4, 5):
        assert harness.beat("a", epoch).epoch == epoch + 1
    assert harness.beat("b", 2).epoch == 2
    assert harness.epochs[0] == 6
    harness.join("c")
    assert (harness.target("a"), harness.target("b")) == ({"foo": [0, 1]}, {"foo": [3, 4]})


def test_a_member_without_a_subscription_may_get_a_share_if_nothing_else_changed() -> None:
    """Seen on Apache Kafka 4.4.0: m3 joins without topics, after m2 left, and counts as one of equal subscribers."""
    harness = ConsumerHarness().settled()
    harness.beat("m2", -1)
    answer = harness.join("m3", subscribed_topics=())
    assert (answer.epoch, answer.assignment) == (4, {})
    assert (harness.target("m1"), harness.target("m3")) == ({"foo": [0, 1, 2]}, {"foo": [3, 4, 5]})
    assert harness.beat("m1", 3).assignment is None


@behaviour("cg.asr.failure")
def test_nothing_stays_of_a_request_whose_assignor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = ConsumerHarness().one()

    def fail(*_: object) -> None:
        raise AssignorError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(UniformAssignor, "assign", fail)
        answer = harness.beat("m1", 2, subscribed_topics=("foo", "bar"))
    assert (answer.code, answer.event_types, harness.epochs) == (E.UNKNOWN_SERVER_ERROR, [], (2, 2))
    assert harness.beat("m1", 2, subscribed_topics=("foo", "bar")).epoch == 3


@behaviour("cg.asr.uniform-two-of-two", "cg.asr.new-member-with-nothing-is-written")
def test_two_members_share_a_topic() -> None:
    harness = ConsumerHarness().two_joined()
    assert harness.target("m2") == {"foo": [3, 4, 5]}
    harness.join("m3", "nix")
    assert harness.target("m3") == {}
