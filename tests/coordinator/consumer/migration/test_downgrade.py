"""The last member of the consumer protocol goes, classic members stay: the group becomes a classic one."""

from collections.abc import Callable

import pytest

from regroup.coordinator.commands import LeavingMember
from regroup.coordinator.consumer.migration.embedded_protocol import encoded_assignment, partitions_by_id
from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import MigrationPolicy
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.consumer.subscription import TopicPartition, decode_assignment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.topic_ids import topic_id_text
from tests.coordinator.consumer.migration.migration_harness import (
    ALL,
    LOWER,
    UPPER,
    MigrationHarness,
    assigned_by,
    assignment,
    subscription,
)
from tests.coordinator.group_harness import behaviour

E = ErrorCode


def let_revocation_time_out(harness: MigrationHarness) -> None:
    """n1 gives up nothing of what it had, since a second classic member joined; it heartbeats meanwhile."""
    harness.beat("n1", 2, rebalance_timeout_ms=5_000)
    d = harness.client("d", protocol_names=("range",), session_timeout_ms=60_000)
    d.topics = ("foo",)
    harness.rejoin(d)
    harness.rejoin(d)
    harness.beat("n1", 2)
    assert harness.revocation_ms("n1") == 5_000
    for client in ("c", "d"):
        assert client in harness.consumer.members
    harness.advance(5_000)


GONE: dict[str, Callable[[MigrationHarness], object]] = {
    "heartbeat": lambda harness: harness.beat("n1", -1),
    "LeaveGroup": lambda harness: harness.remove_members(LeavingMember("n1")),
    "session": lambda harness: harness.advance(45_000),
    "revocation": let_revocation_time_out,
}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("heartbeat", marks=behaviour("cg.down.last-consumer-member-leaves", "cg.log.downgrade")),
        pytest.param("LeaveGroup", marks=behaviour("cg.down.by-LeaveGroup")),
        pytest.param("session", marks=behaviour("cg.down.by-session-timeout")),
        pytest.param("revocation", marks=behaviour("cg.down.by-rebalance-timeout")),
    ],
)
def test_the_group_prepares_a_rebalance_of_its_classic_members(way: str) -> None:
    harness = MigrationHarness()
    [c] = harness.classic(session_timeout_ms=60_000)
    harness.mixed(c)
    harness.hand_over(c)
    harness.beat("n1", 2)
    GONE[way](harness)
    epoch = harness.generation_id
    assert epoch == (3 if way == "revocation" else 2), "the group epoch, which the removal does not bump"
    assert (harness.kind, harness.state) == ("classic", GroupState.PREPARING_REBALANCE)
    assert c.heartbeat(generation_id=epoch).code is E.REBALANCE_IN_PROGRESS
    assert c.heartbeat(generation_id=epoch - 1).code is E.ILLEGAL_GENERATION


def test_the_events_are_those_of_one_batch_of_records() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    harness.advance(4_000)
    left = harness.beat("n1", -1)
    assert left.event_types == ["MemberLeft", "GroupDowngraded", "RebalanceStarted"]
    assert harness.session_ms("c") == 10_000


@behaviour("cg.down.next-generation")
def test_the_next_join_phase_ends_in_the_next_generation() -> None:
    harness = MigrationHarness()
    c = harness.settled_mixed()
    harness.beat("n1", -1)
    response = harness.rejoin(c, LOWER).response
    assert (response.generation_id, response.leader) == (3, "c")
    assert assigned_by(c.sync({"c": assignment(ALL)}).response) == ALL
    assert harness.state is GroupState.STABLE


@behaviour("cg.down.assignments-come-from-the-target")
@pytest.mark.parametrize("version", [0, 1, 3])
def test_each_member_is_assigned_its_target_in_the_version_of_its_subscription(version: int) -> None:
    harness = MigrationHarness()
    [c] = harness.classic()
    c.metadata = subscription(version=version)
    c.send_join()
    harness.complete_generation([c], (ALL,))
    harness.join("n1")
    harness.beat("n1", -1)
    stored = decode_assignment(harness.group.members["c"].assignment)
    assert stored.version == version
    assert [each.partition for each in stored.partitions] == LOWER["foo"]
    assert (harness.group.protocol_name, harness.group.protocol_type) == ("range", "consumer")
    assert harness.group.subscribed_topics == ("foo",)


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        pytest.param(MigrationPolicy.DOWNGRADE, "classic", marks=behaviour("cg.down.policy-downgrade")),
        pytest.param(MigrationPolicy.UPGRADE, "consumer", marks=behaviour("cg.down.policy-upgrade")),
    ],
)
def test_the_policy_decides_whether_the_group_becomes_classic(policy: MigrationPolicy, kind: str) -> None:
    harness = MigrationHarness(group_consumer_migration_policy=policy).one()
    c = harness.client("c")
    harness.rejoin(c)
    assert harness.rejoin(c).code is E.NONE
    harness.beat("m1", -1)
    assert harness.kind == kind
    assert harness.group.state_name == ("PreparingRebalance" if kind == "classic" else "Assigning")


@behaviour("cg.down.too-big")
def test_more_classic_members_than_a_classic_group_may_have_stay_in_a_consumer_group() -> None:
    harness = MigrationHarness(group_max_size=2)
    harness.classic("c", "d", shares=(LOWER, UPPER))
    harness.join("n1")
    harness.settings = MigrationHarness(group_max_size=1).settings
    harness.beat("n1", -1)
    assert (harness.kind, harness.state_name) == ("consumer", "Assigning")
    harness.remove_members(LeavingMember("d"))
    assert harness.kind == "classic"


def test_a_group_whose_last_member_goes_is_an_empty_group_of_the_consumer_protocol() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    harness.remove_members(LeavingMember("c"), LeavingMember("n1"))
    assert (harness.kind, harness.state_name) == ("consumer", "Empty")


@behaviour("cg.down.unknown-member-of-empty-group")
def test_an_empty_group_of_the_consumer_protocol_refuses_a_member_id_and_stays_one() -> None:
    harness = MigrationHarness()
    harness.join("n1")
    harness.beat("n1", -1)
    before = harness.group
    c = harness.client("c", protocol_names=("range",))
    c.member_id = "made-up"
    assert c.send_join().code is E.UNKNOWN_MEMBER_ID
    assert harness.group == before


@behaviour("cg.cm.order-of-topics")
def test_assigned_topics_have_the_order_of_a_java_hash_map_of_their_ids() -> None:
    ids = [topic_id_text(bytes(15) + bytes([number])) for number in (9, 3, 7)]
    topics = TopicsImage([TopicMetadata(topic_id, name, 2) for topic_id, name in zip(ids, "abc", strict=True)])
    encoded = encoded_assignment(dict.fromkeys(ids, (1, 0)), topics, subscription())
    assert [tuple(each) for each in decode_assignment(encoded).partitions] == [
        (name, index) for name in "bca" for index in range(2)
    ]


def test_topics_in_one_bucket_of_that_map_keep_the_order_of_the_assignment_before_the_upgrade() -> None:
    ids = {name: topic_id_text(bytes(15) + bytes([number])) for name, number in (("a", 0x03), ("b", 0x13))}
    topics = TopicsImage([TopicMetadata(topic_id, name, 1) for name, topic_id in ids.items()])
    for order in ("ab", "ba"):
        kept = partitions_by_id([TopicPartition(name, 0) for name in order], topics)
        decoded = decode_assignment(encoded_assignment(kept, topics, subscription()))
        assert "".join(each.topic for each in decoded.partitions) == order


@behaviour("cg.down.static-replacement")
def test_a_static_member_that_restarts_with_the_classic_protocol_takes_its_place_without_a_rebalance() -> None:
    harness = MigrationHarness()
    harness.join("n1", instance_id="instance-c")
    c = harness.client("c", static=True)
    response = harness.rejoin(c).response
    assert (response.error_code, response.generation_id, response.leader, response.members) == (E.NONE, 2, "", [])
    assert (harness.kind, harness.state, harness.generation_id) == ("classic", GroupState.STABLE, 2)
    assert assigned_by(c.sync().response) == ALL
    assert c.heartbeat().code is E.NONE
    assert harness.beat("n1", 2, instance_id="instance-c").code is E.GROUP_ID_NOT_FOUND


def test_a_static_member_that_restarts_classic_with_other_topics_starts_a_rebalance() -> None:
    """As in Kafka the response has epoch 0, and the group stays at the epoch before the request."""
    harness = MigrationHarness()
    harness.join("n1", instance_id="instance-c")
    c = harness.client("c", static=True)
    c.topics = ("bar",)
    assert harness.rejoin(c).response.generation_id == 0
    assert (harness.kind, harness.state, harness.generation_id) == ("classic", GroupState.PREPARING_REBALANCE, 2)
    assert c.sync().code is E.ILLEGAL_GENERATION


def test_a_failover_restores_the_classic_group() -> None:
    harness = MigrationHarness()
    c = harness.settled_mixed()
    harness.beat("n1", -1)
    harness.fail_over()
    assert (harness.kind, harness.state, harness.generation_id) == ("classic", GroupState.STABLE, 2)
    assert assigned_by(c.sync().response) == LOWER
    assert c.heartbeat().code is E.NONE


def test_the_group_goes_back_and_forth() -> None:
    harness = MigrationHarness()
    c = harness.settled_mixed()
    for _ in range(3):
        harness.beat("n1", -1)
        harness.rejoin(c, LOWER)
        c.sync({"c": assignment(ALL)})
        assert (harness.kind, harness.state) == ("classic", GroupState.STABLE)
        answer = harness.join("n1")
        assert (answer.code, harness.kind, answer.epoch) == (E.NONE, "consumer", harness.epochs[0])
        harness.rejoin(c, ALL)
        harness.rejoin(c, LOWER)
        c.sync()
        assert harness.beat("n1", answer.epoch).assignment == UPPER
        assert harness.state_name == "Stable"
