"""The table of expected answers against the real `decide`: every row is reached, and every answer stands in it."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.decide import decide
from regroup.coordinator.decision import Decision
from regroup.coordinator.group import Group, Protocol, State
from regroup.coordinator.responses import committed, joined
from regroup.coordinator.settings import Settings
from regroup.lab.checker.response_table import (
    AFTER_THE_WAIT,
    COLUMN,
    NEVER,
    ROWS,
    Row,
    Turn,
    may_be_parked,
    parts_of,
    row_of,
    what_is_not_permitted,
)
from regroup.protocol.errors import ErrorCode
from tests.coordinator.anything import MOVES, Move, Player
from tests.coordinator.stage import GROUP, NOW
from tests.coordinator.story import Story

SETTINGS = Settings(group_max_size=3)
GAMES, MOVES_OF_A_GAME = 30, 100
QUIET_MOVES = [number for number, move in enumerate(MOVES) if "log" not in move.__name__]
"""Those in which Kafka's own log commits at once: while it holds something back, the table says nothing."""


def answer_at_once(decision: Decision) -> Any:
    """What the command gets without having to wait, if anything."""
    if decision.parked is None:
        return decision.answer
    return next((reply.message for reply in decision.replies if reply.place == decision.parked), None)


class Referee:
    """Holds every decision against the table, and remembers which of its cells were reached."""

    def __init__(self) -> None:
        self.reached: dict[tuple[Row, State], None] = {}
        self.not_permitted: list[str] = []

    def watch(self, command: c.Command, before: Group, decision: Decision, settings: Settings = SETTINGS) -> None:
        answer = answer_at_once(decision)
        if answer is not None or decision.parked is not None:
            self.reached[row_of(settings, before, command), before.state] = None
        if answer is not None:
            for asked, _ in parts_of(settings, before, command, answer):
                self.reached[row_of(settings, before, asked), before.state] = None
            if fault := what_is_not_permitted(settings, before, command, answer):
                self.not_permitted.append(fault)
        elif decision.parked is not None and not may_be_parked(settings, before, command):
            self.not_permitted.append(f"{command} is parked in {before.state}")
        for reply in decision.replies:
            if reply.place != decision.parked and reply.message is not None:
                code = getattr(reply.message, "error_code", None)
                if code not in AFTER_THE_WAIT[reply.place[0]]:
                    self.not_permitted.append(f"{code} after the wait of {reply.place}")


@cache
def refereed_games() -> Referee:
    referee = Referee()
    for seed in range(GAMES):
        chance, player = Random(seed), Player(SETTINGS)
        player.watch = referee.watch
        for _ in range(MOVES_OF_A_GAME):
            what = chance.choice(QUIET_MOVES)
            player.play(Move(what, *(chance.randrange(64) for _ in range(4))))
    consumers = groups().values()
    for group in (*consumers, *(of_another_type(each) for each in consumers if each.exists)):
        for command in whatever_may_be_asked(group):
            for settings in (Settings(), SETTINGS):
                referee.watch(command, group, decide(settings, group, command), settings)
    return referee


def of_another_type(group: Group) -> Group:
    """Connect's workers are a group, too."""
    return replace(group, protocol_type="connect")


# Every state of a group, and whatever may be asked of it


def groups() -> dict[State, Group]:
    """In each of them, where there are members: anna leads, ben follows, sam is static, and rita has a reserved id."""
    stories = {state: Story() for state in COLUMN}
    stories[State.EMPTY].empty()
    stories[State.COMPLETING].completing("anna", "ben", "sam", static=True)
    stories[State.STABLE].stable("anna", "ben", "sam", static=True)
    stories[State.PREPARING].preparing("anna", "ben", "sam", static=True)
    for state in (State.EMPTY, State.COMPLETING, State.STABLE, State.PREPARING):
        stories[state].consumer("rita").asks_to_join()
        stories[state].commit_in_transaction(1, ("foo", 0, 1))
    return {state: story.group for state, story in stories.items()}


MEMBERS = ("", "anna", "ben", "sam", "rita", "ghost")
INSTANCES = (None, "till-of-anna", "till-of-sam", "till-of-ghost")
OFFSETS = (c.OffsetToCommit("foo", 0, 1), c.OffsetToCommit("foo", 1, 1, metadata="x" * 5_000))


def whatever_may_be_asked(group: Group) -> Iterator[c.Command]:
    for group_id in (GROUP, ""):
        usual: dict[str, Any] = {"group_id": group_id, "at_ms": NOW}
        yield from joins(group, usual)
        for member_id, instance_id in product(MEMBERS, INSTANCES):
            who = usual | {"member_id": member_id, "group_instance_id": instance_id}
            yield c.LeaveGroup(**usual, members=(c.Leaving(member_id, instance_id),))
            for generation_id in (group.generation, group.generation + 1, -1):
                yield from of_members(who | {"generation_id": generation_id})
        yield c.EndTransaction(**usual, producer_id=1, committed=True)
        yield c.FetchOffsets(**usual, partitions={"foo": (0, 1)}, require_stable=True)
        yield c.DescribeGroup(**usual)
        yield c.DeleteGroup(**usual)
        yield c.DeleteOffsets(**usual, partitions={"foo": (0,), "bar": (0,)})


def joins(group: Group, usual: dict[str, Any]) -> Iterator[c.JoinGroup]:
    own = next((member.protocols for member in group.members.values()), (Protocol("range"),))
    offers = (own, own[:1], (Protocol("range", b"new"),), (Protocol("strange"),))
    for member, instance, protocols, returns in product(MEMBERS, INSTANCES, offers, (True, False)):
        yield c.JoinGroup(
            **usual,
            member_id=member,
            new_member_id="zoe",
            group_instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
            can_be_asked_to_return=returns,
        )


def of_members(who: dict[str, Any]) -> Iterator[c.Command]:
    yield c.Heartbeat(**who)
    for name in (None, "strange"):
        yield c.SyncGroup(**who, protocol_name=name)
    for knows in (True, False):
        yield c.CommitOffsets(**who, offsets=OFFSETS, knows_missing_groups=knows)
    yield c.CommitTransactionalOffsets(**who, offsets=OFFSETS, producer_id=2)


def test_whatever_decide_answers_stands_in_the_table() -> None:
    assert refereed_games().not_permitted == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_of_the_table_is_reached(row: Row) -> None:
    assert any(reached is row for reached, _ in refereed_games().reached)


def test_every_cell_of_a_row_that_has_different_ones_is_reached() -> None:
    """Cells that say NEVER are not, or the game would have found them not permitted."""
    reached = refereed_games().reached
    for row in ROWS:
        cells = [row.cell(state) for state in COLUMN]
        for state in COLUMN:
            if row.cell(state) == NEVER:
                assert (row, state) not in reached
            elif len(set(cells)) > 1:
                assert (row, state) in reached, f"{row} in {state}"


def test_a_code_that_is_not_in_its_cell_is_named_with_what_is_permitted() -> None:
    story = Story()
    [anna] = story.completing("anna")
    heartbeat = c.Heartbeat(group_id=GROUP, at_ms=NOW, generation_id=1, member_id=anna.id)
    wrong = decide(story.settings, story.group, c.Heartbeat(group_id=GROUP, at_ms=NOW, generation_id=9, member_id="x"))

    assert what_is_not_permitted(story.settings, story.group, heartbeat, wrong.answer) == (
        "Heartbeat, a member in CompletingRebalance: UNKNOWN_MEMBER_ID was answered, permitted is NONE."
    )


def test_a_follower_in_the_sync_phase_may_wait_and_the_leader_may_not() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    usual: dict[str, Any] = {"group_id": GROUP, "at_ms": NOW, "generation_id": 2}

    assert may_be_parked(story.settings, story.group, c.SyncGroup(**usual, member_id=ben.id))
    assert not may_be_parked(story.settings, story.group, c.SyncGroup(**usual, member_id=anna.id))


def test_a_leader_in_stable_that_is_told_of_the_present_generation_is_not_permitted() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben")
    again = anna.asks_to_join().command
    present = joined(story.group, anna.id)

    assert what_is_not_permitted(story.settings, replace(story.group, state=State.STABLE), again, present) == (
        "JoinGroup, the leader in Stable: NONE was answered, permitted is PARKED or NEXT_GENERATION."
    )


def test_each_partition_of_a_commit_has_its_own_code() -> None:
    story = Story()
    [anna] = story.stable("anna")
    offsets = (c.OffsetToCommit("foo", 0, 1), c.OffsetToCommit("foo", 1, 1, metadata="x" * 5_000))
    command = c.CommitOffsets(group_id=GROUP, at_ms=NOW, generation_id=1, member_id=anna.id, offsets=offsets)
    answer: Any = decide(story.settings, story.group, command).answer
    codes = [code for _, code in parts_of(story.settings, story.group, command, answer)]

    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert what_is_not_permitted(story.settings, story.group, command, answer) is None
    kind = "OffsetToCommit, with a note that is too long"
    assert kind in str(what_is_not_permitted(story.settings, story.group, command, committed(command, ErrorCode.NONE)))


def test_a_cell_permits_codes_and_turns_and_nothing_else() -> None:
    for row in ROWS:
        for state in COLUMN:
            assert all(isinstance(each, ErrorCode | Turn) for each in row.cell(state))
