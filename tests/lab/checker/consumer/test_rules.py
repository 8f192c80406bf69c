"""The errors that requests to a group of the consumer protocol have to get, by the stored group."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import ClassicMetadata, ConsumerProfile, ReconciliationState
from regroup.coordinator.group import Group, MemberProfile
from regroup.coordinator.settings import CoordinatorSettings, MigrationPolicy
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.consumer.rules import (
    classic_error,
    commit_error,
    fetch_error,
    heartbeat_error,
    join_error,
    request_error,
    upgrade_error,
)
from regroup.lab.checker.consumer.stored_group import StoredGroup, StoredMember
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode as E

CLASSIC = ClassicMetadata(session_timeout_ms=1, supported_protocols=())


def group() -> StoredGroup:
    """Anna has epoch 5; she got partition 0 at epoch 2, and has to give up 1, which she got at epoch 4."""
    anna = StoredMember(ConsumerProfile(), 5, 4, assigned={("t", 0): 2}, pending={("t", 1): 4})
    away = StoredMember(ConsumerProfile(instance_id="d-1"), -2, 3, assigned={("t", 2): 0})
    here = StoredMember(ConsumerProfile(instance_id="h-1"), 5, 4)
    members = {"anna": anna, "carla": StoredMember(ConsumerProfile(classic=CLASSIC), 5), "dora": away, "henry": here}
    return StoredGroup(is_consumer=True, group_epoch=5, target_epoch=5, members=members)


def heartbeat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        group_id="g", at_ms=0, member_id=member_id, member_epoch=epoch, topics=NO_TOPICS, **fields
    )


def offsets(*partitions: int) -> tuple[c.RequestedOffset, ...]:
    return tuple(c.RequestedOffset("orders", each, 7, topic_id="t") for each in partitions)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (heartbeat("anna", 5), E.NONE),
        (heartbeat("anna", 6), E.FENCED_MEMBER_EPOCH),
        (heartbeat("anna", 4), E.FENCED_MEMBER_EPOCH),
        (heartbeat("anna", 4, owned={"t": (0,)}), E.NONE),
        (heartbeat("anna", 4, owned={"t": (0, 1)}), E.FENCED_MEMBER_EPOCH),
        (heartbeat("anna", 3, owned={}), E.FENCED_MEMBER_EPOCH),
        (heartbeat("anna", 0, owned={}), E.NONE),
        (heartbeat("ben", 5), E.UNKNOWN_MEMBER_ID),
        (heartbeat("ben", -1), E.UNKNOWN_MEMBER_ID),
        (heartbeat("anna", -1), E.NONE),
        (heartbeat("dora", 3, instance_id="d-1"), E.FENCED_MEMBER_EPOCH),
        (heartbeat("dora2", 0, instance_id="d-1"), E.NONE),
        (heartbeat("henry2", 0, instance_id="h-1"), E.UNRELEASED_INSTANCE_ID),
        (heartbeat("henry2", 5, instance_id="h-1"), E.FENCED_INSTANCE_ID),
        (heartbeat("henry", 5, instance_id="x-1"), E.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_error_of_a_heartbeat(command: ConsumerGroupHeartbeat, expected: E) -> None:
    assert heartbeat_error(group(), command, 100) is expected


def test_a_full_group_takes_no_further_member_but_a_process_of_one_that_it_has() -> None:
    assert heartbeat_error(group(), heartbeat("ben", 0), 4) is E.GROUP_MAX_SIZE_REACHED
    assert heartbeat_error(group(), heartbeat("dora2", 0, instance_id="d-1"), 4) is E.NONE


def test_only_a_join_finds_a_group_that_does_not_exist() -> None:
    assert heartbeat_error(StoredGroup(), heartbeat("anna", 0), 4) is E.NONE
    assert heartbeat_error(StoredGroup(), heartbeat("anna", 5), 4) is E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions", "expected"),
    [
        ("anna", 5, (0, 9), E.NONE),
        ("anna", 6, (0,), E.STALE_MEMBER_EPOCH),
        ("anna", 4, (0, 1), E.NONE),
        ("anna", 3, (0,), E.NONE),
        ("anna", 3, (0, 1), E.STALE_MEMBER_EPOCH),
        ("anna", 1, (0,), E.STALE_MEMBER_EPOCH),
        ("anna", 4, (9,), E.STALE_MEMBER_EPOCH),
        ("carla", 6, (0,), E.ILLEGAL_GENERATION),
        ("dora", 3, (2,), E.STALE_MEMBER_EPOCH),
        ("ben", 5, (0,), E.UNKNOWN_MEMBER_ID),
        ("", -1, (0,), E.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_error_of_a_commit(member_id: str, epoch: int, partitions: tuple[int, ...], expected: E) -> None:
    commit = c.OffsetCommit(
        group_id="g", at_ms=0, member_id=member_id, generation_id=epoch, offsets=offsets(*partitions)
    )
    assert commit_error(group(), commit) is expected


def test_an_empty_group_takes_commits_from_outside_and_none_of_a_former_member() -> None:
    empty = StoredGroup(is_consumer=True)
    outside = c.OffsetCommit(group_id="g", at_ms=0, member_id="anything", generation_id=-1, offsets=offsets(0))
    former = c.OffsetCommit(group_id="g", at_ms=0, member_id="anna", generation_id=5, offsets=offsets(0))
    assert (commit_error(empty, outside), commit_error(empty, former)) == (E.NONE, E.UNKNOWN_MEMBER_ID)


def test_a_transaction_need_not_name_a_member_and_an_old_client_gets_an_old_error() -> None:
    nameless = c.TxnOffsetCommit(group_id="g", at_ms=0, producer_id=1, offsets=offsets(0))
    stale = c.TxnOffsetCommit(
        group_id="g", at_ms=0, producer_id=1, member_id="anna", generation_id=9, offsets=offsets(0)
    )
    assert (commit_error(group(), nameless), commit_error(group(), stale)) == (E.NONE, E.ILLEGAL_GENERATION)


def test_an_old_version_of_the_commit_is_for_members_of_the_classic_protocol() -> None:
    old = c.OffsetCommit(
        group_id="g",
        at_ms=0,
        member_id="anna",
        generation_id=5,
        offsets=offsets(0),
        supports_group_id_not_found=False,
    )
    assert commit_error(group(), old) is E.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [(None, -1, E.NONE), ("anna", 5, E.NONE), ("anna", 4, E.STALE_MEMBER_EPOCH), ("ben", 5, E.UNKNOWN_MEMBER_ID)],
)
def test_the_error_of_a_fetch(member_id: str | None, epoch: int, expected: E) -> None:
    fetch = c.OffsetFetch(group_id="g", at_ms=0, partitions=None, member_id=member_id, member_epoch=epoch)
    assert fetch_error(group(), fetch) is expected


@pytest.mark.parametrize(
    ("member_id", "generation_id", "target_epoch", "heartbeat_error", "sync_error"),
    [
        ("carla", 5, 5, E.NONE, E.NONE),
        ("carla", 4, 5, E.ILLEGAL_GENERATION, E.ILLEGAL_GENERATION),
        ("carla", 5, 6, E.REBALANCE_IN_PROGRESS, E.REBALANCE_IN_PROGRESS),
        ("anna", 5, 5, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID),
        ("ben", 5, 5, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_error_of_a_member_of_the_classic_protocol(
    member_id: str, generation_id: int, target_epoch: int, heartbeat_error: E, sync_error: E
) -> None:
    known = group()
    known.target_epoch = target_epoch
    sent: dict[str, Any] = {"group_id": "g", "at_ms": 0, "member_id": member_id, "generation_id": generation_id}
    assert classic_error(known, c.Heartbeat(**sent)) is heartbeat_error
    assert classic_error(known, c.SyncGroup(**sent)) is sync_error


def test_a_member_that_waits_joins_again_when_nothing_keeps_it_waiting() -> None:
    known = group()
    carla = known.members["carla"]
    beat = c.Heartbeat(group_id="g", at_ms=0, member_id="carla", generation_id=5)
    carla.state, known.targets = ReconciliationState.UNRELEASED_PARTITIONS, {"carla": frozenset({("t", 1)})}
    assert classic_error(known, beat) is E.NONE, "anna has it"
    known.members["anna"].pending.clear()
    assert classic_error(known, beat) is E.REBALANCE_IN_PROGRESS
    carla.state, carla.pending = ReconciliationState.UNREVOKED_PARTITIONS, {("t", 5): 2}
    assert classic_error(known, beat) is E.REBALANCE_IN_PROGRESS


RANGE = SupportedProtocol("range", encode_subscription(Subscription(3, ("orders",))))
STICKY = SupportedProtocol("sticky", RANGE.metadata)
UNREADABLE = SupportedProtocol("range", b"?")


def mixed_group() -> StoredGroup:
    """As `group`; carla offers range."""
    mixed = group()
    mixed.members["carla"].profile = ConsumerProfile(
        classic=ClassicMetadata(session_timeout_ms=1, supported_protocols=(RANGE,))
    )
    return mixed


def join(
    member_id: str = "",
    *protocols: SupportedProtocol,
    instance_id: str | None = None,
    session_timeout_ms: int = 10_000,
    protocol_type: str = "consumer",
    **fields: Any,
) -> c.JoinGroup:
    profile = MemberProfile(
        instance_id=instance_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        supported_protocols=protocols or (RANGE,),
    )
    return c.JoinGroup(
        group_id="g", at_ms=0, member_id=member_id, new_member_id="n", protocol_type=protocol_type, profile=profile,
        **fields,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (join("carla"), E.NONE),
        (join("ben"), E.NONE),
        (join(), E.MEMBER_ID_REQUIRED),
        (join(supports_member_id_required=False), E.NONE),
        (join(session_timeout_ms=1), E.INVALID_SESSION_TIMEOUT),
        (join("ben", STICKY), E.INCONSISTENT_GROUP_PROTOCOL),
        (join("ben", STICKY, RANGE), E.NONE),
        (join("ben", RANGE, RANGE), E.INCONSISTENT_GROUP_PROTOCOL),
        (join("carla", UNREADABLE), E.INCONSISTENT_GROUP_PROTOCOL),
        (join("carla", protocol_type="connect"), E.INCONSISTENT_GROUP_PROTOCOL),
        (join(instance_id="h-1"), E.NONE),
        (join(instance_id="new-1"), E.NONE),
        (join("henry", instance_id="h-1"), E.NONE),
        (join("anna", instance_id="h-1"), E.FENCED_INSTANCE_ID),
        (join("anna", instance_id="x-1"), E.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_error_of_a_join_group(command: c.JoinGroup, expected: E) -> None:
    assert join_error(mixed_group(), command, CoordinatorSettings()) is expected


def test_a_join_group_finds_the_group_full_or_migration_disabled() -> None:
    full = CoordinatorSettings(group_consumer_max_size=4)
    assert join_error(mixed_group(), join("ben"), full) is E.GROUP_MAX_SIZE_REACHED
    assert join_error(mixed_group(), join(instance_id="h-1"), full) is E.NONE
    disabled = CoordinatorSettings(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    assert join_error(mixed_group(), join("carla"), disabled) is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_without_members_knows_no_member_id() -> None:
    empty = StoredGroup(is_consumer=True)
    expected = {"": E.MEMBER_ID_REQUIRED, "carla": E.UNKNOWN_MEMBER_ID}
    assert {each: join_error(empty, join(each), CoordinatorSettings()) for each in expected} == expected
    assert join_error(empty, join(instance_id="x-1"), CoordinatorSettings()) is E.NONE
    assert join_error(empty, join(protocol_type=""), CoordinatorSettings()) is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_group_names_the_first_assignor_that_was_offered() -> None:
    sync = c.SyncGroup(group_id="g", at_ms=0, member_id="carla", generation_id=5)
    named = {None: E.NONE, "range": E.NONE, "sticky": E.INCONSISTENT_GROUP_PROTOCOL}
    assert {each: classic_error(mixed_group(), replace(sync, protocol_name=each)) for each in named} == named
    assert classic_error(mixed_group(), replace(sync, protocol_type="connect")) is E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (heartbeat("anna", 5), E.NONE),
        (heartbeat("", 5), E.INVALID_REQUEST),
        (heartbeat("", 0), E.INVALID_REQUEST),
        (heartbeat("anna", 5, instance_id=" "), E.INVALID_REQUEST),
        (heartbeat("anna", -2), E.INVALID_REQUEST),
        (heartbeat("anna", -2, instance_id="a-1"), E.NONE),
        (heartbeat("anna", -3), E.INVALID_REQUEST),
        (heartbeat("anna", 0, owned={}, rebalance_timeout_ms=1, subscribed_regex="a"), E.NONE),
        (heartbeat("anna", 0, owned={"t": (0,)}, rebalance_timeout_ms=1, subscribed_regex="a"), E.INVALID_REQUEST),
        (heartbeat("anna", 0, owned={}, rebalance_timeout_ms=1), E.INVALID_REQUEST),
        (heartbeat("anna", 0, owned={}, subscribed_topics=()), E.INVALID_REQUEST),
        (heartbeat("anna", 5, server_assignor="range"), E.NONE),
        (heartbeat("anna", 5, server_assignor="sticky"), E.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_a_heartbeat_is_invalid_by_its_own_fields(command: ConsumerGroupHeartbeat, expected: E) -> None:
    assert request_error(command) == expected


def test_a_classic_group_with_members_changes_its_protocol_only_if_the_policy_allows_it() -> None:
    classic, joining = Group(group_id="g"), heartbeat("ben", 0, owned={})
    errors = {
        policy: upgrade_error(classic, joining, CoordinatorSettings(group_consumer_migration_policy=policy))
        for policy in MigrationPolicy
    }
    assert [policy for policy, error in errors.items() if not error] == ["bidirectional", "upgrade"]
    assert upgrade_error(classic, heartbeat("ben", 5), CoordinatorSettings()) == E.GROUP_ID_NOT_FOUND
