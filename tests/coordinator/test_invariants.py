"""Every invariant can be broken: a group made wrong on purpose is told so, in the invariant's own sentence."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator import invariants
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, JoinPhase, Member, Protocol, ReservedId, State, Waiting
from regroup.coordinator.invariants import OF_GROUPS, OF_STEPS, broken_by_group, broken_by_step, sentence
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment

AT_MS = 1_000


def member(name: str, *partitions: int) -> Member:
    share = encode_assignment(Assignment(3, tuple(TopicPartition("orders", number) for number in partitions)))
    return Member(
        member_id=name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=(Protocol("range"),),
        assignment=share,
    )


def stable_group() -> Group:
    """Anna leads, Ben follows, and the log holds it like this."""
    members = {each.member_id: each for each in (member("anna", 0, 1), member("ben", 2))}
    group = Group(
        name="g",
        state=State.STABLE,
        generation=2,
        protocol_type="consumer",
        protocol_name="range",
        leader="anna",
        members=members,
    )
    return evolve(group, e.GroupStored(at_ms=AT_MS))


BROKEN: dict[Callable[[Group], bool], Callable[[Group], Group]] = {
    invariants.a_generation_has_one_leader_and_it_is_a_member: lambda group: replace(group, leader="zoe"),
    invariants.only_a_group_between_generations_waits_for_joins: lambda group: replace(
        group, members=group.members | {"ben": replace(group.members["ben"], waiting=Waiting.JOIN)}
    ),
    invariants.a_join_phase_runs_exactly_while_the_group_prepares: lambda group: replace(
        group, join_phase=JoinPhase(AT_MS)
    ),
    invariants.an_empty_group_has_no_members: lambda group: replace(group, state=State.EMPTY),
    invariants.a_reserved_id_is_no_member: lambda group: replace(group, reserved_ids={"ben": ReservedId(1, 1)}),
    invariants.every_instance_id_names_its_member: lambda group: replace(group, static_members={"i1": "ben"}),
    invariants.a_generation_works_with_a_protocol_that_all_support: lambda group: replace(
        group, protocol_name="sticky"
    ),
    invariants.a_stable_group_is_what_the_log_holds: lambda group: replace(group, stored=None),
    invariants.one_owner_per_partition: lambda group: replace(
        group, members=group.members | {"ben": member("ben", 1, 2)}
    ),
}


def test_a_sound_group_breaks_nothing() -> None:
    assert broken_by_group(stable_group(), BROKEN) == []


@pytest.mark.parametrize("invariant", BROKEN, ids=lambda each: each.__name__)
def test_a_group_made_wrong_breaks_the_invariant_that_speaks_of_it(invariant: Callable[[Group], bool]) -> None:
    wrong = BROKEN[invariant](stable_group())
    assert sentence(invariant) in broken_by_group(wrong, BROKEN)


def test_every_invariant_of_groups_has_a_group_that_breaks_it() -> None:
    assert set(OF_GROUPS) <= set(BROKEN)


def test_shares_that_are_not_of_the_consumer_protocol_have_no_owner() -> None:
    group = stable_group()
    opaque = replace(group, members={"anna": replace(group.members["anna"], assignment=b"\xff")})
    assert invariants.one_owner_per_partition(opaque)


def test_a_generation_that_grows_by_two_is_found() -> None:
    before = replace(stable_group(), state=State.PREPARING)
    event = e.GroupEmptied(at_ms=AT_MS, generation=4)
    assert sentence(invariants.generations_grow) in broken_by_step(before, event, evolve(before, event))


def test_a_move_that_is_not_in_the_table_is_found() -> None:
    before = stable_group()
    event = e.GroupEmptied(at_ms=AT_MS, generation=3)
    assert broken_by_step(before, event, evolve(before, event)) == [sentence(invariants.a_move_is_legal)]


def test_a_load_that_remembers_too_much_is_found() -> None:
    before = replace(stable_group(), stored=None)
    event = e.CoordinatorLoaded(at_ms=AT_MS, subscribed_topics=())
    after = replace(before, number=before.number + 1)
    assert sentence(invariants.a_load_brings_back_what_was_stored) in broken_by_step(before, event, after)


def test_a_missing_number_is_found() -> None:
    before = stable_group()
    event = e.GroupStored(at_ms=AT_MS)
    after = replace(evolve(before, event), number=before.number + 2)
    assert broken_by_step(before, event, after) == [sentence(invariants.numbers_have_no_gap)]


def test_every_invariant_says_itself_in_one_sentence() -> None:
    for each in (*OF_GROUPS, *OF_STEPS):
        text = sentence(each)
        assert text.endswith(".")
        assert "\n" not in text
