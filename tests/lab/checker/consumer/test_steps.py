"""The second fold of groups of the consumer protocol, and the invariants of their stored events."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer.migration.events import RejoinRequested
from regroup.coordinator.consumer_group import ClassicMetadata, ConsumerProfile, ReconciliationState
from regroup.coordinator.events import CoordinatorLoaded, Event, MemberLeft
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import LAYERED_FROM
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.steps import step_violations
from regroup.lab.checker.consumer.stored_group import StoredGroup
from tests.counted_calls import calls_of

S = ReconciliationState
PROFILE = ConsumerProfile(rebalance_timeout_ms=5_000, session_timeout_ms=10_000, subscribed_topics=("orders",))


def subscribed(member_id: str, **fields: Any) -> ce.MemberSubscribed:
    return ce.MemberSubscribed(at_ms=0, member_id=member_id, profile=replace(PROFILE, **fields))


def target(epoch: int, **shares: tuple[int, ...]) -> ce.TargetAssigned:
    targets = {member_id: {"t": share} for member_id, share in shares.items()}
    return ce.TargetAssigned(at_ms=0, assignment_epoch=epoch, assigned_at_ms=0, targets=targets)


def bumped(epoch: int) -> ce.GroupEpochBumped:
    return ce.GroupEpochBumped(at_ms=0, group_epoch=epoch)


def step(
    member_id: str, previous: int, epoch: int, state: S, assigned: dict[int, int], pending: dict[int, int] | None = None
) -> ce.MemberReconciled:
    return ce.MemberReconciled(
        at_ms=7,
        member_id=member_id,
        state=state,
        epoch=epoch,
        previous_epoch=previous,
        assigned={"t": assigned} if assigned else {},
        pending_revocation={"t": pending} if pending else {},
        revocation_deadline_ms=5_007 if pending else None,
    )


ANNA_HAS_ALL = (
    ce.ConsumerGroupCreated(at_ms=0),
    subscribed("anna", instance_id="a-1"),
    bumped(2),
    target(2, anna=(0, 1, 2)),
    step("anna", 0, 2, S.STABLE, {0: 2, 1: 2, 2: 2}),
    subscribed("ben"),
    bumped(3),
    target(3, anna=(0,), ben=(1, 2)),
)
"""Anna has three partitions, and the target gives two of them to ben."""
HISTORY = (
    *ANNA_HAS_ALL,
    step("ben", 0, 3, S.UNRELEASED_PARTITIONS, {}),
    step("anna", 2, 2, S.UNREVOKED_PARTITIONS, {0: 2}, {1: 2, 2: 2}),
    CoordinatorLoaded(at_ms=8, subscribed_topics=()),
    ce.StaticMemberAway(at_ms=9, member_id="anna"),
    step("ben", 3, 3, S.STABLE, {1: 3, 2: 3}),
    ce.StaticConsumerReplaced(at_ms=10, instance_id="a-1", member_id="anna2", replaced_member_id="anna"),
    step("anna2", 0, 3, S.STABLE, {0: 0}),
    MemberLeft(at_ms=11, member_id="ben"),
    bumped(4),
)


def stored(events: tuple[Event, ...]) -> StoredGroup:
    group = StoredGroup()
    for event in events:
        group.apply(event)
    return group


@pytest.mark.parametrize("count", range(1, len(HISTORY) + 1))
def test_both_folds_give_the_same_group_after_each_event(count: int) -> None:
    events = HISTORY[:count]
    assert list(stored(events).differences(fold(Group(group_id="g"), events))) == []
    assert [found for at in range(count) for found in step_violations(stored(events[:at]), events[at])] == []


def upgraded(at_ms: int, **members: tuple[int, ...]) -> me.GroupUpgraded:
    """The upgrade of a classic group whose members have these partitions."""
    classic = ClassicMetadata(session_timeout_ms=9_000, supported_protocols=())
    profiles = {each: replace(PROFILE, classic=classic) for each in members}
    targets = {each: {"t": share} for each, share in members.items()}
    return me.GroupUpgraded(at_ms=at_ms, group_epoch=5, profiles=profiles, targets=targets)


CLASSIC_DEADLINES = (
    upgraded(0, anna=(0, 1), ben=(), carla=()),
    me.ClassicMemberJoined(at_ms=1, member_id="anna", sync_deadline_ms=1_001),
    me.RejoinRequested(at_ms=2, member_id="ben", join_deadline_ms=2_002),
    me.RejoinRequested(at_ms=3, member_id="carla", join_deadline_ms=3_003),
    me.ClassicMemberJoined(at_ms=4, member_id="carla", sync_deadline_ms=3_004),
    me.RejoinRequested(at_ms=5, member_id="carla", join_deadline_ms=3_005),
    me.ClassicMemberSynced(at_ms=6, member_id="carla"),
    me.GroupDowngraded(
        at_ms=7, generation_id=5, protocol_name="range", leader_id="anna", subscribed_topics=(), members=()
    ),
    upgraded(2_500, anna=(0, 1), ben=(), carla=()),
    CoordinatorLoaded(at_ms=2_501, subscribed_topics=()),
)
"""Anna has to send SyncGroup, ben and carla JoinGroup, when the group becomes a classic one."""


@pytest.mark.parametrize("count", range(1, len(CLASSIC_DEADLINES) + 1))
def test_both_folds_give_members_of_the_classic_protocol_the_same_deadlines(count: int) -> None:
    events = CLASSIC_DEADLINES[:count]
    assert list(stored(events).differences(fold(Group(group_id="g"), events))) == []


def test_other_deadlines_than_those_of_the_events_are_found() -> None:
    events = CLASSIC_DEADLINES[:8]
    folded = fold(Group(group_id="g"), events)
    left = {"anna": (None, 1_001), "ben": (2_002, None), "carla": (3_005, None)}
    assert folded.left_deadlines_ms == left
    for wrong in ({each: left[each] for each in ("ben", "carla")}, left | {"anna": (1_001, None)}):
        assert list(stored(events).differences(replace(folded, left_deadlines_ms=wrong))) == [
            "the deadlines that its members had before it became a classic one"
        ]


def test_another_result_of_the_products_fold_is_found() -> None:
    folded = fold(Group(group_id="g"), ANNA_HAS_ALL)
    right = folded.consumer
    assert right is not None
    anna = right.members["anna"]
    wrong = {
        "the epochs of the group and of its target": replace(right, assignment_epoch=2),
        "the target": replace(right, targets={"anna": {"t": (0, 1)}}),
        "the members": replace(right, members={"anna": anna}),
        "member anna": replace(right, members=right.members | {"anna": replace(anna, epoch=1)}),
        "the deadlines of member anna": replace(
            right, members=right.members | {"anna": replace(anna, join_deadline_ms=1)}
        ),
    }
    for expected, group in wrong.items():
        assert list(stored(ANNA_HAS_ALL).differences(replace(folded, consumer=group))) == [expected]
    assert list(stored(ANNA_HAS_ALL).differences(replace(folded, consumer=None))) == ["the kind of the group"]


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (step("anna", 2, 3, S.STABLE, {0: 2, 1: 2}), "A step of a member keeps only partitions of the target"),
        (step("ben", 0, 3, S.STABLE, {1: 3, 2: 3}), "A step of a member takes a partition only if"),
        (step("ben", 0, 2, S.UNRELEASED_PARTITIONS, {}), "A step of a member keeps its epoch while"),
        (step("anna", 1, 3, S.STABLE, {0: 2}), "A step of a member keeps its epoch while"),
        (step("anna", 2, 2, S.STABLE, {0: 2}), "A step of a member keeps its epoch while"),
        (step("anna", 2, 3, S.STABLE, {0: 3}), "A partition that a member keeps has the epoch"),
        (step("anna", 2, 3, S.UNRELEASED_PARTITIONS, {0: 2}), "A member waits for partitions only if"),
        (step("ben", 0, 3, S.STABLE, {}), "A member waits for partitions only if"),
        (bumped(5), "The group epoch grows by one at a time"),
        (target(2, anna=(0,)), "The group epoch grows by one at a time"),
    ],
)
def test_an_event_that_breaks_a_rule_is_found(event: Event, sentence: str) -> None:
    found = [sentence for sentence, _ in step_violations(stored(ANNA_HAS_ALL), event)]
    assert [each for each in found if each.startswith(sentence)], found


def test_of_several_partitions_that_a_step_takes_too_early_the_first_one_is_named() -> None:
    numbers = dict.fromkeys(range(40), 2)
    before = (*ANNA_HAS_ALL[:4], step("anna", 0, 2, S.STABLE, numbers), *ANNA_HAS_ALL[5:])
    details = [detail for _, detail in step_violations(stored(before), step("ben", 0, 3, S.STABLE, numbers))]
    assert "ben takes partition 0 of topic t, and anna has not released it" in details


def test_a_member_that_gets_back_what_it_gave_up_has_got_it_now() -> None:
    """The target has turned back while the member gave the partition up: it is assigned once more."""
    turned = (*HISTORY[:10], bumped(4), target(4, anna=(0, 1, 2), ben=()))
    assert step_violations(stored(turned), step("anna", 2, 4, S.STABLE, {0: 2, 1: 4, 2: 4})) == []
    assert step_violations(stored(turned), step("anna", 2, 4, S.STABLE, {0: 2, 1: 2, 2: 2}))


def test_the_target_of_a_pattern_may_have_topics_that_its_member_does_not_know_yet() -> None:
    named = step("ben", 0, 3, S.STABLE, {})
    with_pattern = (*ANNA_HAS_ALL[:5], subscribed("ben", subscribed_regex="o.*"), *ANNA_HAS_ALL[6:])
    assert step_violations(stored(with_pattern), named) == []
    assert step_violations(stored(ANNA_HAS_ALL), named)


def test_the_target_of_a_member_without_topics_may_have_some_which_it_does_not_get() -> None:
    joined = (*ANNA_HAS_ALL[:5], subscribed("ben", subscribed_topics=()), *ANNA_HAS_ALL[6:])
    without = step("ben", 0, 3, S.STABLE, {})
    assert step_violations(stored(joined), without) == []
    assert step_violations(stored(ANNA_HAS_ALL), without)


def test_a_member_that_drops_a_topic_does_not_wait_for_the_partitions_of_its_old_target() -> None:
    """Which topic id has the name that it has dropped is not known here, until a target is computed for its topics."""
    both = (*PROFILE.subscribed_topics, "other")
    joined = (*ANNA_HAS_ALL[:5], subscribed("ben", subscribed_topics=both), *ANNA_HAS_ALL[6:])
    stable = step("ben", 0, 3, S.STABLE, {})
    assert step_violations(stored((*joined, subscribed("ben"), bumped(4))), stable) == []
    assert step_violations(stored(joined), stable)
    with_new_target = (*joined, subscribed("ben"), bumped(4), target(4, ben=(1,)))
    assert step_violations(stored(with_new_target), step("ben", 0, 4, S.STABLE, {}))


def test_a_member_that_names_other_topics_bumps_the_group_epoch_at_once() -> None:
    before = (*ANNA_HAS_ALL[:5], subscribed("ben"))
    reconciled = step("ben", 0, 2, S.STABLE, {})
    assert [sentence for sentence, _ in step_violations(stored(before), reconciled)] == [
        "A member that subscribes to other topics by their names than before bumps the group epoch with the next event."
    ]
    assert step_violations(stored(before), bumped(3)) == []
    same_topics = (*ANNA_HAS_ALL[:5], subscribed("anna", server_assignor="range"))
    assert step_violations(stored(same_topics), step("anna", 2, 2, S.STABLE, {0: 2, 1: 2, 2: 2})) == []


def test_a_second_request_to_rejoin_gives_no_more_time() -> None:
    def asked(at_ms: int, deadline_ms: int) -> RejoinRequested:
        return RejoinRequested(at_ms=at_ms, member_id="anna", join_deadline_ms=deadline_ms)

    assert step_violations(stored(ANNA_HAS_ALL), asked(7, 5_007)) == []
    assert step_violations(stored(ANNA_HAS_ALL), asked(7, 5_008))[0][1] == "5008 ms is not 5007 ms"
    [(sentence, detail)] = step_violations(stored((*ANNA_HAS_ALL, asked(7, 5_007))), asked(9, 5_009))
    assert sentence.startswith("A classic member has one rebalance timeout to join again")
    assert detail == "anna has until 5007 ms, and gets 5009 ms"


def test_a_member_does_not_wait_for_partitions_of_a_topic_that_was_deleted() -> None:
    groups = ConsumerGroups()
    group = groups.group("lab").stored
    for event in ANNA_HAS_ALL:
        group.apply(event)
    stable = step("ben", 0, 3, S.STABLE, {})
    assert [sentence.split(",")[0] for sentence, _ in step_violations(group, stable)] == [
        "A member waits for partitions only if another one has them"
    ]
    groups.on_topic_deleted("t")
    assert list(step_violations(group, stable)) == []


def test_a_step_of_a_member_leads_to_a_comparison_of_that_member_alone() -> None:
    def calls(size: int) -> int:
        members = [f"m{number}" for number in range(size)]
        shares = {name: (number,) for number, name in enumerate(members)}
        events = (
            *(ce.ConsumerGroupCreated(at_ms=0), *map(subscribed, members), bumped(2), target(2, **shares)),
            *(step(name, 0, 2, S.STABLE, {number: 2}) for number, name in enumerate(members)),
        )
        group, folded = stored(events[:-1]), fold(Group(group_id="g"), events[:-1])
        assert list(group.differences(folded)) == []
        group.apply(events[-1])
        folded = evolve(folded, events[-1])
        return calls_of(lambda: list(group.differences(folded)))

    assert calls(1_000) <= calls(LAYERED_FROM) + 10


def test_a_member_that_one_fold_alone_has_changed_is_found_also_after_a_comparison() -> None:
    group, folded = stored(ANNA_HAS_ALL), fold(Group(group_id="g"), ANNA_HAS_ALL)
    assert list(group.differences(folded)) == []
    event = step("anna", 2, 2, S.UNREVOKED_PARTITIONS, {0: 2}, {1: 2, 2: 2})
    assert list(group.differences(evolve(folded, event))) == ["member anna"]
    assert list(group.differences(folded)) == []
    group.apply(event)
    assert list(group.differences(folded)) == ["member anna"]
    assert list(group.differences(folded)) == ["member anna"]
    group.apply(MemberLeft(at_ms=11, member_id="ben"))
    assert list(group.differences(evolve(folded, event))) == ["the target"]
    assert list(group.differences(evolve(evolve(folded, event), MemberLeft(at_ms=11, member_id="ben")))) == []
