"""Invariants of the stored records alone, which `regroup verify` checks, too."""

import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.evolve import EVOLVERS
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, JoinPhase, Member, MemberProfile
from regroup.coordinator.invariants import (
    a_commit_comes_from_a_member,
    a_phase_lasts_as_long_as_its_members_allow,
    a_removed_member_is_no_member,
    generations_grow,
    invariant_sentence,
    members_of_a_generation_have_joined,
    violations_of_step,
)
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.verification import GroupsVerifier, a_coordinator_epoch_begins_with_a_load
from tests.lab.checker.checker_harness import GROUP


def joined_group() -> Group:
    group = EVOLVERS[e.GroupCreated](Group(group_id="g"), e.GroupCreated(at_ms=1, by_join=True))
    joined = e.MemberJoined(
        at_ms=1,
        member_id="anna",
        protocol_type="consumer",
        profile=MemberProfile(
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            supported_protocols=(SupportedProtocol("range"),),
        ),
    )
    return EVOLVERS[e.MemberJoined](group, joined)


def test_a_commit_of_an_unknown_member_is_found() -> None:
    group = replace(joined_group(), state=GroupState.STABLE)
    commit = e.OffsetsCommitted(at_ms=1, member_id="zoe", offsets={})
    after = replace(group, event_number=group.event_number + 1)
    assert violations_of_step(group, commit, after) == [invariant_sentence(a_commit_comes_from_a_member)]
    assert violations_of_step(group, replace(commit, member_id="anna"), after) == []
    assert (
        violations_of_step(replace(group, state=GroupState.EMPTY), commit, replace(after, state=GroupState.EMPTY)) == []
    )


def test_a_removed_member_that_stays_is_found() -> None:
    group = joined_group()
    after = replace(group, event_number=group.event_number + 1)
    removed = e.MemberRemoved(at_ms=1, member_id="anna")
    assert violations_of_step(group, removed, after) == [invariant_sentence(a_removed_member_is_no_member)]
    assert violations_of_step(group, removed, replace(after, members={})) == []


@pytest.mark.parametrize(("epochs", "is_sound"), [((1, 1), True), ((1, 2), False), ((2, 1), False)])
def test_another_coordinator_epoch_without_a_load_is_found(epochs: tuple[int, int], is_sound: bool) -> None:
    created = e.GroupCreated(at_ms=1, by_join=True)
    pending = e.PendingMemberAdded(at_ms=2, member_id="anna", client_id="c", session_timeout_ms=10_000)
    records = [encode_event("g", 1, epochs[0], created, None), encode_event("g", 2, epochs[1], pending, None)]
    verifier = GroupsVerifier()
    violations = [
        violation.sentence
        for position, record in enumerate(records, 1)
        for violation in verifier.violations_of(record.stored_at(position))
    ]
    assert violations == ([] if is_sound else [invariant_sentence(a_coordinator_epoch_begins_with_a_load)])


def test_a_load_begins_a_new_coordinator_epoch() -> None:
    created = e.GroupCreated(at_ms=1, by_join=True)
    loaded = e.CoordinatorLoaded(at_ms=2, subscribed_topics=())
    records = [encode_event("g", 1, 1, created, None), encode_event("g", 2, 5, loaded, None)]
    verifier = GroupsVerifier()
    assert [
        violation
        for position, record in enumerate(records, 1)
        for violation in verifier.violations_of(record.stored_at(position))
    ] == []


def preparing(**awaiting: AwaitedResponse | None) -> Group:
    members = {
        name: Member(
            member_id=name,
            profile=MemberProfile(
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                supported_protocols=(SupportedProtocol("range"),),
            ),
            awaiting=kind,
        )
        for name, kind in awaiting.items()
    }
    return Group(
        group_id=GROUP, state=GroupState.PREPARING_REBALANCE, generation_id=3, members=members, leader_id="anna"
    )


def started(generation: int = 4, sync_deadline_ms: int = 60_001) -> e.GenerationStarted:
    return e.GenerationStarted(
        at_ms=1,
        generation_id=generation,
        protocol_name="range",
        leader_id="anna",
        subscribed_topics=(),
        sync_deadline_ms=sync_deadline_ms,
    )


def violated(before: Group, event: e.Event, **changes: object) -> list[str]:
    changed = replace(before, event_number=before.event_number + 1, **changes)
    return violations_of_step(before, event, changed)


def test_a_dynamic_member_in_a_generation_that_it_did_not_join_is_found() -> None:
    before = preparing(anna=AwaitedResponse.JOIN, ben=None)
    after = {"state": GroupState.COMPLETING_REBALANCE, "generation_id": 4}
    assert violated(before, started(), **after) == [invariant_sentence(members_of_a_generation_have_joined)]
    ben = before.members["ben"]
    static = replace(ben, profile=replace(ben.profile, instance_id="ben-1"))
    assert violated(replace(before, members=before.members | {"ben": static}), started(), **after) == []


def test_a_generation_that_does_not_grow_at_the_end_of_a_join_phase_is_found() -> None:
    before = preparing()
    emptied = e.GroupEmptied(at_ms=1, generation_id=3)
    assert violated(before, emptied, state=GroupState.EMPTY) == [invariant_sentence(generations_grow)]
    assert violated(before, e.PendingMemberRemoved(at_ms=1, member_id="zoe"), generation_id=4) == [
        invariant_sentence(generations_grow)
    ]


@pytest.mark.parametrize(
    ("event", "is_sound"),
    [
        (e.RebalanceStarted(at_ms=1, deadline_ms=60_001), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=90_001), False),
        (e.RebalanceStarted(at_ms=1, deadline_ms=3_001, is_initial=True, delay_ms=3_000), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=1, is_initial=True), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseExtended(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseExtended(at_ms=1, deadline_ms=60_001), True),
        (e.JoinPhaseExtended(at_ms=1, deadline_ms=1), False),
    ],
)
def test_a_phase_that_lasts_too_long_or_too_short_is_found(event: e.Event, is_sound: bool) -> None:
    expected = [] if is_sound else [invariant_sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert violated(preparing(anna=AwaitedResponse.JOIN), event) == expected


def test_an_initial_delay_of_0_is_extended_by_0() -> None:
    before = replace(preparing(anna=AwaitedResponse.JOIN), join_phase=JoinPhase(deadline_ms=1, is_initial=True))
    assert violated(before, e.JoinPhaseExtended(at_ms=1, deadline_ms=1)) == []


@pytest.mark.parametrize("delay_ms", [0, 2_000])
def test_an_initial_phase_may_be_extended_by_the_delay_even_if_that_is_0(delay_ms: int) -> None:
    group = replace(preparing(anna=AwaitedResponse.JOIN), join_phase=JoinPhase(0, is_initial=True, delay_ms=delay_ms))
    assert violated(group, e.JoinPhaseExtended(at_ms=1, deadline_ms=1 + delay_ms, delay_ms=delay_ms)) == []


def test_a_sync_phase_that_lasts_too_long_is_found() -> None:
    before = preparing(anna=AwaitedResponse.JOIN)
    after = {"state": GroupState.COMPLETING_REBALANCE, "generation_id": 4}
    expected = [invariant_sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert violated(before, started(sync_deadline_ms=99_999), **after) == expected
