"""What a request gets in each state of the group: the protocol as a table, apart from the code that decides.

Read a row from left to right: this request, made by somebody of whom this is true, gets this while there is no group,
while the group is Empty, while it prepares a rebalance, while it completes one, and while it is Stable. Of the rows of
one request the first that fits holds, so their order is the order in which Kafka checks.

`PARKED` means that there is no answer yet: it depends on what other members do. `NEVER` marks what cannot be. Where a
JoinGroup gets OK, it is told of the present generation.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, State, Waiting
from regroup.coordinator.settings import Settings
from regroup.lab.checker import response_conditions as who
from regroup.lab.checker.response_conditions import OfPartition, OfTopic
from regroup.protocol.errors import ErrorCode as E


class Turn(Enum):
    """What may happen to a request instead of an answer with a code, or with one."""

    PARKED = "is parked"
    NEXT_GENERATION = "ends the join phase, and is told of the next generation"


Cell: TypeAlias = tuple[E | Turn, ...]
"""What is permitted: any of these."""
Fits: TypeAlias = Callable[[Settings, Group, Any], bool]
"""Whether a row speaks of whoever asks this, with the group as it was before."""

PARKED: Final[Cell] = (Turn.PARKED,)
ENDS_IT: Final[Cell] = (Turn.PARKED, Turn.NEXT_GENERATION)
"""Parked; or answered at once with the next generation, if everybody else was waiting for this one."""
EITHER: Final[Cell] = (*ENDS_IT, E.NONE)
"""It depends on the vote whether there is a rebalance."""
OK: Final[Cell] = (E.NONE,)
RETURNS: Final[Cell] = (E.MEMBER_ID_REQUIRED,)
"""Given an id, and asked to come back with it."""
UNKNOWN: Final[Cell] = (E.UNKNOWN_MEMBER_ID,)
REBALANCE: Final[Cell] = (E.REBALANCE_IN_PROGRESS,)
ILLEGAL: Final[Cell] = (E.ILLEGAL_GENERATION,)
NON_EMPTY: Final[Cell] = (E.NON_EMPTY_GROUP,)
NO_GROUP: Final[Cell] = (E.GROUP_ID_NOT_FOUND,)
NEVER: Final[Cell] = ()


class Row(NamedTuple):
    """One request, of whom it holds, and what it gets."""

    request: type[Any]
    who: Fits
    no_group: Cell
    empty: Cell
    preparing: Cell
    completing: Cell
    stable: Cell

    def cell(self, state: State) -> Cell:
        return (self.no_group, self.empty, self.preparing, self.completing, self.stable)[COLUMN[state]]

    def __str__(self) -> str:
        return f"{self.request.__name__}, {self.who.__doc__}"


COLUMN: Final = {
    state: column
    for column, state in enumerate((State.DEAD, State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE))
}


def always(request: type[Any], who: Fits, code: E) -> Row:
    """The same in every state."""
    return Row(request, who, (code,), (code,), (code,), (code,), (code,))


def checks_of_a_member(request: type[Any]) -> tuple[Row, ...]:
    """What SyncGroup, Heartbeat and commits have in common. Who asks is looked at before the generation is."""
    return (
        always(request, who.has_an_unknown_instance_id, E.UNKNOWN_MEMBER_ID),
        always(request, who.was_replaced_under_its_instance_id, E.FENCED_INSTANCE_ID),
        always(request, who.is_no_member, E.UNKNOWN_MEMBER_ID),
        always(request, who.is_of_another_generation, E.ILLEGAL_GENERATION),
    )


TxnCommit: TypeAlias = c.CommitTransactionalOffsets

# fmt: off
ROWS: Final[tuple[Row, ...]] = (
    always(c.JoinGroup, who.names_no_group, E.INVALID_GROUP_ID),
    always(c.JoinGroup, who.asks_for_a_session_out_of_bounds, E.INVALID_SESSION_TIMEOUT),
    #   request, who                                       no group    Empty       Preparing   Completing  Stable
    Row(c.JoinGroup, who.has_an_id_where_no_group_is,      UNKNOWN,    NEVER,      NEVER,      NEVER,      NEVER),
    always(c.JoinGroup, who.finds_no_room, E.GROUP_MAX_SIZE_REACHED),
    always(c.JoinGroup, who.shares_no_protocol, E.INCONSISTENT_GROUP_PROTOCOL),
    always(c.JoinGroup, who.has_a_reserved_id_and_an_instance_id, E.UNKNOWN_SERVER_ERROR),
    Row(c.JoinGroup, who.has_a_reserved_id,                NEVER,      PARKED,     ENDS_IT,    PARKED,     PARKED),
    Row(c.JoinGroup, who.comes_back_unchanged,             NEVER,      NEVER,      ENDS_IT,    ENDS_IT,    OK),
    Row(c.JoinGroup, who.comes_back_changed,               NEVER,      NEVER,      ENDS_IT,    ENDS_IT,    EITHER),
    Row(c.JoinGroup, who.is_a_new_static_member,           PARKED,     PARKED,     ENDS_IT,    PARKED,     PARKED),
    Row(c.JoinGroup, who.is_new_since_version_4,           RETURNS,    RETURNS,    RETURNS,    RETURNS,    RETURNS),
    Row(c.JoinGroup, who.is_new,                           PARKED,     PARKED,     ENDS_IT,    PARKED,     PARKED),
    always(c.JoinGroup, who.has_an_unknown_instance_id, E.UNKNOWN_MEMBER_ID),
    always(c.JoinGroup, who.was_replaced_under_its_instance_id, E.FENCED_INSTANCE_ID),
    always(c.JoinGroup, who.is_no_member, E.UNKNOWN_MEMBER_ID),
    Row(c.JoinGroup, who.changed_its_protocols,            NEVER,      NEVER,      ENDS_IT,    ENDS_IT,    ENDS_IT),
    Row(c.JoinGroup, who.leads,                            NEVER,      NEVER,      ENDS_IT,    OK,         ENDS_IT),
    Row(c.JoinGroup, who.follows,                          NEVER,      NEVER,      ENDS_IT,    OK,         OK),

    always(c.SyncGroup, who.names_no_group, E.INVALID_GROUP_ID),
    *checks_of_a_member(c.SyncGroup),
    always(c.SyncGroup, who.names_another_protocol, E.INCONSISTENT_GROUP_PROTOCOL),
    #   request, who                                       no group    Empty       Preparing   Completing  Stable
    Row(c.SyncGroup, who.leads,                            NEVER,      NEVER,      REBALANCE,  OK,         OK),
    Row(c.SyncGroup, who.follows,                          NEVER,      NEVER,      REBALANCE,  PARKED,     OK),

    always(c.Heartbeat, who.names_no_group, E.INVALID_GROUP_ID),
    *checks_of_a_member(c.Heartbeat),
    Row(c.Heartbeat, who.is_a_member,                      NEVER,      NEVER,      REBALANCE,  OK,         OK),

    always(c.LeaveGroup, who.names_no_group, E.INVALID_GROUP_ID),
    always(c.LeaveGroup, who.asks_anything_else, E.NONE),
    Row(c.Leaving, who.gives_its_reserved_id_back,         NEVER,      OK,         OK,         OK,         OK),
    Row(c.Leaving, who.is_named_by_its_instance_id,        NEVER,      NEVER,      OK,         OK,         OK),
    always(c.Leaving, who.has_an_unknown_instance_id, E.UNKNOWN_MEMBER_ID),
    always(c.Leaving, who.was_replaced_under_its_instance_id, E.FENCED_INSTANCE_ID),
    always(c.Leaving, who.is_no_member, E.UNKNOWN_MEMBER_ID),
    Row(c.Leaving, who.is_a_member,                        NEVER,      NEVER,      OK,         OK,         OK),

    #   request, who                                       no group    Empty       Preparing   Completing  Stable
    Row(c.CommitOffsets, who.stands_outside_the_group,     OK,         OK,         UNKNOWN,    UNKNOWN,    UNKNOWN),
    Row(c.CommitOffsets, who.has_no_generation,            OK,         OK,         NEVER,      NEVER,      NEVER),
    Row(c.CommitOffsets, who.knows_missing_groups,         NO_GROUP,   NEVER,      NEVER,      NEVER,      NEVER),
    Row(c.CommitOffsets, who.is_too_old_to_know_them,      ILLEGAL,    NEVER,      NEVER,      NEVER,      NEVER),
    *checks_of_a_member(c.CommitOffsets),
    Row(c.CommitOffsets, who.is_a_member,                  NEVER,      NEVER,      OK,         REBALANCE,  OK),

    Row(TxnCommit, who.stands_outside_the_group,           OK,         OK,         OK,         OK,         OK),
    Row(TxnCommit, who.has_no_generation,                  OK,         OK,         NEVER,      NEVER,      NEVER),
    Row(TxnCommit, who.asks_where_no_group_is,             ILLEGAL,    NEVER,      NEVER,      NEVER,      NEVER),
    *checks_of_a_member(TxnCommit),
    Row(TxnCommit, who.is_a_member,                        NEVER,      NEVER,      OK,         OK,         OK),
    always(c.EndTransaction, who.asks_anything_else, E.NONE),

    # One partition of a commit that is accepted otherwise.
    always(c.OffsetToCommit, who.writes_too_long_a_note, E.OFFSET_METADATA_TOO_LARGE),
    always(c.OffsetToCommit, who.asks_anything_else, E.NONE),

    always(c.FetchOffsets, who.asks_anything_else, E.NONE),
    always(OfPartition, who.wants_it_stable_and_it_is_not, E.UNSTABLE_OFFSET_COMMIT),
    always(OfPartition, who.asks_anything_else, E.NONE),
    always(c.DescribeGroup, who.asks_anything_else, E.NONE),

    #   request, who                                       no group    Empty       Preparing   Completing  Stable
    always(c.DeleteGroup, who.names_no_group, E.INVALID_GROUP_ID),
    Row(c.DeleteGroup, who.asks_anything_else,             NO_GROUP,   OK,         NON_EMPTY,  NON_EMPTY,  NON_EMPTY),
    always(c.DeleteOffsets, who.names_no_group, E.INVALID_GROUP_ID),
    Row(c.DeleteOffsets, who.asks_of_consumers,            NEVER,      OK,         OK,         OK,         OK),
    Row(c.DeleteOffsets, who.asks_anything_else,           NO_GROUP,   OK,         NON_EMPTY,  NON_EMPTY,  NON_EMPTY),
    always(OfTopic, who.names_a_subscribed_topic, E.GROUP_SUBSCRIBED_TO_TOPIC),
    always(OfTopic, who.asks_anything_else, E.NONE),
)
# fmt: on

OF_A_REFUSED_ASSIGNMENT: Final = (
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.UNKNOWN_SERVER_ERROR,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)

AFTER_THE_WAIT: Final[dict[Waiting, Cell]] = {
    Waiting.JOIN: (E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID),
    Waiting.SYNC: (E.NONE, E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID, *OF_A_REFUSED_ASSIGNMENT),
}
"""How a wait can end: the phase is over, the member was taken out or the next rebalance begins, somebody has taken its
place, or Kafka's own log refuses the assignment, which everybody hears of who waits for it. When the member of a parked
SyncGroup is taken out there is no answer at all."""

NOT_SERVED: Final = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)
"""What everybody gets from a coordinator that does not run, loads, or has let its groups go."""

_OF: Final[dict[type[Any], list[tuple[Fits, Row]]]] = {}
for _row in ROWS:
    _OF.setdefault(_row.request, []).append((_row.who, _row))


def row_of(settings: Settings, group: Group, asked: Any) -> Row:
    """The row that holds for a command, or for one part of it, with the group as it was before."""
    for fits, row in _OF[type(asked)]:
        if fits(settings, group, asked):
            return row
    raise LookupError(f"The table of expected answers has no row for {asked}.")


def may_be_parked(settings: Settings, group: Group, command: c.Command) -> bool:
    return Turn.PARKED in row_of(settings, group, command).cell(group.state)


def what_is_not_permitted(settings: Settings, group: Group, command: c.Command, answer: Any) -> str | None:
    """A sentence, if the table has another answer in this place."""
    for asked, code in parts_of(settings, group, command, answer):
        row = row_of(settings, group, asked)
        cell = row.cell(group.state)
        if code not in cell:
            permitted = " or ".join(each.name for each in cell) or "nothing, for this cannot be"
            answered = code.name if isinstance(code, Turn) else E.named(code)
            return f"{row} in {group.state}: {answered} was answered, permitted is {permitted}."
    return None


def parts_of(settings: Settings, group: Group, command: c.Command, answer: Any) -> Iterator[tuple[Any, int | Turn]]:
    """What was asked, each part with its code. The parts count where the whole was accepted."""
    match command:
        case c.JoinGroup() if answer.error_code == 0 and answer.generation_id != group.generation:
            yield command, Turn.NEXT_GENERATION
        case c.LeaveGroup():
            yield command, answer.error_code
            yield from those_who_leave(group, command, answer)
        case c.CommitOffsets() | c.CommitTransactionalOffsets():
            accepts = row_of(settings, group, command).cell(group.state) == OK
            codes = {(t.name, row.partition_index): row.error_code for t in answer.topics for row in t.partitions}
            for offset in command.offsets:
                yield (offset if accepts else command), codes[offset.topic, offset.partition]
        case c.FetchOffsets():
            yield command, answer.error_code
            for topic in answer.topics:
                for row in topic.partitions:
                    asked = OfPartition(topic.name, row.partition_index, command.require_stable)
                    yield asked, row.error_code
        case c.DeleteOffsets():
            yield command, answer.error_code
            for topic in answer.topics:
                yield from ((OfTopic(topic.name), row.error_code) for row in topic.partitions)
        case _:
            yield command, answer.error_code


def those_who_leave(group: Group, command: c.LeaveGroup, answer: Any) -> Iterator[tuple[c.Leaving, int]]:
    """Whoever is named twice is asked about once: by then it is gone."""
    named: set[str | None] = set()
    for leaving, left in zip(command.members, answer.members, strict=False):
        name = leaving.member_id or group.static_members.get(leaving.group_instance_id or "")
        if name not in named:
            yield leaving, left.error_code
        named.add(name)
