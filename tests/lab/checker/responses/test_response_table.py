"""The response table against the real `decide`: every row is reached, and every response is in it."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.responses import join_response, offset_commit_response
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.responses.response_table import (
    AFTER_HOLD,
    NEVER,
    ROWS,
    STATES,
    ResponseRow,
    TableOutcome,
    find_row,
    may_be_held,
    response_parts,
    table_violation,
)
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID, START_MS
from tests.coordinator.group_harness import GroupHarness
from tests.coordinator.join_requests import join_request
from tests.coordinator.random_commands import ACTIONS, CommandChoice, RandomCommandRunner

pytestmark = pytest.mark.xdist_group("response table")  # one process plays the courses

SETTINGS = CoordinatorSettings(group_max_size=3)
COURSES, MOVES_PER_COURSE = 30, 100
MOVES_WITHOUT_LOG = [number for number, action in enumerate(ACTIONS) if "log" not in action.__name__]
"""Moves in which Kafka's own log commits at once: while it delays appends, the table does not apply."""


def immediate_response(decision: Decision) -> Any:
    """The response that the command gets at once; None if it is held."""
    if decision.held_under is None:
        return decision.response
    return next((each.response for each in decision.released if each.key == decision.held_under), None)


class TableCoverage:
    """Checks decisions against the table, and records which of its cells were reached."""

    def __init__(self) -> None:
        self.reached: dict[tuple[ResponseRow, GroupState], None] = {}
        self.violations: list[str] = []

    def check(
        self, command: c.Command, before: Group, decision: Decision, settings: CoordinatorSettings = SETTINGS
    ) -> None:
        response = immediate_response(decision)
        if response is not None or decision.held_under is not None:
            self.reached[find_row(settings, before, command), before.state] = None
        if response is not None:
            for asked, _ in response_parts(settings, before, command, response):
                self.reached[find_row(settings, before, asked), before.state] = None
            if violation := table_violation(settings, before, command, response):
                self.violations.append(violation)
        elif decision.held_under is not None and not may_be_held(settings, before, command):
            self.violations.append(f"{command} is held in {before.state}")
        for each in decision.released:
            if each.key != decision.held_under and each.response is not None:
                code = getattr(each.response, "error_code", None)
                if code not in AFTER_HOLD[each.key[0]]:
                    self.violations.append(f"{code} after the hold of {each.key}")


@cache
def table_coverage() -> TableCoverage:
    coverage = TableCoverage()
    for seed in range(COURSES):
        rng, runner = Random(seed), RandomCommandRunner(SETTINGS)
        runner.on_decision = coverage.check
        for _ in range(MOVES_PER_COURSE):
            what = rng.choice(MOVES_WITHOUT_LOG)
            runner.run(CommandChoice(what, *(rng.randrange(64) for _ in range(4))))
    consumers = groups().values()
    for group in (*consumers, *(with_connect_protocol(each) for each in consumers if each.exists)):
        for command in every_request(group):
            for settings in (CoordinatorSettings(), SETTINGS):
                coverage.check(command, group, decide(settings, group, command), settings)
    return coverage


def with_connect_protocol(group: Group) -> Group:
    """The group as one of Kafka Connect workers."""
    return replace(group, protocol_type="connect")


# -- every state of a group, and every request


def groups() -> dict[GroupState, Group]:
    """A group in each state; where it has members, anna leads, ben follows, sam is static, and rita is pending."""
    harnesses = {state: GroupHarness() for state in STATES}
    harnesses[GroupState.EMPTY].reach_empty()
    harnesses[GroupState.COMPLETING_REBALANCE].reach_completing_rebalance("anna", "ben", "sam", static=True)
    harnesses[GroupState.STABLE].reach_stable("anna", "ben", "sam", static=True)
    harnesses[GroupState.PREPARING_REBALANCE].reach_preparing_rebalance("anna", "ben", "sam", static=True)
    for state in (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        harnesses[state].client("rita").send_join()
        harnesses[state].commit_in_transaction(1, ("foo", 0, 1))
    return {state: harness.group for state, harness in harnesses.items()}


MEMBERS = ("", "anna", "ben", "sam", "rita", "ghost")
INSTANCES = (None, "instance-anna", "instance-sam", "instance-ghost")
OFFSETS = (c.RequestedOffset("foo", 0, 1), c.RequestedOffset("foo", 1, 1, metadata="x" * 5_000))


def every_request(group: Group) -> Iterator[c.Command]:
    for group_id in (GROUP_ID, ""):
        fields: dict[str, Any] = {"group_id": group_id, "at_ms": START_MS}
        yield from every_join(group, fields)
        for member_id, instance_id in product(MEMBERS, INSTANCES):
            member_fields = fields | {"member_id": member_id, "group_instance_id": instance_id}
            yield c.LeaveGroup(**fields, members=(c.LeavingMember(member_id, instance_id),))
            for generation_id in (group.generation_id, group.generation_id + 1, -1):
                yield from every_member_request(member_fields | {"generation_id": generation_id})
        yield c.EndTransaction(**fields, producer_id=1, committed=True)
        yield c.OffsetFetch(**fields, partitions={"foo": (0, 1)}, require_stable=True)
        yield c.DescribeGroup(**fields)
        yield ConsumerGroupDescribe(**fields, topics=NO_TOPICS)
        yield c.DeleteGroup(**fields)
        yield c.OffsetDelete(**fields, partitions={"foo": (0,), "bar": (0,)})


def every_join(group: Group, fields: dict[str, Any]) -> Iterator[c.JoinGroup]:
    own = next((member.profile.supported_protocols for member in group.members.values()), (SupportedProtocol("range"),))
    offers = (own, own[:1], (SupportedProtocol("range", b"new"),), (SupportedProtocol("strange"),), own * 2)
    for member, instance, protocols, supports in product(MEMBERS, INSTANCES, offers, (True, False)):
        yield join_request(
            **fields,
            member_id=member,
            new_member_id="zoe",
            instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            supported_protocols=protocols,
            supports_member_id_required=supports,
        )


def every_member_request(fields: dict[str, Any]) -> Iterator[c.Command]:
    yield c.Heartbeat(**fields)
    for name in (None, "strange"):
        yield c.SyncGroup(**fields, protocol_name=name)
    for supports in (True, False):
        yield c.OffsetCommit(**fields, offsets=OFFSETS, supports_group_id_not_found=supports)
        yield c.TxnOffsetCommit(**fields, offsets=OFFSETS, producer_id=2, supports_group_id_not_found=supports)


def test_every_response_of_decide_is_in_the_table() -> None:
    assert table_coverage().violations == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_of_the_table_is_reached(row: ResponseRow) -> None:
    assert any(reached is row for reached, _ in table_coverage().reached)


def test_every_cell_of_a_row_with_different_cells_is_reached() -> None:
    """NEVER cells are not reached: that would be a violation."""
    reached = table_coverage().reached
    for row in ROWS:
        cells = [row.cell(state) for state in STATES]
        for state in STATES:
            if row.cell(state) == NEVER:
                assert (row, state) not in reached
            elif len(set(cells)) > 1:
                assert (row, state) in reached, f"{row} in {state}"


def test_a_code_that_is_not_permitted_is_named_with_what_is_permitted() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    heartbeat = c.Heartbeat(group_id=GROUP_ID, at_ms=START_MS, generation_id=1, member_id=anna.member_id)
    wrong = decide(
        harness.settings, harness.group, c.Heartbeat(group_id=GROUP_ID, at_ms=START_MS, generation_id=9, member_id="x")
    )

    assert table_violation(harness.settings, harness.group, heartbeat, wrong.response) == (
        "Heartbeat, a member, in CompletingRebalance: due was NONE, and the response was UNKNOWN_MEMBER_ID"
    )


def test_a_followers_sync_may_be_held_and_the_leaders_may_not() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    fields: dict[str, Any] = {"group_id": GROUP_ID, "at_ms": START_MS, "generation_id": 2}

    assert may_be_held(harness.settings, harness.group, c.SyncGroup(**fields, member_id=ben.member_id))
    assert not may_be_held(harness.settings, harness.group, c.SyncGroup(**fields, member_id=anna.member_id))


def test_the_leaders_join_in_stable_may_not_get_the_present_generation() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben")
    rejoin = anna.send_join().command
    present = join_response(harness.group, anna.member_id)

    assert table_violation(harness.settings, replace(harness.group, state=GroupState.STABLE), rejoin, present) == (
        "JoinGroup, the leader, in Stable: due was HELD or NEXT_GENERATION, and the response was NONE"
    )


def test_each_partition_of_a_commit_has_its_own_code() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    offsets = (c.RequestedOffset("foo", 0, 1), c.RequestedOffset("foo", 1, 1, metadata="x" * 5_000))
    command = c.OffsetCommit(
        group_id=GROUP_ID, at_ms=START_MS, generation_id=1, member_id=anna.member_id, offsets=offsets
    )
    response: Any = decide(harness.settings, harness.group, command).response
    codes = [code for _, code in response_parts(harness.settings, harness.group, command, response)]

    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert table_violation(harness.settings, harness.group, command, response) is None
    row = "RequestedOffset, with metadata that is too long"
    assert row in str(
        table_violation(harness.settings, harness.group, command, offset_commit_response(command, ErrorCode.NONE))
    )


def test_a_cell_permits_error_codes_and_table_outcomes_only() -> None:
    for row in ROWS:
        for state in STATES:
            assert all(isinstance(each, ErrorCode | TableOutcome) for each in row.cell(state))
