"""Whatever is asked of a group in whatever order, some things hold."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from typing import TypeAlias

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import OFFSETS_ALONE, AppendRefused
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group, State
from regroup.coordinator.invariants import (
    OF_GROUPS,
    a_stable_group_is_what_the_log_holds,
    an_empty_group_has_no_members,
    broken_by_group,
    broken_by_step,
)
from regroup.coordinator.serialization import NAME_OF, read, read_snapshot, snapshot, written
from regroup.protocol.codec.codec import decode, encode
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.describe import DeleteGroupsResponse, DescribeGroupsResponse
from regroup.protocol.messages.group import JoinGroupResponse, LeaveGroupResponse
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetFetchResponse
from regroup.storage.records import Record
from tests.coordinator.anything import Move, Player, moves_by_chance

LogSpeaks: TypeAlias = c.CommitAppend | c.RefuseAppend
SMALL = st.integers(0, 63)
FEW_MOVES = st.lists(st.builds(Move, SMALL, SMALL, SMALL, SMALL, SMALL), max_size=30)
MANY_MOVES = st.builds(moves_by_chance, st.integers(0, 2**32), st.just(200))
ANY_MOVES = FEW_MOVES | MANY_MOVES
"""Short histories shrink to what matters; long ones come further."""
whatever_happens = given(ANY_MOVES)

AT_REST = [each for each in OF_GROUPS if each is not an_empty_group_has_no_members]
"""A group that prepares may have nobody in it: all left during the initial delay, or a reserved id is still out."""
EVERY_MOMENT = [each for each in AT_REST if each is not a_stable_group_is_what_the_log_holds]
"""While Kafka's log holds a record back, and after it has lost one, the group may be ahead of it."""


def play(moves: list[Move], player: Player) -> Player:
    for move in moves:
        player.play(move)
    return player


@whatever_happens
def test_a_decision_is_what_its_events_add_up_to(moves: list[Move]) -> None:
    player = Player()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        assert decision.group == fold(before, decision.events)
        assert set(decision.heard) <= decision.group.members.keys()

    player.watch = watch
    play(moves, player)
    assert fold(Group(name="g"), player.history) == player.group


@whatever_happens
def test_an_event_about_offsets_alone_changes_nothing_that_an_invariant_of_groups_speaks_of(moves: list[Move]) -> None:
    group = Group(name="g")
    for event in play(moves, Player()).history:
        before, group = group, evolve(group, event)
        if isinstance(event, OFFSETS_ALONE):
            back = {"offsets": before.offsets, "pending_offsets": before.pending_offsets, "number": before.number}
            assert list(group.appends) == list(before.appends)
            assert replace(group, **back) == replace(before, appends=group.appends)


@whatever_happens
def test_the_invariants_hold_after_every_command_and_every_event(moves: list[Move]) -> None:
    player = Player()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        group = before
        for event in decision.events:
            after = evolve(group, event)
            assert broken_by_step(group, event, after) == []
            group = after
        log_is_behind = group.appends or any(isinstance(event, AppendRefused) for event in player.history)
        assert broken_by_group(group, EVERY_MOMENT if log_is_behind else AT_REST) == []
        assert not (group.members and group.state in (State.EMPTY, State.DEAD))

    player.watch = watch
    play(moves, player)


@whatever_happens
def test_whoever_waits_in_the_group_waits_for_one_answer_and_nobody_else_is_answered(moves: list[Move]) -> None:
    player = Player()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        places = [reply.place for reply in decision.replies]
        assert len(places) == len(set(places))
        assert player.parked.keys() >= set(places)
        waiting = {(member.waiting, name) for name, member in decision.group.members.items() if member.waiting}
        assert player.parked.keys() - set(places) == waiting
        asked = not isinstance(command, c.DeadlinePassed | c.ForgetOldOffsets | c.ForgetTopic | c.TakeOver | LogSpeaks)
        assert (decision.answer is not None) + (decision.parked is not None) == asked

    player.watch = watch
    play(moves, player)


@whatever_happens
def test_nobody_waits_behind_a_record_that_will_never_be_settled(moves: list[Move]) -> None:
    player = Player()
    behind: set[int] = set()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        if isinstance(command, c.TakeOver):
            behind.clear()
        if decision.answer is not None and decision.behind is not None:
            behind.add(decision.behind)
        behind.difference_update(settled.append for settled in decision.settled)
        assert behind <= {number for number, each in decision.group.appends.items() if not each.is_late}

    player.watch = watch
    play(moves, player)


@whatever_happens
def test_every_event_and_every_group_survives_being_written_and_read(moves: list[Move]) -> None:
    player = Player()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        for number, event in enumerate(decision.events, before.number + 1):
            new = written("g", number, 1, event, None)
            record = Record(new.group, new.number, new.reign, new.at_ms, new.type, new.version, new.payload, None, 1)
            assert read(record) == event
        assert read_snapshot(snapshot(decision.group, 1, 1)) == decision.group

    player.watch = watch
    play(moves, player)


def as_sent(answer: Structure) -> Message:
    """The response in which the server sends an answer; for one group, where a response can speak of several."""
    if isinstance(answer, Message):
        return answer
    kind = {"OffsetFetchResponseGroup": OffsetFetchResponse, "DescribedGroup": DescribeGroupsResponse}
    if type(answer).__name__ == "DeletableGroupResult":
        return DeleteGroupsResponse(results=[answer])
    return kind[type(answer).__name__](groups=[answer])


def versions_of(response: Message, command: c.Command) -> range:
    """The versions in which whoever sent the command can be answered with this very response.

    Below them the server reshapes the answer: one group in place of many, one member's code at the top.
    """
    first, last = response.versions.first, response.versions.last
    if isinstance(response, JoinGroupResponse) and isinstance(command, c.JoinGroup):
        lowest = 9 if command.can_skip_assignment else 7 if response.protocol_name is None else 5
        return range(lowest, last + 1)
    if isinstance(response, LeaveGroupResponse):
        first = 3
    elif isinstance(response, OffsetFetchResponse):
        return range(8, 10)
    elif isinstance(response, OffsetCommitResponse):
        last = 9  # v10 names topics by id
    return range(first, last + 1)


@whatever_happens
def test_every_answer_can_be_sent_in_every_version_of_its_asker(moves: list[Move]) -> None:
    player = Player()

    def watch(command: c.Command, before: Group, decision: Decision) -> None:
        sent = [(command, decision.answer)] if decision.answer else []
        sent += [(player.parked[reply.place], reply.message) for reply in decision.replies if reply.message]
        for asked, answer in sent:
            response = as_sent(answer)
            for version in versions_of(response, asked):
                again = decode(type(response), version, encode(response, version))
                assert getattr(again, "error_code", 0) == getattr(response, "error_code", 0)

    player.watch = watch
    play(moves, player)


def digest(seed: int) -> str:
    """Of a whole history, payload by payload."""
    player = play(moves_by_chance(seed, 400), Player())
    told = hashlib.sha256()
    for number, event in enumerate(player.history, 1):
        told.update(msgspec.json.encode(written("g", number, 1, event, None)))
    return told.hexdigest()


def test_chance_meets_every_kind_of_event_often() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(30):
        kinds.update(type(event).__name__ for event in play(moves_by_chance(seed, 400), Player()).history)
    rare = {kind.__name__ for kind in NAME_OF if kinds[kind.__name__] < 5}
    assert not rare


def test_the_same_moves_give_the_same_history_in_every_process() -> None:
    script = "import sys; from tests.coordinator.test_properties import digest; print(digest(7))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "1", "4711")
    }
    assert told == {digest(7)}
