"""JoinGroup of the classic protocol in a group of the consumer protocol."""

from regroup.coordinator import commands as c
from regroup.coordinator.responses import join_error
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.migration.migration_harness import (
    LOWER,
    MigrationHarness,
    founded_by_consumer,
    subscription,
)
from tests.coordinator.group_driver import GROUP_ID
from tests.coordinator.group_harness import behaviour

E = ErrorCode


@behaviour("cg.cm.join-new", "cg.asr.input")
def test_a_new_member_is_answered_at_once_with_its_epoch_as_generation() -> None:
    harness, client = founded_by_consumer()
    asked = client.send_join(new_short_member_id="22-characters-of-base64")
    assert (asked.code, asked.response.member_id) == (E.MEMBER_ID_REQUIRED, "22-characters-of-base64")
    assert asked.events == ()
    joined = client.send_join()
    response = joined.response
    assert (response.error_code, response.generation_id, response.member_id) == (E.NONE, 3, "22-characters-of-base64")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert (response.leader, response.members, response.skip_assignment) == ("", [], False)
    assert joined.event_types == [
        "MemberSubscribed",
        "GroupEpochBumped",
        "TargetAssigned",
        "MemberReconciled",
        "ClassicMemberJoined",
    ]
    assert (harness.session_ms(client.member_id), harness.epochs) == (10_000, (3, 3))


def test_a_member_that_names_no_rack_any_more_keeps_the_one_that_it_had() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.metadata = "made-up", subscription(rack_id="a")
    client.send_join()
    assert harness.consumer.members["made-up"].profile.rack_id == "a"
    client.metadata = subscription()
    client.send_join()
    assert harness.consumer.members["made-up"].profile.rack_id == "a"
    client.metadata = subscription(rack_id="b")
    client.send_join()
    assert harness.consumer.members["made-up"].profile.rack_id == "b"


@behaviour("cg.cm.join-with-made-up-id")
def test_an_id_that_the_client_made_up_is_accepted() -> None:
    harness, client = founded_by_consumer()
    client.member_id = "made-up"
    assert client.send_join().response.member_id == "made-up"
    assert "made-up" in harness.consumer.members


@behaviour("cg.cm.join-without-id-v3")
def test_a_client_that_does_not_know_member_id_required_joins_at_once() -> None:
    harness, client = founded_by_consumer()
    client.version = 3
    response = client.send_join().response
    assert (response.error_code, response.generation_id) == (E.NONE, harness.epochs[1])


@behaviour("cg.cm.join-policy-upgrade")
def test_every_policy_but_disabled_lets_classic_members_in() -> None:
    for policy in MigrationPolicy:
        _, client = founded_by_consumer(group_consumer_migration_policy=policy)
        client.member_id = "made-up"
        request = client.send_join()
        assert (request.code is E.NONE) is (policy is not MigrationPolicy.DISABLED)
        if policy is MigrationPolicy.DISABLED:
            assert (request.code, request.response.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")


@behaviour("cg.cm.join-malformed-subscription")
def test_a_subscription_that_cannot_be_read_is_refused() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.metadata = "made-up", b"\x00"
    before = harness.group
    assert client.send_join().code is E.INCONSISTENT_GROUP_PROTOCOL
    assert harness.group == before


@behaviour("cg.cm.join-no-common-assignor")
def test_all_classic_members_must_offer_one_assignor() -> None:
    harness = MigrationHarness()
    harness.settled_mixed()
    other = harness.client("d", protocol_names=("roundrobin",), metadata=subscription())
    assert other.send_join().code is E.INCONSISTENT_GROUP_PROTOCOL
    for fields in ({"protocol_type": "connect"}, {"supported_protocols": ()}):
        assert harness.client("d", protocol_names=("range",)).send_join(**fields).code is E.INCONSISTENT_GROUP_PROTOCOL
    assert harness.client("d", protocol_names=("roundrobin", "range")).send_join().code is E.MEMBER_ID_REQUIRED


@behaviour("cg.lim.classic-join-in-full-group")
def test_a_full_group_takes_no_classic_member_but_one_with_a_known_instance_id() -> None:
    harness, client = founded_by_consumer(group_consumer_max_size=2)
    harness.join("m2", instance_id="instance-s")
    client.member_id = "x"
    request = client.send_join()
    assert (request.code, request.response.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert harness.rejoin(harness.client("s", static=True)).code is E.NONE


@behaviour("cg.cm.static-known-id-unknown-instance", "cg.cm.static-known-id-mismatch")
def test_a_static_member_that_names_its_id_is_checked() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.instance_id = "zz", "i9"
    assert client.send_join().code is E.UNKNOWN_MEMBER_ID
    harness.join("s1", instance_id="i1")
    client.instance_id = "i1"
    assert client.send_join().code is E.FENCED_INSTANCE_ID


def test_session_timeouts_and_empty_group_ids_are_checked_first() -> None:
    _, client = founded_by_consumer()
    request = client.send_join(session_timeout_ms=1, member_id="me")
    assert (request.code, request.response.member_id) == (E.INVALID_SESSION_TIMEOUT, "me")


def test_a_description_that_kafka_could_not_write_is_refused() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.metadata = "big", subscription(user_data=b"x" * 1_100_000)
    assert client.send_join().code is E.UNKNOWN_SERVER_ERROR
    assert "big" not in harness.consumer.members


def test_the_names_of_protocols_are_measured_in_bytes_of_utf_8() -> None:
    _, client = founded_by_consumer()
    client.member_id, client.protocol_names = "big", ("range", "é" * 600_000)
    assert client.send_join().code is E.UNKNOWN_SERVER_ERROR
    client.protocol_names = ("range", "e" * 600_000)
    assert client.send_join().code is E.NONE


@behaviour("cg.cm.votes-and-racks")
def test_the_rack_of_a_subscription_is_taken_over_and_classic_members_do_not_vote() -> None:
    harness, client = founded_by_consumer()
    client.member_id, client.metadata = "c", subscription(rack_id="r1")
    client.send_join()
    assert harness.member("c").profile.rack_id == "r1"
    assert harness.member("c").profile.server_assignor is None
    assert harness.describe().assignor_name == "uniform"


@behaviour("cg.cm.owned-by-name")
def test_owned_partitions_of_topics_that_do_not_exist_are_ignored() -> None:
    harness = MigrationHarness()
    [client] = harness.classic()
    harness.mixed(client)
    response = harness.rejoin(client, {"gone": [0]}).response
    assert (response.error_code, response.generation_id) == (E.NONE, 2)
    assert harness.assigned("c") == LOWER


@behaviour("cg.regex.classic-member-has-none")
def test_a_classic_member_that_takes_the_place_of_one_with_a_pattern_has_none() -> None:
    harness = MigrationHarness().one()
    harness.join("s", subscribed_topics=None, subscribed_regex="fo.*", instance_id="instance-s")
    harness.resolve(**{"fo.*": ("foo",)})
    assert harness.consumer.resolved_regexes
    assert harness.rejoin(harness.client("s", static=True)).code is E.NONE
    assert harness.consumer.resolved_regexes == {}
    assert harness.consumer.regex_subscriptions == {}


@behaviour("cg.cm.write-fails")
def test_a_join_waits_for_records_of_the_log_that_are_not_committed() -> None:
    harness, client = founded_by_consumer()
    harness.log_delays_appends = True
    harness.handle(
        c.OffsetCommit(
            group_id=GROUP_ID,
            at_ms=harness.now_ms,
            member_id="m1",
            generation_id=2,
            offsets=(c.RequestedOffset("foo", 0, 1),),
        )
    )
    client.member_id = "c"
    joined = client.send_join()
    assert joined.is_pending
    harness.complete_append()
    assert joined.code is E.NONE


def test_a_join_is_refused_with_the_error_of_the_commit_that_it_has_waited_for() -> None:
    harness, client = founded_by_consumer()
    harness.log_delays_appends = True
    offsets = (c.RequestedOffset("foo", 0, 1),)
    harness.handle(
        c.OffsetCommit(group_id=GROUP_ID, at_ms=harness.now_ms, member_id="m1", generation_id=2, offsets=offsets)
    )
    client.member_id = "c"
    joined = client.send_join()
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert joined.response == join_error(E.NOT_COORDINATOR, "")


def test_a_join_group_does_not_bump_the_epoch_because_of_votes_for_assignors() -> None:
    """As Apache Kafka 4.4.0 does: its JoinGroup does not compare the elected assignors, its heartbeat does."""
    harness = MigrationHarness()
    harness.join("m1", server_assignor="uniform")
    harness.join("m2", instance_id="instance-s", server_assignor="range")
    harness.join("m3")
    client = harness.client("s", static=True)
    epoch = harness.epochs[0]
    assert harness.rejoin(client).response.generation_id == epoch
    assert harness.member("s").profile.server_assignor == "range"
    assert harness.epochs == (epoch, epoch)
