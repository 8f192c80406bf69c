"""What the lab says of the vote, the leader and the initial delay, from Kafka's rules and not from the coordinator."""

import pytest

from regroup.coordinator import events as e
from regroup.coordinator.group import AwaitedResponse, GroupState, MemberProfile
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.checker.classic import events as rules
from regroup.lab.checker.classic.stored_group import StoredClassicGroup
from regroup.lab.checker.classic.stored_members import StoredClassicMember, StoredJoinPhase

SETTINGS = CoordinatorSettings(group_initial_rebalance_delay_ms=3_000)


def member(*names: str, instance_id: str | None = None, has_joined: bool = True) -> StoredClassicMember:
    profile = MemberProfile(
        instance_id=instance_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        supported_protocols=tuple(SupportedProtocol(each, b"") for each in names),
    )
    return StoredClassicMember(profile, awaiting=AwaitedResponse.JOIN if has_joined else None)


def sentences(group: StoredClassicGroup, event: e.Event) -> list[str]:
    return [sentence for sentence, _ in rules.event_violations(group, event, SETTINGS)]


def joining(**members: StoredClassicMember) -> StoredClassicGroup:
    """A group whose join phase has reached its deadline, at 60 s; the first member leads."""
    phase = StoredJoinPhase(60_000, is_initial=False, delay_ms=0, remaining_ms=0)
    return StoredClassicGroup(
        state=GroupState.PREPARING_REBALANCE, members=members, leader_id=next(iter(members)), phase=phase
    )


def generation(leader_id: str = "anna", protocol_name: str = "range", at_ms: int = 60_000) -> e.GenerationStarted:
    return e.GenerationStarted(
        at_ms=at_ms,
        generation_id=2,
        protocol_name=protocol_name,
        leader_id=leader_id,
        subscribed_topics=(),
        sync_deadline_ms=at_ms + 60_000,
    )


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        ([("range",)], "range"),
        ([("range", "sticky"), ("sticky", "range"), ("sticky", "range")], "sticky"),
        ([("range", "sticky"), ("sticky",)], "sticky"),
        ([("range", "roundrobin"), ("roundrobin", "range")], "range"),
        ([("range", "cooperative-sticky"), ("cooperative-sticky", "range")], "range"),
        ([("a", "a", "b"), ("a", "b")], "b"),
        ([("a",), ("b",)], None),
    ],
)
def test_the_vote_of_kafka_is_computed(lists: list[tuple[str, ...]], chosen: str | None) -> None:
    assert rules.chosen_protocol([member(*each) for each in lists]) == chosen


def test_a_right_generation_violates_nothing() -> None:
    assert sentences(joining(anna=member("range")), generation()) == []


def test_another_assignor_than_the_vote_gives_is_found() -> None:
    assert sentences(joining(anna=member("range", "sticky")), generation(protocol_name="sticky")) == [rules.VOTE]


def test_another_leader_than_before_is_found() -> None:
    group = joining(anna=member("range"), ben=member("range"))
    assert sentences(group, generation("ben")) == [rules.LEADER_STAYS]
    assert sentences(group, e.LeaderElected(leader_id="ben")) == [rules.LEADER_HAS_JOINED]


def test_a_leader_that_has_not_joined_is_found() -> None:
    group = joining(anna=member("range", instance_id="a", has_joined=False), ben=member("range"))
    assert sentences(group, generation("anna")) == [rules.LEADER_HAS_JOINED]


def test_a_join_phase_that_ends_before_all_have_joined_is_found() -> None:
    group = joining(anna=member("range"), ben=member("range", has_joined=False))
    assert sentences(group, generation(at_ms=59_999)) == [rules.JOIN_PHASE_WAITS]


@pytest.mark.parametrize(
    ("lasts_ms", "remaining_ms", "is_right"), [(3_000, 57_000, True), (3_000, 60_000, False), (60_000, 0, False)]
)
def test_the_first_join_phase_lasts_for_the_initial_delay(lasts_ms: int, remaining_ms: int, is_right: bool) -> None:
    group = StoredClassicGroup(state=GroupState.EMPTY, members={"anna": member("range")}, leader_id="anna")
    event = e.RebalanceStarted(deadline_ms=lasts_ms, is_initial=True, delay_ms=lasts_ms, remaining_ms=remaining_ms)
    assert (sentences(group, event) == []) is is_right


@pytest.mark.parametrize(
    ("lasts_ms", "remaining_ms", "is_right"), [(3_000, 54_000, True), (3_000, 57_000, False), (1_000, 54_000, False)]
)
def test_the_initial_delay_is_extended_until_its_time_is_up(lasts_ms: int, remaining_ms: int, is_right: bool) -> None:
    group = joining(anna=member("range"))
    group.phase, group.has_newcomers = StoredJoinPhase(60_000, True, 3_000, 57_000), True
    event = e.JoinPhaseExtended(
        at_ms=60_000, deadline_ms=60_000 + lasts_ms, delay_ms=lasts_ms, remaining_ms=remaining_ms
    )
    assert (sentences(group, event) == []) is is_right
    assert sentences(group, generation()) == [rules.INITIAL_DELAY]


@pytest.mark.parametrize(
    ("api", "by_join", "is_found"),
    [
        ("JoinGroup", True, False),
        ("JoinGroup", False, True),
        ("OffsetCommit", False, False),
        ("TxnOffsetCommit", True, True),
        ("", True, False),
    ],
)
def test_only_a_group_that_joingroup_creates_has_metadata(api: str, by_join: bool, is_found: bool) -> None:
    found = [sentence for sentence, _ in rules.creation_violations(e.GroupCreated(at_ms=1, by_join=by_join), api)]
    assert found == ([rules.METADATA_COMES_WITH_A_JOIN] if is_found else [])
