"""Members of the classic protocol in a group of the consumer protocol."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.coordinator.settings import MigrationPolicy
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import image, topic_id
from tests.coordinator.consumer.migration.migration_harness import (
    ALL,
    LOWER,
    UPPER,
    MigrationHarness,
    assigned_by,
    subscription,
)
from tests.coordinator.group_driver import GROUP_ID
from tests.coordinator.group_harness import behaviour
from tests.coordinator.simulated_client import SimulatedClient

E = ErrorCode


def founded_by_consumer(**settings: Any) -> tuple[MigrationHarness, SimulatedClient]:
    """m1 is the only member and has foo 0-5 at epoch 2; a classic client has not joined yet."""
    harness = MigrationHarness(**settings).one()
    client = harness.client("c", protocol_names=("range", "roundrobin"), metadata=subscription())
    return harness, client


# JoinGroup


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
