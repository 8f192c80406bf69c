"""Scenes with bugs about joining, syncing and leading."""

from typing import Any

from regroup.coordinator.group import State
from regroup.lab.planted_bugs import joining, syncing
from regroup.protocol.errors import ErrorCode as E
from tests.coordinator.consumer import syncs
from tests.coordinator.story import Story
from tests.lab.bug_scenes import scene


@scene(joining.unknown_member_is_let_in, right=E.UNKNOWN_MEMBER_ID, wrong=None)
def a_stranger_comes_with_an_id_of_its_own() -> Any:
    story = Story()
    story.stable("anna")
    asked = story.consumer("mallory", id="mallory-1").asks_to_join()
    return None if asked.is_parked else asked.code


@scene(joining.full_group_takes_one_more, right=E.GROUP_MAX_SIZE_REACHED, wrong=None)
def a_third_comes_where_two_have_room() -> Any:
    story = Story(group_max_size=2)
    story.stable("anna", "ben")
    asked = story.consumer("carla").joins()
    return None if asked.is_parked else asked.code


@scene(joining.protocol_of_the_first_member, right="roundrobin", wrong="range")
def one_of_two_does_not_offer_range() -> Any:
    story = Story()
    anna = story.consumer("anna")
    ben = story.consumer("ben", protocols=("roundrobin",))
    anna.joins()
    ben.joins()
    story.passes(6_000)
    return story.group.protocol_name


@scene(joining.stable_group_takes_no_rejoin, right=State.PREPARING, wrong=State.STABLE)
def a_leader_joins_again() -> Any:
    story = Story()
    anna, _ = story.stable("anna", "ben")
    anna.asks_to_join()
    return story.state


@scene(joining.two_leaders, right=["ben"], wrong=["ben", "carla"])
def the_leader_of_three_leaves() -> Any:
    story = Story()
    anna, *others = story.stable("anna", "ben", "carla")
    anna.leaves()
    for each in others:
        each.asks_to_join()
    return [each.name for each in others if each.leads]


@scene(joining.nobody_inherits_the_lead, right="ben", wrong=None)
def the_leader_of_two_leaves() -> Any:
    story = Story()
    anna, _ = story.stable("anna", "ben")
    anna.leaves()
    return story.group.leader


@scene(joining.member_that_did_not_join_is_kept, right=["anna", "carla"], wrong=["anna", "ben", "carla"])
def one_does_not_join_again() -> Any:
    story = Story()
    anna, ben, _ = story.preparing("anna", "ben")
    anna.asks_to_join()
    story.passes(60_000, beating=[ben])
    return story.members


@scene(joining.emptied_group_keeps_its_generation, right=2, wrong=1)
def the_only_member_leaves() -> Any:
    story = Story()
    [anna] = story.stable("anna")
    anna.leaves()
    return story.generation


@scene(joining.parked_join_is_forgotten, right=[False, False], wrong=[False, True])
def two_wait_for_a_generation() -> Any:
    story = Story()
    asked = [story.consumer(name).joins() for name in ("anna", "ben")]
    story.passes(6_000)
    return [each.is_parked for each in asked]


@scene(joining.resent_join_is_answered_twice, right=1, wrong=2)
def a_join_is_sent_once_more() -> Any:
    story = Story()
    anna = story.consumer("anna")
    heard = []
    anna.joins()
    again = anna.asks_to_join()
    again.on_answer = heard.append
    story.passes(6_000)
    return len(heard)


@scene(syncing.sync_ignores_the_generation, right=E.ILLEGAL_GENERATION, wrong=E.NONE)
def a_sync_comes_from_an_older_generation() -> Any:
    story = Story()
    _, ben = story.stable("anna", "ben")
    return ben.syncs(generation_id=1).code


@scene(syncing.follower_gets_nothing, right=None, wrong=b"")
def a_follower_syncs_first() -> Any:
    story = Story()
    _, ben = story.completing("anna", "ben")
    asked = ben.syncs()
    return None if asked.is_parked else asked.answer.assignment


@scene(syncing.follower_gets_its_former_share, right=None, wrong=b"share of ben")
def a_follower_syncs_first_in_a_later_generation() -> Any:
    story = Story()
    anna, ben, _ = story.preparing("anna", "ben")
    anna.asks_to_join()
    ben.asks_to_join()
    asked = ben.syncs()
    return None if asked.is_parked else asked.answer.assignment


@scene(syncing.parked_sync_is_forgotten, right=False, wrong=True)
def a_rebalance_interrupts_one_who_waits_for_a_share() -> Any:
    story = Story()
    _, ben = story.completing("anna", "ben")
    asked = ben.syncs()
    story.consumer("carla").joins()
    return asked.is_parked


@scene(syncing.share_comes_before_the_log_has_it, right=State.COMPLETING, wrong=State.STABLE)
def the_log_is_slow() -> Any:
    story = Story()
    consumers = story.completing("anna", "ben")
    story.log_holds_back = True
    syncs(consumers)
    return story.state
