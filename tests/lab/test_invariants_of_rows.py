"""What can be said of the stored rows alone, so that `regroup verify` says it too."""

import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.evolve import EVOLVE
from regroup.coordinator.group import Group, JoinPhase, Member, Protocol, State, Waiting
from regroup.coordinator.invariants import (
    a_commit_comes_from_a_member,
    a_generation_has_joined,
    a_phase_lasts_as_long_as_its_members_allow,
    broken_by_step,
    generations_grow,
    sentence,
    who_is_gone_is_no_member,
)
from regroup.coordinator.serialization import written
from regroup.coordinator.verification import Verifier, a_reign_begins_with_a_load
from regroup.lab.checker.shadow_state import as_record
from tests.lab.court import GROUP


def joined_group() -> Group:
    group = EVOLVE[e.GroupCreated](Group(name="g"), e.GroupCreated(at_ms=1, by_join=True))
    joined = e.MemberJoined(
        at_ms=1,
        member="anna",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(Protocol("range"),),
    )
    return EVOLVE[e.MemberJoined](group, joined)


def test_a_commit_in_the_name_of_a_stranger_is_found() -> None:
    group = replace(joined_group(), state=State.STABLE)
    commit = e.OffsetsCommitted(at_ms=1, member="zoe", offsets={})
    after = replace(group, number=group.number + 1)
    assert broken_by_step(group, commit, after) == [sentence(a_commit_comes_from_a_member)]
    assert broken_by_step(group, replace(commit, member="anna"), after) == []
    assert broken_by_step(replace(group, state=State.EMPTY), commit, replace(after, state=State.EMPTY)) == []


def test_an_expelled_member_that_stays_is_found() -> None:
    group = joined_group()
    after = replace(group, number=group.number + 1)
    expelled = e.MemberExpelled(at_ms=1, member="anna")
    assert broken_by_step(group, expelled, after) == [sentence(who_is_gone_is_no_member)]
    assert broken_by_step(group, expelled, replace(after, members={})) == []


@pytest.mark.parametrize(("reigns", "is_sound"), [((1, 1), True), ((1, 2), False), ((2, 1), False)])
def test_another_reign_without_a_load_is_found(reigns: tuple[int, int], is_sound: bool) -> None:
    created = e.GroupCreated(at_ms=1, by_join=True)
    given = e.MemberIdGiven(at_ms=2, member="anna", client_id="c", session_timeout_ms=10_000)
    rows = [written("g", 1, reigns[0], created, None), written("g", 2, reigns[1], given, None)]
    verifier = Verifier()
    faults = [
        fault.sentence for position, row in enumerate(rows, 1) for fault in verifier.faults_of(as_record(row, position))
    ]
    assert faults == ([] if is_sound else [sentence(a_reign_begins_with_a_load)])


def test_a_load_begins_a_new_reign() -> None:
    created = e.GroupCreated(at_ms=1, by_join=True)
    loaded = e.CoordinatorLoaded(at_ms=2, subscribed_topics=())
    rows = [written("g", 1, 1, created, None), written("g", 2, 5, loaded, None)]
    verifier = Verifier()
    assert [fault for number, row in enumerate(rows, 1) for fault in verifier.faults_of(as_record(row, number))] == []


def preparing(**waiting: Waiting | None) -> Group:
    members = {
        name: Member(
            member_id=name,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocols=(Protocol("range"),),
            waiting=kind,
        )
        for name, kind in waiting.items()
    }
    return Group(name=GROUP, state=State.PREPARING, generation=3, members=members, leader="anna")


def started(generation: int = 4, sync_deadline_ms: int = 60_001) -> e.GenerationStarted:
    return e.GenerationStarted(
        at_ms=1,
        generation=generation,
        protocol_name="range",
        leader="anna",
        subscribed_topics=(),
        sync_deadline_ms=sync_deadline_ms,
    )


def broken(before: Group, event: e.Event, **after: object) -> list[str]:
    changed = replace(before, number=before.number + 1, **after)
    return broken_by_step(before, event, changed)


def test_a_dynamic_member_in_a_generation_that_it_did_not_join_is_found() -> None:
    before = preparing(anna=Waiting.JOIN, ben=None)
    after = {"state": State.COMPLETING, "generation": 4}
    assert broken(before, started(), **after) == [sentence(a_generation_has_joined)]
    static = replace(before.members["ben"], instance_id="till")
    assert broken(replace(before, members=before.members | {"ben": static}), started(), **after) == []


def test_a_generation_that_does_not_grow_at_the_end_of_a_join_phase_is_found() -> None:
    before = preparing()
    emptied = e.GroupEmptied(at_ms=1, generation=3)
    assert broken(before, emptied, state=State.EMPTY) == [sentence(generations_grow)]
    assert broken(before, e.MemberIdForgotten(at_ms=1, member="zoe"), generation=4) == [sentence(generations_grow)]


@pytest.mark.parametrize(
    ("event", "is_sound"),
    [
        (e.RebalanceStarted(at_ms=1, deadline_ms=60_001), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=90_001), False),
        (e.RebalanceStarted(at_ms=1, deadline_ms=3_001, initial=True, delay_ms=3_000), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=1, initial=True), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=60_001), True),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=1), False),
    ],
)
def test_a_phase_that_lasts_too_long_or_too_short_is_found(event: e.Event, is_sound: bool) -> None:
    expected = [] if is_sound else [sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert broken(preparing(anna=Waiting.JOIN), event) == expected


def test_an_initial_delay_of_no_time_is_drawn_out_by_no_time() -> None:
    before = replace(preparing(anna=Waiting.JOIN), join_phase=JoinPhase(deadline_ms=1, initial=True))
    assert broken(before, e.JoinPhaseProlonged(at_ms=1, deadline_ms=1)) == []


@pytest.mark.parametrize("delay_ms", [0, 2_000])
def test_an_initial_phase_may_be_drawn_out_by_the_delay_even_if_that_is_0(delay_ms: int) -> None:
    group = replace(preparing(anna=Waiting.JOIN), join_phase=JoinPhase(0, initial=True, delay_ms=delay_ms))
    assert broken(group, e.JoinPhaseProlonged(at_ms=1, deadline_ms=1 + delay_ms, delay_ms=delay_ms)) == []


def test_a_sync_phase_that_lasts_too_long_is_found() -> None:
    before = preparing(anna=Waiting.JOIN)
    after = {"state": State.COMPLETING, "generation": 4}
    expected = [sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert broken(before, started(sync_deadline_ms=99_999), **after) == expected
