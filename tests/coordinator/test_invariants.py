"""Every invariant can be broken: an invalid group is reported with the invariant's own sentence."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator import invariants
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupState,
    JoinPhase,
    Member,
    MemberProfile,
    PendingJoinMember,
)
from regroup.coordinator.invariants import (
    EVERY_STEP_INVARIANTS,
    GROUP_INVARIANTS,
    MANY_MEMBERS,
    SOME_STEP_INVARIANTS,
    StepInvariant,
    invariant_sentence,
    violations_of_group,
    violations_of_step,
    violations_since,
)
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment

AT_MS = 1_000


def member(name: str, *partitions: int) -> Member:
    assignment = encode_assignment(Assignment(3, tuple(TopicPartition("orders", number) for number in partitions)))
    return Member(
        member_id=name,
        profile=MemberProfile(
            session_timeout_ms=10_000, rebalance_timeout_ms=60_000, supported_protocols=(SupportedProtocol("range"),)
        ),
        assignment=assignment,
    )


def stable_group() -> Group:
    """A Stable group of the leader anna and the follower ben, as the log holds it."""
    members = {each.member_id: each for each in (member("anna", 0, 1), member("ben", 2))}
    group = Group(
        group_id="g",
        state=GroupState.STABLE,
        generation_id=2,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="anna",
        members=members,
    )
    return evolve(group, e.GroupMetadataWritten(at_ms=AT_MS))


BROKEN: dict[Callable[[Group], bool], Callable[[Group], Group]] = {
    invariants.a_generation_has_one_leader_and_it_is_a_member: lambda group: replace(group, leader_id="unknown"),
    invariants.responses_are_held_only_during_their_phase: lambda group: replace(
        group, members=group.members | {"ben": replace(group.members["ben"], awaiting=AwaitedResponse.JOIN)}
    ),
    invariants.a_join_phase_runs_only_in_preparing_rebalance: lambda group: replace(group, join_phase=JoinPhase(AT_MS)),
    invariants.an_empty_group_has_no_members: lambda group: replace(group, state=GroupState.EMPTY),
    invariants.a_pending_member_id_is_no_member: lambda group: replace(
        group, pending_join_members={"ben": PendingJoinMember(1, 1)}
    ),
    invariants.every_instance_id_names_its_member: lambda group: replace(group, static_members={"i1": "ben"}),
    invariants.every_member_supports_the_selected_protocol: lambda group: replace(group, protocol_name="sticky"),
    invariants.a_stable_group_is_what_the_log_holds: lambda group: replace(group, group_metadata=None),
}


def test_a_valid_group_breaks_no_invariant() -> None:
    assert violations_of_group(stable_group(), BROKEN) == []


@pytest.mark.parametrize("invariant", BROKEN, ids=lambda each: each.__name__)
def test_an_invalid_group_breaks_its_invariant(invariant: Callable[[Group], bool]) -> None:
    invalid = BROKEN[invariant](stable_group())
    assert invariant_sentence(invariant) in violations_of_group(invalid, BROKEN)


@pytest.mark.parametrize("invariant", BROKEN, ids=lambda each: each.__name__)
def test_a_group_that_was_sound_before_is_found_to_break_the_same_invariants(
    invariant: Callable[[Group], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "MANY_MEMBERS", 0)  # small groups would be checked in full
    sound = stable_group()
    invalid = BROKEN[invariant](sound)
    assert violations_since(sound, invalid) == violations_of_group(invalid)


CHANGED_MEMBERS: dict[str, Callable[[Member], Member]] = {
    "a held JoinGroup": lambda member: replace(member, awaiting=AwaitedResponse.JOIN),
    "a held SyncGroup": lambda member: replace(member, awaiting=AwaitedResponse.SYNC),
    "another assignment": lambda member: replace(member, assignment=b"other"),
    "an instance id": lambda member: replace(member, profile=replace(member.profile, instance_id="i9")),
    "no protocol": lambda member: replace(member, profile=replace(member.profile, supported_protocols=())),
}


@pytest.mark.parametrize("change", CHANGED_MEMBERS.values(), ids=CHANGED_MEMBERS)
def test_one_changed_member_of_a_sound_group_is_found(
    change: Callable[[Member], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "MANY_MEMBERS", 0)
    sound = stable_group()
    for member in sound.members.values():
        invalid = sound.with_member(change(member))
        found = violations_since(sound, invalid)
        assert found
        assert found == violations_of_group(invalid)


def test_a_member_that_a_large_stable_group_has_lost_is_found() -> None:
    members = {name: member(name) for name in ("anna", *(f"m{number}" for number in range(MANY_MEMBERS)))}
    sound = evolve(replace(stable_group(), members=members), e.GroupMetadataWritten(at_ms=AT_MS))
    invalid = replace(sound, members={name: each for name, each in members.items() if name != "m7"})
    assert violations_of_group(sound) == []
    assert violations_since(sound, invalid) == [invariant_sentence(invariants.a_stable_group_is_what_the_log_holds)]


@pytest.mark.parametrize("later", ["ben", "carl"])
def test_two_members_of_one_instance_id_are_found(later: str) -> None:
    profile = replace(member("anna").profile, instance_id="i1")
    members = {name: replace(member(name), profile=profile) for name in ("anna", "ben", "carl") if name <= later}
    group = replace(stable_group(), members=members, static_members={"i1": later})
    assert invariant_sentence(invariants.every_instance_id_names_its_member) in violations_of_group(group)


def test_every_invariant_of_groups_has_a_group_that_breaks_it() -> None:
    assert set(GROUP_INVARIANTS) <= set(BROKEN)


def test_a_generation_that_grows_by_two_is_found() -> None:
    before = replace(stable_group(), state=GroupState.PREPARING_REBALANCE)
    event = e.GroupEmptied(at_ms=AT_MS, generation_id=4)
    assert invariant_sentence(invariants.generations_grow) in violations_of_step(before, event, evolve(before, event))


def test_an_illegal_transition_is_found() -> None:
    before = stable_group()
    event = e.GroupEmptied(at_ms=AT_MS, generation_id=3)
    assert violations_of_step(before, event, evolve(before, event)) == [
        invariant_sentence(invariants.a_transition_is_legal)
    ]


def test_a_load_that_restores_more_than_was_stored_is_found() -> None:
    before = replace(stable_group(), group_metadata=None)
    event = e.CoordinatorLoaded(at_ms=AT_MS, subscribed_topics=())
    after = replace(before, event_number=before.event_number + 1)
    assert invariant_sentence(invariants.a_load_restores_what_was_stored) in violations_of_step(before, event, after)


def test_a_missing_event_number_is_found() -> None:
    before = stable_group()
    event = e.GroupMetadataWritten(at_ms=AT_MS)
    after = replace(evolve(before, event), event_number=before.event_number + 2)
    assert violations_of_step(before, event, after) == [invariant_sentence(invariants.event_numbers_have_no_gap)]


@pytest.mark.parametrize("invariant", SOME_STEP_INVARIANTS, ids=lambda each: each.__name__)
def test_an_invariant_of_some_events_accepts_every_other_event(invariant: StepInvariant) -> None:
    before = replace(stable_group(), members={}, leader_id=None)  # no event fits it
    others = (e.CoordinatorLoaded(subscribed_topics=()), e.GroupEmptied(generation_id=3), e.GroupDeleted())
    for event in (each for each in others if type(each) not in SOME_STEP_INVARIANTS[invariant]):
        assert invariant(before, event, evolve(before, event))


def test_every_invariant_has_one_sentence() -> None:
    for each in (*GROUP_INVARIANTS, *EVERY_STEP_INVARIANTS, *SOME_STEP_INVARIANTS):
        sentence = invariant_sentence(each)
        assert sentence.endswith(".")
        assert "\n" not in sentence
