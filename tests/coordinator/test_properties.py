"""Properties of `decide` and `evolve` that hold for every sequence of commands."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias, get_args
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import invariants
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import OFFSET_EVENTS, AnyEvent, AppendFailed, OffsetsCommitted
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.invariants import (
    GROUP_INVARIANTS,
    a_stable_group_is_what_the_log_holds,
    an_empty_group_has_no_members,
    violations_of_group,
    violations_of_step,
    violations_since,
)
from regroup.coordinator.serialization import (
    decode_event,
    decode_snapshot,
    encode_event,
    encode_snapshot,
)
from regroup.protocol.codec.codec import decode, encode
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.describe import DeleteGroupsResponse, DescribeGroupsResponse
from regroup.protocol.messages.group import JoinGroupResponse, LeaveGroupResponse
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetFetchResponse
from tests.coordinator.random_commands import SETTINGS, CommandChoice, RandomCommandRunner, random_choices

INTERNAL_COMMANDS = (
    c.DeadlinePassed
    | c.ExpireOffsets
    | c.DeleteTopicOffsets
    | c.LoadGroup
    | c.CompleteAppend
    | c.FailAppend
    | c.ForcedChange
)
"""Commands that are no requests: they have no response."""

SMALL_NUMBER = st.integers(0, 63)
SHORT_SEQUENCES = st.lists(st.builds(CommandChoice, *[SMALL_NUMBER] * 5), max_size=30)
LONG_SEQUENCES = st.builds(random_choices, st.integers(0, 2**32), st.just(200))
for_every_sequence = given(SHORT_SEQUENCES | LONG_SEQUENCES)
"""Short sequences can be shrunk; long ones reach more states."""

Choices: TypeAlias = list[CommandChoice]
OnDecision: TypeAlias = Callable[[c.Command, Group, Decision], None]

WITH_COMMITTED_LOG = [each for each in GROUP_INVARIANTS if each is not an_empty_group_has_no_members]
"""A group in PreparingRebalance may have no members: all left during the initial delay, or a member id is pending."""
WITH_DELAYED_LOG = [each for each in WITH_COMMITTED_LOG if each is not a_stable_group_is_what_the_log_holds]
"""While an append is pending, and after one has failed, the group may differ from the log."""


def run(choices: Choices, on_decision: OnDecision | None = None) -> RandomCommandRunner:
    """Run the choices, and call `on_decision` with each command, the group before it, and its decision."""
    runner = RandomCommandRunner()
    if on_decision:
        runner.on_decision = on_decision
    for choice in choices:
        runner.run(choice)
    return runner


@for_every_sequence
def test_the_group_of_a_decision_is_the_fold_of_its_events(choices: Choices) -> None:
    def check(command: c.Command, before: Group, decision: Decision) -> None:
        assert decision.group == fold(before, decision.events)
        assert set(decision.touched_sessions) <= decision.group.members.keys()

    runner = run(choices, check)
    assert fold(Group(group_id="g"), runner.events) == runner.group


@for_every_sequence
def test_an_event_about_offsets_changes_nothing_else_in_the_group(choices: Choices) -> None:
    group = Group(group_id="g")
    for event in run(choices).events:
        before, group = group, evolve(group, event)
        if isinstance(event, OFFSET_EVENTS):
            present = {
                "committed_offsets": before.committed_offsets,
                "pending_transactional_offsets": before.pending_transactional_offsets,
                "event_number": before.event_number,
            }
            assert list(group.pending_appends) == list(before.pending_appends)
            assert replace(group, **present) == replace(before, pending_appends=group.pending_appends)


@for_every_sequence
def test_groups_that_differ_in_offsets_only_answer_a_heartbeat_in_the_same_way(choices: Choices) -> None:
    def answer(group: Group, heartbeat: c.Heartbeat) -> Decision:
        return replace(decide(SETTINGS, group, heartbeat), group=Group(group_id="g"))

    def check(command: c.Command, before: Group, decision: Decision) -> None:
        after = decision.group
        if after.has_only_other_offsets_than(before):
            for member_id in before.members:
                heartbeat = c.Heartbeat(
                    group_id="g", at_ms=command.at_ms, member_id=member_id, generation_id=before.generation_id
                )
                assert answer(after, heartbeat) == answer(before, heartbeat)
        if before.members and [type(event) for event in decision.events] == [OffsetsCommitted]:
            assert before.pending_transactional_offsets or after.has_only_other_offsets_than(before)

    run(choices, check)


@for_every_sequence
def test_the_invariants_hold_after_every_command_and_every_event(choices: Choices) -> None:
    has_failed_append = False

    def check(command: c.Command, before: Group, decision: Decision) -> None:
        nonlocal has_failed_append
        group = before
        for event in decision.events:
            after = evolve(group, event)
            assert violations_of_step(group, event, after) == []
            group = after
            has_failed_append = has_failed_append or isinstance(event, AppendFailed)
        log_differs = group.pending_appends or has_failed_append
        assert violations_of_group(group, WITH_DELAYED_LOG if log_differs else WITH_COMMITTED_LOG) == []
        assert not (group.members and group.state in (GroupState.EMPTY, GroupState.DEAD))

    run(choices, check)


@for_every_sequence
def test_changed_members_alone_show_the_violations_of_a_group_that_was_sound_before(choices: Choices) -> None:
    def check(command: c.Command, before: Group, decision: Decision) -> None:
        after = decision.group
        if violations_of_group(before):
            return
        with patch.object(invariants, "MANY_MEMBERS", 0):  # small groups would be checked in full
            assert violations_since(before, after) == violations_of_group(after)
            for member in before.members.values():  # as if the command had changed nothing in this member
                undone = after.with_member(member)
                assert violations_since(before, undone) == violations_of_group(undone)

    run(choices, check)


@for_every_sequence
def test_a_member_awaits_a_response_exactly_while_its_request_is_held(choices: Choices) -> None:
    held = set()

    def check(command: c.Command, before: Group, decision: Decision) -> None:
        if isinstance(command, c.LoadGroup):
            held.clear()
        if decision.held_under:
            held.add(decision.held_under)
        released = [each.key for each in decision.released]
        assert len(released) == len(set(released))
        assert held >= set(released)
        held.difference_update(released)
        assert held == {(member.awaiting, each) for each, member in decision.group.members.items() if member.awaiting}
        is_request = not isinstance(command, INTERNAL_COMMANDS)
        assert (decision.response is not None) + (decision.held_under is not None) == is_request

    run(choices, check)


@for_every_sequence
def test_every_append_that_a_response_waits_for_is_completed_or_times_out(choices: Choices) -> None:
    awaited: set[int] = set()

    def check(command: c.Command, before: Group, decision: Decision) -> None:
        if isinstance(command, c.LoadGroup):
            awaited.clear()
        if decision.response is not None and decision.after_append is not None:
            awaited.add(decision.after_append)
        awaited.difference_update(completed.append_number for completed in decision.completed_appends)
        appends = decision.group.pending_appends
        assert awaited <= {number for number, append in appends.items() if not append.has_timed_out}

    run(choices, check)


@for_every_sequence
def test_every_event_and_every_group_is_the_same_after_encoding_and_decoding(choices: Choices) -> None:
    def check(command: c.Command, before: Group, decision: Decision) -> None:
        for event_number, event in enumerate(decision.events, before.event_number + 1):
            new = encode_event("g", event_number, 1, event, None)
            record = new.stored_at(1)
            assert decode_event(record) == event
        assert decode_snapshot(encode_snapshot(decision.group, 1, 1)) == decision.group

    run(choices, check)


def as_message(response: Structure) -> Message:
    """The message that the server sends: a response about one group is part of a message about several."""
    if isinstance(response, Message):
        return response
    if type(response).__name__ == "DeletableGroupResult":
        return DeleteGroupsResponse(results=[response])
    message_types = {"OffsetFetchResponseGroup": OffsetFetchResponse, "DescribedGroup": DescribeGroupsResponse}
    return message_types[type(response).__name__](groups=[response])


def versions_of(message: Message, command: c.Command) -> range:
    """The versions in which the sender of the command gets this message.

    Below them the server changes the message: one group in place of several, one member's error code at the top.
    """
    first, last = message.versions.first, message.versions.last
    if isinstance(message, JoinGroupResponse) and isinstance(command, c.JoinGroup):
        first = 9 if command.supports_skip_assignment else 7 if message.protocol_name is None else 5
    elif isinstance(message, LeaveGroupResponse):
        first = 3
    elif isinstance(message, OffsetFetchResponse):
        first, last = 8, 9
    elif isinstance(message, OffsetCommitResponse):
        last = 9  # v10 names topics by id
    return range(first, last + 1)


@for_every_sequence
def test_every_response_can_be_encoded_in_every_version_of_its_request(choices: Choices) -> None:
    held: dict[object, c.Command] = {}

    def check(command: c.Command, before: Group, decision: Decision) -> None:
        if decision.held_under:
            held[decision.held_under] = command
        sent = [(command, decision.response)] if decision.response else []
        sent += [(held[each.key], each.response) for each in decision.released if each.response]
        for request, response in sent:
            message = as_message(response)
            for version in versions_of(message, request):
                decoded = decode(type(message), version, encode(message, version))
                assert getattr(decoded, "error_code", 0) == getattr(message, "error_code", 0)

    run(choices, check)


def digest(seed: int) -> str:
    """A digest of the records of a random history."""
    hashed = hashlib.sha256()
    for event_number, event in enumerate(run(random_choices(seed, 400)).events, 1):
        hashed.update(msgspec.json.encode(encode_event("g", event_number, 1, event, None)))
    return hashed.hexdigest()


def test_random_commands_cause_every_type_of_event_of_classic_groups_often() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        counts.update(type(event).__name__ for event in run(random_choices(seed, 400)).events)
    rare = {event_type.__name__ for event_type in get_args(AnyEvent) if counts[event_type.__name__] < 5}
    assert not rare


@pytest.mark.slow
def test_the_same_choices_give_the_same_history_in_every_process() -> None:
    script = "import sys; from tests.coordinator.test_properties import digest; print(digest(7))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "4711")
    }
    assert digests == {digest(7)}
