"""Invariants of the consumer protocol, judged by earlier responses and by the stored events."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator.commands import OffsetCommit, RequestedOffset
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.events import MemberSubscribed
from regroup.coordinator.consumer_group import ClassicMetadata, ConsumerProfile
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicsImage
from regroup.lab.checker.consumer import invariants as i
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.profiles import a_member_is_stored_as_it_describes_itself
from regroup.lab.checker.consumer.responses import violations_of_response
from regroup.lab.checker.consumer.stored_group import StoredMember
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.topic_ids import topic_id_bytes, topic_id_text

SETTINGS = CoordinatorSettings()
TOPIC = topic_id_text(bytes(15) + b"\x01")


def answer(member_id: str, epoch: int, *given: int) -> ConsumerGroupHeartbeatResponse:
    share = [ConsumerGroupTopicPartitions(topic_id=topic_id_bytes(TOPIC), partitions=list(given))]
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, assignment=ConsumerGroupAssignment(topic_partitions=share)
    )


def heartbeat(member_id: str, epoch: int, owned: tuple[int, ...] | None = None) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        group_id="g",
        at_ms=0,
        member_id=member_id,
        member_epoch=epoch,
        owned=None if owned is None else {TOPIC: owned},
        topics=TopicsImage(),
    )


def exchange(command: Any, response: Any = None) -> Any:
    return SimpleNamespace(group_id="g", command=command, response=response, before=SimpleNamespace(consumer=None))


def groups() -> ConsumerGroups:
    """Responses have assigned 0 and 1 to anna at epoch 2, and then 0 alone."""
    made = ConsumerGroups()
    made.on_heartbeat(heartbeat("anna", 0, ()), answer("anna", 2, 0, 1))
    made.on_heartbeat(heartbeat("anna", 2), answer("anna", 2, 0))
    return made


def test_a_partition_is_not_free_until_its_owner_has_reported_without_it() -> None:
    known, joining = groups(), exchange(heartbeat("ben", 0, ()), answer("ben", 3, 1))
    assert "anna has not released it" in (i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) or "")
    known.on_heartbeat(heartbeat("anna", 2), answer("anna", 2, 0))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS)
    known.on_heartbeat(heartbeat("anna", 2, (0,)), answer("anna", 3, 0))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) is None


def test_of_several_partitions_that_are_not_free_the_first_one_is_named() -> None:
    known, numbers = ConsumerGroups(), tuple(range(40))
    known.on_heartbeat(heartbeat("anna", 0, ()), answer("anna", 2, *numbers))
    joining = exchange(heartbeat("ben", 0, ()), answer("ben", 3, *numbers))
    found = i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS)
    assert found == f"partition 0 of topic {TOPIC} is assigned to ben, and anna has not released it"


def test_a_partition_is_free_once_its_owner_has_released_it_whatever_it_was_answered() -> None:
    known, joining = groups(), exchange(heartbeat("ben", 0, ()), answer("ben", 3, 1))
    for owned in (None, (0, 1)):
        known.on_release(heartbeat("anna", 2, owned))
        assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS)
    known.on_release(heartbeat("anna", 2, (0,)))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) is None


@pytest.mark.parametrize(("event_number", "is_free"), [(7, True), (6, False)], ids=["released", "refused"])
def test_a_release_counts_though_its_refusal_comes_after_later_responses(event_number: int, is_free: bool) -> None:
    """Kafka's log has delayed the refusal. Without an event the heartbeat has released nothing."""
    known, joining = groups(), exchange(heartbeat("ben", 0, ()), answer("ben", 3, 1))
    known.group("g").exchange_number = 5
    late = exchange(heartbeat("anna", 2, (0,)), answer("anna", 2))
    late.exchange_number, late.error_code = 4, ErrorCode.NOT_COORDINATOR
    late.before, late.after = SimpleNamespace(event_number=6), SimpleNamespace(event_number=event_number)
    assert [*violations_of_response(known, late, SETTINGS)] == []
    assert (i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) is None) is is_free


def test_a_partition_is_free_once_the_member_that_was_answered_it_is_fenced_and_the_store_has_it_no_more() -> None:
    known, joining = groups(), exchange(heartbeat("ben", 0, ()), answer("ben", 3, 1))
    known.group("g").stored.members["anna"] = StoredMember(ConsumerProfile(), assigned={(TOPIC, 1): 2})
    known.on_fenced(heartbeat("anna", 2))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS), "the coordinator keeps it for anna"
    known.group("g").stored.members["anna"].assigned = {(TOPIC, 0): 2}
    known.on_fenced(heartbeat("anna", 1))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS), "an old epoch is not anna's"
    known.on_fenced(heartbeat("anna", 2))
    assert i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) is None


@pytest.mark.parametrize("is_classic", [False, True], ids=["consumer", "classic"])
def test_a_partition_is_free_once_the_member_that_was_answered_it_joins_by_the_classic_protocol(
    is_classic: bool,
) -> None:
    known, joining = groups(), exchange(heartbeat("ben", 0, ()), answer("ben", 3, 1))
    classic = ClassicMetadata(session_timeout_ms=1, supported_protocols=()) if is_classic else None
    joined = MemberSubscribed(at_ms=0, member_id="anna", profile=ConsumerProfile(classic=classic))
    known.group("g").stored.is_consumer = True
    known.on_stored(encode_event("g", 1, 1, joined, None), joined)
    known.proceed("g")
    is_free = i.a_partition_is_free_before_it_is_assigned(known, joining, SETTINGS) is None
    assert is_free == is_classic


def test_the_present_epoch_and_the_one_before_are_accepted_and_no_other() -> None:
    known = groups()
    known.on_heartbeat(heartbeat("anna", 2, (0,)), answer("anna", 3, 0))
    known.on_heartbeat(heartbeat("anna", 3), answer("anna", 4, 0))
    accepted = [
        i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("anna", epoch)), SETTINGS) for epoch in (4, 3)
    ]
    assert accepted == [None, None]
    assert i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("anna", 2)), SETTINGS)
    assert i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("ben", 2)), SETTINGS)


def test_the_epoch_before_a_join_may_be_that_of_a_join_that_was_answered_with_an_error() -> None:
    known = groups()
    known.on_heartbeat(heartbeat("anna", 0), answer("anna", 6))
    assert i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("anna", 1)), SETTINGS)
    known.group("g").before = StoredMember(DESCRIBED, epoch=6, previous_epoch=1)
    assert i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("anna", 1)), SETTINGS) is None
    assert i.only_a_present_epoch_is_accepted(known, exchange(heartbeat("anna", 2)), SETTINGS)


def test_a_full_heartbeat_gets_its_assignment_and_a_short_one_need_not() -> None:
    named = {"subscribed_topics": ("orders",), "rebalance_timeout_ms": 5_000}
    full = replace(heartbeat("anna", 2, (0,)), **named)
    bare = ConsumerGroupHeartbeatResponse(member_id="anna", member_epoch=2)
    assert i.a_full_heartbeat_gets_its_assignment(groups(), exchange(full, bare), SETTINGS)
    assert i.a_full_heartbeat_gets_its_assignment(groups(), exchange(full, answer("anna", 2, 0)), SETTINGS) is None
    for short in (heartbeat("anna", 2, (0,)), replace(heartbeat("anna", 2), **named)):
        assert i.a_full_heartbeat_gets_its_assignment(groups(), exchange(short, bare), SETTINGS) is None


DESCRIBED = ConsumerProfile(rebalance_timeout_ms=5_000, session_timeout_ms=45_000, subscribed_topics=("orders",))


def stored_as(**fields: Any) -> ConsumerGroups:
    """Anna, who described herself with an earlier heartbeat, and is stored with these fields after a short one."""
    known = groups()
    known.group("g").before = StoredMember(DESCRIBED)
    known.group("g").stored.members["anna"] = StoredMember(replace(DESCRIBED, **fields))
    return known


def test_a_short_heartbeat_leaves_a_member_as_it_has_described_itself() -> None:
    short = exchange(heartbeat("anna", 2), answer("anna", 2))
    assert a_member_is_stored_as_it_describes_itself(stored_as(), short, SETTINGS) is None
    for name, value in (("rebalance_timeout_ms", -1), ("subscribed_topics", ()), ("instance_id", "anna-1")):
        found = a_member_is_stored_as_it_describes_itself(stored_as(**{name: value}), short, SETTINGS)
        assert (found or "").startswith(f"anna has {name} {value!r}")


def test_a_member_is_stored_with_what_its_heartbeat_changes() -> None:
    told = exchange(replace(heartbeat("anna", 2), subscribed_topics=("b", "a", "b"), rack_id="r"), answer("anna", 2))
    described = stored_as(subscribed_topics=("a", "b"), rack_id="r")
    assert a_member_is_stored_as_it_describes_itself(described, told, SETTINGS) is None
    assert a_member_is_stored_as_it_describes_itself(stored_as(rack_id="r"), told, SETTINGS)
    other = CoordinatorSettings(group_consumer_session_timeout_ms=50_000)
    assert "session_timeout_ms" in (a_member_is_stored_as_it_describes_itself(described, told, other) or "")


def test_an_older_epoch_commits_what_the_member_has_had_since_then() -> None:
    known = groups()
    known.on_heartbeat(heartbeat("anna", 2, (0,)), answer("anna", 3, 0, 2))

    def violation(epoch: int, partition: int) -> str | None:
        offsets = (RequestedOffset("orders", partition, 5, topic_id=TOPIC),)
        commit = OffsetCommit(group_id="g", at_ms=0, member_id="anna", generation_id=epoch, offsets=offsets)
        return i.a_commit_names_a_present_epoch(known, exchange(commit), SETTINGS)

    assert [violation(3, 2), violation(2, 0)] == [None, None]
    assert violation(2, 2) == "epoch 2 for orders-2, assigned at 3"
    assert violation(2, 1) == "epoch 2 for orders-1, assigned at None"
    assert violation(4, 0) == "epoch 4 of anna, whose epoch is 3"


@pytest.mark.parametrize(("epoch", "found"), [(15, None), (14, "anna is not a member")])
def test_a_member_whose_heartbeats_got_errors_alone_commits_with_its_stored_epoch(
    epoch: int, found: str | None
) -> None:
    """As one that has changed its protocol while Kafka's log refuses records."""
    known = ConsumerGroups()
    commit = exchange(OffsetCommit(group_id="g", at_ms=0, member_id="anna", generation_id=epoch, offsets=()))
    assert i.a_commit_names_a_present_epoch(known, commit, SETTINGS) == "anna is not a member"
    known.group("g").stored.members["anna"] = StoredMember(DESCRIBED, epoch=15)
    assert i.a_commit_names_a_present_epoch(known, commit, SETTINGS) == found


def test_how_long_a_member_that_was_a_classic_one_has_had_its_partitions_is_not_judged() -> None:
    known = ConsumerGroups()
    classic = ClassicMetadata(session_timeout_ms=1, supported_protocols=())
    known.group("g").before = StoredMember(replace(DESCRIBED, classic=classic))
    known.on_heartbeat(heartbeat("anna", 2), answer("anna", 3, 1))
    commit = OffsetCommit(
        group_id="g",
        at_ms=0,
        member_id="anna",
        generation_id=2,
        offsets=(RequestedOffset("orders", 1, 5, topic_id=TOPIC),),
    )
    assert i.a_commit_names_a_present_epoch(known, exchange(commit), SETTINGS) is None


def test_a_member_of_a_classic_group_that_was_upgraded_has_had_its_partitions_before() -> None:
    """Its heartbeat shows them with the epoch of the upgrade; stored is the generation in which it got them."""
    known = ConsumerGroups()
    known.on_heartbeat(heartbeat("anna", 0), answer("anna", 3, 1))
    offsets = (RequestedOffset("orders", 1, 5, topic_id=TOPIC),)
    commit = exchange(OffsetCommit(group_id="g", at_ms=0, member_id="anna", generation_id=2, offsets=offsets))
    assert i.a_commit_names_a_present_epoch(known, commit, SETTINGS) == "epoch 2 for orders-1, assigned at 3"
    known.group("g").stored.members["anna"] = StoredMember(DESCRIBED, epoch=3, assigned={(TOPIC, 1): 2})
    assert i.a_commit_names_a_present_epoch(known, commit, SETTINGS) is None


def test_a_join_begins_another_life_in_which_epochs_count_anew() -> None:
    known = groups()
    back = exchange(heartbeat("anna", 2), answer("anna", 1))
    assert i.epochs_of_a_member_never_run_back(known, back, SETTINGS) == "anna has epoch 2, and the response 1"
    rejoined = exchange(heartbeat("anna", 0, ()), answer("anna", 1))
    assert i.epochs_of_a_member_never_run_back(known, rejoined, SETTINGS) is None


def test_a_late_response_counts_if_its_member_is_still_there() -> None:
    known = ConsumerGroups()
    known.on_late_heartbeat(heartbeat("anna", 0, ()), answer("anna", 2, 0))
    assert not known.group("g").members
    known.group("g").stored.members["anna"] = StoredMember(ConsumerProfile(), epoch=2)
    known.on_late_heartbeat(heartbeat("anna", 0, ()), answer("anna", 2, 0))
    assert known.group("g").members["anna"].held == {(TOPIC, 0)}
