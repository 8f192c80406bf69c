"""Each invariant holds of a sound coordinator and is broken by a planted bug, in its own sentence."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import events as e
from regroup.coordinator.evolve import EVOLVE
from regroup.coordinator.group import Group, Protocol, State
from regroup.coordinator.invariants import a_commit_comes_from_a_member
from regroup.lab.checker import coordinator_invariants as of
from regroup.members.consumer.effects import JoinedGroup
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupResponse
from tests.lab.court import SUBSCRIPTION, Court, share, turns


def says(invariant: Callable[..., object]) -> str:
    return (invariant.__doc__ or "").partition("\n")[0]


Plant = pytest.MonkeyPatch
EVERY = (
    *of.OF_ANSWERS,
    *of.OF_ANSWERS_TO[c.JoinGroup],
    *of.OF_ANSWERS_TO[c.SyncGroup],
    *of.OF_ANSWERS_TO[c.CommitOffsets],
    *of.OF_LOADS,
    of.a_request_is_answered_once,
    of.only_what_depends_on_others_is_parked,
    of.whoever_waits_is_answered,
    of.the_stored_rows_add_up_to_the_live_group,
)


def test_every_invariant_says_itself_in_one_sentence() -> None:
    for invariant in EVERY:
        assert says(invariant).endswith(".")


# Who may commit


async def test_a_zombie_that_commits_after_its_expulsion_is_refused_and_breaks_nothing() -> None:
    court = Court()
    await court.stable("anna")
    await asyncio.sleep(11)
    assert court.group.state is State.EMPTY
    [answer] = court.commit_as("anna", 5, generation=1)

    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert court.broken() == set()
    assert court.verdict.counts.expulsions == 1


async def test_a_commit_accepted_from_a_zombie_is_seen(monkeypatch: Plant) -> None:
    monkeypatch.setattr("regroup.coordinator.offsets.commits.refuse_commit", lambda group, command: None)
    court = Court()
    await court.stable("anna", "ben")
    court.leave("anna")
    await turns()
    court.commit_as("anna", 5, generation=1)
    await turns()

    assert {says(of.nobody_commits_who_is_out), says(a_commit_comes_from_a_member)} <= court.broken()


async def test_a_static_member_that_was_not_fenced_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.starts()
    court.join("anna", group_instance_id="till")
    await asyncio.sleep(4)
    court.sync("anna", anna=share(0))
    await turns()
    monkeypatch.setattr("regroup.coordinator.offsets.commits.refuse_generation", lambda *asked: None)
    court.join("anna-2", group_instance_id="till")
    await turns()
    court.commit(5, member_id="anna", group_instance_id="till", generation_id=1)
    await turns()

    assert says(of.nobody_commits_who_is_out) in court.broken()


async def test_a_transactional_commit_without_a_member_is_nobodys_and_breaks_nothing() -> None:
    court = Court()
    await court.stable("anna")
    offsets = (c.OffsetToCommit("orders", 0, 5),)
    usual: dict[str, Any] = {"group_id": "payments", "producer_id": 1}
    court.asks(c.CommitTransactionalOffsets(**usual, at_ms=court.now(), offsets=offsets))
    court.asks(c.EndTransaction(**usual, at_ms=court.now(), committed=True))
    await turns()

    assert court.group.offsets["orders"][0].offset == 5
    assert court.broken() == set()


async def test_offsets_of_a_transaction_outlive_a_crash_like_any_others() -> None:
    court = Court()
    await court.stable("anna")
    court.commit_as("anna", 3)
    await turns()
    offsets = (c.OffsetToCommit("orders", 0, 5),)
    usual: dict[str, Any] = {"group_id": "payments", "producer_id": 1}
    court.asks(c.CommitTransactionalOffsets(**usual, at_ms=court.now(), offsets=offsets))
    court.asks(c.EndTransaction(**usual, at_ms=court.now(), committed=True))
    await turns()
    court.coordinator.stop()
    await court.starts()

    assert court.broken() == set()


async def test_offsets_that_were_deleted_need_not_survive() -> None:
    court = Court()
    await court.starts()
    court.commit(3)
    await turns()
    court.asks(c.DeleteOffsets(group_id="payments", at_ms=court.now(), partitions={"orders": (0,)}))
    await turns()
    court.coordinator.stop()
    await court.starts()

    assert court.group.offsets == {}
    assert court.broken() == set()


# Who owns what, and who leads


async def test_two_owners_of_one_partition_are_seen_where_the_leader_is_sound() -> None:
    court = Court()
    court.judge.joins("anna", "payments")
    await court.joined("anna", "ben")
    court.sync("ben")
    court.sync("anna", anna=share(0), ben=share(0, 1))
    await turns()

    assert court.broken() == {says(of.a_partition_has_one_owner)}


async def test_where_the_leader_deals_badly_nothing_is_said_of_owners() -> None:
    court = Court()
    court.judge.joins("anna", "payments", deals_soundly=False)
    await court.joined("anna", "ben")
    court.judge.changed("anna", JoinedGroup(1, "anna", True, "range"), 0)
    court.sync("ben")
    court.sync("anna", anna=share(0), ben=share(0, 1))
    await turns()

    assert court.broken() == set()


async def test_the_new_process_of_a_static_member_may_have_the_share_of_the_old_one() -> None:
    court = Court()
    await court.starts()
    court.join("anna", group_instance_id="till")
    await asyncio.sleep(4)
    court.sync("anna", anna=share(0))
    await turns()
    court.join("anna-2", group_instance_id="till")
    await turns()
    court.sync("anna-2")
    await turns()

    assert court.group.members["anna-2"].assignment == share(0)
    assert court.broken() == set()


async def test_two_members_that_are_told_to_lead_one_generation_are_seen(monkeypatch: Plant) -> None:
    def everybody_leads(group: Group, member: str, **about: Any) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=member,
            member_id=member,
        )

    monkeypatch.setattr("regroup.coordinator.responses.joined", everybody_leads)
    court = Court()
    await court.joined("anna", "ben")

    assert court.broken() == {says(of.a_generation_has_one_leader)}


# What answers say


async def test_a_request_that_is_parked_where_it_could_be_answered_is_seen(monkeypatch: Plant) -> None:
    monkeypatch.setattr("regroup.coordinator.classic.join.why_it_must_wait", lambda group, member, command: "no reason")
    court = Court()
    await court.stable("anna", "ben", "carla")
    court.join(member_id="ben")

    assert court.broken() == {says(of.only_what_depends_on_others_is_parked)}


async def test_a_share_that_is_not_the_stored_one_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.stable("anna", "ben")
    monkeypatch.setattr(
        "regroup.coordinator.classic.sync.responses.share",
        lambda group, member: SyncGroupResponse(protocol_type="consumer", assignment=share(9)),
    )
    court.sync("ben")

    assert court.broken() == {says(of.an_answer_tells_what_is_stored)}


async def test_offsets_that_a_load_loses_are_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.stable("anna")
    court.commit_as("anna", 3)
    await turns()
    court.coordinator.stop()
    loads = EVOLVE[e.CoordinatorLoaded]
    monkeypatch.setitem(EVOLVE, e.CoordinatorLoaded, lambda group, event: replace(loads(group, event), offsets={}))
    await court.starts()

    assert says(of.acknowledged_offsets_survive) in court.broken()


async def test_a_generation_with_shares_that_a_load_takes_back_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.stable("anna")
    court.coordinator.stop()
    loads = EVOLVE[e.CoordinatorLoaded]
    monkeypatch.setitem(EVOLVE, e.CoordinatorLoaded, lambda group, event: replace(loads(group, event), generation=0))
    await court.starts()

    assert says(of.assigned_shares_survive) in court.broken()


async def test_a_coordinator_that_does_not_serve_is_not_held_to_the_table() -> None:
    court = Court()
    assert court.beat("anna", 1)[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await court.joined("anna", "ben")
    parked = court.sync("ben")
    court.coordinator.stop()

    assert parked[0].error_code == ErrorCode.NOT_COORDINATOR
    assert court.broken() == set()


async def test_heartbeats_that_the_connection_answers_by_itself_are_seen_too() -> None:
    court = Court()
    await court.stable("anna")
    beat = c.Heartbeat(group_id="payments", at_ms=court.now(), member_id="anna", generation_id=1)
    before = court.verdict.counts.exchanges
    again = court.coordinator.repeats(beat)

    assert again()
    assert court.verdict.counts.exchanges == before + 1
    court.join("ben", protocols=(Protocol("range", SUBSCRIPTION),))
    assert not again()
    assert court.broken() == set()
