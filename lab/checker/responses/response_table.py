"""The response table: what a request gets in each state of its group, independent of the code that decides.

Read a row from left to right: this request, if this condition holds, gets this response while there is no group, and
while the group is Empty, PreparingRebalance, CompletingRebalance and Stable. The first row of a request whose condition
holds applies, so the order of the rows is the order in which Kafka checks.

`HELD`: there is no response yet, since it depends on other members. `NEVER`: this combination cannot occur. Where
a JoinGroup gets OK, its response has the present generation.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe
from regroup.coordinator.group import AwaitedResponse, Group, GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.responses import response_conditions as given
from regroup.lab.checker.responses.response_conditions import Condition
from regroup.protocol.errors import ErrorCode as E


class TableOutcome(Enum):
    """A permitted outcome that is not an error code."""

    HELD = "is held"
    NEXT_GENERATION = "ends the join phase, and its response has the next generation"


Cell: TypeAlias = tuple[E | TableOutcome, ...]
"""The outcomes that the table permits for one request in one state."""

HELD: Final[Cell] = (TableOutcome.HELD,)
HELD_OR_NEXT: Final[Cell] = (TableOutcome.HELD, TableOutcome.NEXT_GENERATION)
"""The response is held, or has the next generation at once because this was the last member to join."""
ANY_JOIN: Final[Cell] = (*HELD_OR_NEXT, E.NONE)
"""Any outcome of an accepted JoinGroup: `HELD_OR_NEXT`, or the present generation.

Which one is right depends on the selected protocol, which the table does not repeat.
"""
OK: Final[Cell] = (E.NONE,)
UNKNOWN: Final[Cell] = (E.UNKNOWN_MEMBER_ID,)
REBALANCE: Final[Cell] = (E.REBALANCE_IN_PROGRESS,)
ILLEGAL: Final[Cell] = (E.ILLEGAL_GENERATION,)
NON_EMPTY: Final[Cell] = (E.NON_EMPTY_GROUP,)
NO_GROUP: Final[Cell] = (E.GROUP_ID_NOT_FOUND,)
NEVER: Final[Cell] = ()

STATES: Final = (
    GroupState.DEAD,
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
)
"""The states of the table's columns, in their order. Dead stands for a group that does not exist."""


class ResponseRow(NamedTuple):
    """A row of the response table: a type of request, the condition of the row, and the permitted outcomes in each
    state."""

    request: type[Any]
    condition: Condition
    cells: tuple[Cell, ...]

    def cell(self, state: GroupState) -> Cell:
        """The outcomes that the table permits in this state of the group: error codes, or that the response is held."""
        return self.cells[_COLUMNS[state]]

    def __str__(self) -> str:
        return f"{self.request.__name__}, {self.condition.text}"


_COLUMNS: Final = {state: column for column, state in enumerate(STATES)}


def row(request: type[Any], condition: Condition, *cells: Cell) -> ResponseRow:
    """Make a row of the response table; `cells` are the permitted outcomes in each of `STATES`, in their order."""
    return ResponseRow(request, condition, cells)


def always(request: type[Any], condition: Condition, code: E) -> ResponseRow:
    """Make a row of the response table that permits only this error code, whatever the state of the group."""
    return ResponseRow(request, condition, ((code,),) * len(STATES))


def member_checks(request: type[Any]) -> tuple[ResponseRow, ...]:
    """The rows that SyncGroup, Heartbeat and commits have in common: first for the member's ids, then for its
    generation."""
    return (
        always(request, given.UNKNOWN_INSTANCE_ID, E.UNKNOWN_MEMBER_ID),
        always(request, given.FENCED_INSTANCE_ID, E.FENCED_INSTANCE_ID),
        always(request, given.NOT_A_MEMBER, E.UNKNOWN_MEMBER_ID),
        always(request, given.OTHER_GENERATION, E.ILLEGAL_GENERATION),
    )


# fmt: off
ROWS: Final[tuple[ResponseRow, ...]] = (
    always(c.JoinGroup, given.NO_GROUP_ID, E.INVALID_GROUP_ID),
    always(c.JoinGroup, given.SESSION_TIMEOUT_OUT_OF_BOUNDS, E.INVALID_SESSION_TIMEOUT),
    #   request, condition                                  no group  Empty   Preparing     Completing    Stable
    row(c.JoinGroup, given.MEMBER_ID_WITHOUT_GROUP,         UNKNOWN,  NEVER,  NEVER,        NEVER,        NEVER),
    always(c.JoinGroup, given.GROUP_IS_FULL, E.GROUP_MAX_SIZE_REACHED),
    always(c.JoinGroup, given.NO_COMMON_PROTOCOL, E.INCONSISTENT_GROUP_PROTOCOL),
    always(c.JoinGroup, given.PENDING_ID_AND_INSTANCE_ID, E.UNKNOWN_SERVER_ERROR),
    row(c.JoinGroup, given.PENDING_ID,                      NEVER,    HELD,   HELD_OR_NEXT, HELD,         HELD),
    row(c.JoinGroup, given.STATIC_RESTART_SAME_PROTOCOLS,   NEVER,    NEVER,  HELD_OR_NEXT, HELD_OR_NEXT, OK),
    row(c.JoinGroup, given.STATIC_RESTART_OTHER_PROTOCOLS,  NEVER,    NEVER,  HELD_OR_NEXT, HELD_OR_NEXT, ANY_JOIN),
    row(c.JoinGroup, given.NEW_STATIC_MEMBER,               HELD,     HELD,   HELD_OR_NEXT, HELD,         HELD),
    always(c.JoinGroup, given.NEW_MEMBER_SINCE_VERSION_4, E.MEMBER_ID_REQUIRED),
    row(c.JoinGroup, given.NEW_MEMBER,                      HELD,     HELD,   HELD_OR_NEXT, HELD,         HELD),
    always(c.JoinGroup, given.UNKNOWN_INSTANCE_ID, E.UNKNOWN_MEMBER_ID),
    always(c.JoinGroup, given.FENCED_INSTANCE_ID, E.FENCED_INSTANCE_ID),
    always(c.JoinGroup, given.NOT_A_MEMBER, E.UNKNOWN_MEMBER_ID),
    row(c.JoinGroup, given.OTHER_PROTOCOLS,                 NEVER,    NEVER,  HELD_OR_NEXT, HELD_OR_NEXT, HELD_OR_NEXT),
    row(c.JoinGroup, given.THE_LEADER,                      NEVER,    NEVER,  HELD_OR_NEXT, OK,           HELD_OR_NEXT),
    row(c.JoinGroup, given.A_FOLLOWER,                      NEVER,    NEVER,  HELD_OR_NEXT, OK,           OK),

    always(c.SyncGroup, given.NO_GROUP_ID, E.INVALID_GROUP_ID),
    *member_checks(c.SyncGroup),
    always(c.SyncGroup, given.OTHER_PROTOCOL_NAME, E.INCONSISTENT_GROUP_PROTOCOL),
    #   request, condition                                  no group  Empty   Preparing     Completing    Stable
    row(c.SyncGroup, given.THE_LEADER,                      NEVER,    NEVER,  REBALANCE,    OK,           OK),
    row(c.SyncGroup, given.A_FOLLOWER,                      NEVER,    NEVER,  REBALANCE,    HELD,         OK),

    always(c.Heartbeat, given.NO_GROUP_ID, E.INVALID_GROUP_ID),
    *member_checks(c.Heartbeat),
    row(c.Heartbeat, given.A_MEMBER,                        NEVER,    NEVER,  REBALANCE,    OK,           OK),

    always(c.LeaveGroup, given.NO_GROUP_ID, E.INVALID_GROUP_ID),
    always(c.LeaveGroup, given.ALWAYS, E.NONE),
    row(c.LeavingMember, given.PENDING_ID,                  NEVER,    OK,     OK,           OK,           OK),
    row(c.LeavingMember, given.INSTANCE_ID_ALONE,           NEVER,    NEVER,  OK,           OK,           OK),
    always(c.LeavingMember, given.UNKNOWN_INSTANCE_ID, E.UNKNOWN_MEMBER_ID),
    always(c.LeavingMember, given.FENCED_INSTANCE_ID, E.FENCED_INSTANCE_ID),
    always(c.LeavingMember, given.NOT_A_MEMBER, E.UNKNOWN_MEMBER_ID),
    row(c.LeavingMember, given.A_MEMBER,                    NEVER,    NEVER,  OK,           OK,           OK),

    #   request, condition                                  no group  Empty   Preparing     Completing    Stable
    row(c.OffsetCommit, given.NO_MEMBER_NOR_GENERATION,     OK,       OK,     UNKNOWN,      UNKNOWN,      UNKNOWN),
    row(c.OffsetCommit, given.NO_GENERATION_NOR_MEMBERS,    OK,       OK,     NEVER,        NEVER,        NEVER),
    row(c.OffsetCommit, given.UNDERSTANDS_NO_GROUP,         NO_GROUP, NEVER,  NEVER,        NEVER,        NEVER),
    row(c.OffsetCommit, given.THERE_IS_NO_GROUP,            ILLEGAL,  NEVER,  NEVER,        NEVER,        NEVER),
    *member_checks(c.OffsetCommit),
    row(c.OffsetCommit, given.A_MEMBER,                     NEVER,    NEVER,  OK,           REBALANCE,    OK),

    row(c.TxnOffsetCommit, given.NO_MEMBER_NOR_GENERATION,  OK,       OK,     OK,           OK,           OK),
    row(c.TxnOffsetCommit, given.NO_GENERATION_NOR_MEMBERS, OK,       OK,     NEVER,        NEVER,        NEVER),
    row(c.TxnOffsetCommit, given.UNDERSTANDS_NO_GROUP,      NO_GROUP, NEVER,  NEVER,        NEVER,        NEVER),
    row(c.TxnOffsetCommit, given.THERE_IS_NO_GROUP,         ILLEGAL,  NEVER,  NEVER,        NEVER,        NEVER),
    *member_checks(c.TxnOffsetCommit),
    row(c.TxnOffsetCommit, given.A_MEMBER,                  NEVER,    NEVER,  OK,           OK,           OK),
    always(c.EndTransaction, given.ALWAYS, E.NONE),

    # One partition of a commit that is accepted otherwise.
    always(c.RequestedOffset, given.METADATA_TOO_LONG, E.OFFSET_METADATA_TOO_LARGE),
    always(c.RequestedOffset, given.ALWAYS, E.NONE),

    always(c.OffsetFetch, given.ALWAYS, E.NONE),
    always(given.RequestedPartition, given.UNSTABLE_OFFSET, E.UNSTABLE_OFFSET_COMMIT),
    always(given.RequestedPartition, given.ALWAYS, E.NONE),
    always(c.DescribeGroup, given.ALWAYS, E.NONE),
    always(ConsumerGroupDescribe, given.ALWAYS, E.GROUP_ID_NOT_FOUND),

    #   request, condition                                  no group  Empty   Preparing     Completing    Stable
    row(c.DeleteGroup, given.ALWAYS,                        NO_GROUP, OK,     NON_EMPTY,    NON_EMPTY,    NON_EMPTY),
    always(c.OffsetDelete, given.NO_GROUP_ID, E.INVALID_GROUP_ID),
    row(c.OffsetDelete, given.GROUP_OF_CONSUMERS,           NEVER,    OK,     OK,           OK,           OK),
    row(c.OffsetDelete, given.ALWAYS,                       NO_GROUP, OK,     NON_EMPTY,    NON_EMPTY,    NON_EMPTY),
    always(given.RequestedTopic, given.SUBSCRIBED_TOPIC, E.GROUP_SUBSCRIBED_TO_TOPIC),
    always(given.RequestedTopic, given.ALWAYS, E.NONE),
)
# fmt: on

FAILED_APPEND_ERRORS: Final = (
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.UNKNOWN_SERVER_ERROR,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)

AFTER_HOLD: Final[dict[AwaitedResponse, Cell]] = {
    AwaitedResponse.JOIN: (E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID),
    AwaitedResponse.SYNC: (E.NONE, E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID, *FAILED_APPEND_ERRORS),
}
"""The responses that a held request may get, by its type.

The phase is over, the member was removed, the next rebalance begins, another process has replaced the member, or
Kafka's log fails to append the assignment. The held SyncGroup of a member that is removed gets no response at all.
"""

UNAVAILABLE_ERRORS: Final = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)
"""Errors of a coordinator that refuses every request: it loads, does not run, or is not the coordinator."""

_ROWS_BY_REQUEST: Final[dict[type[Any], list[ResponseRow]]] = {}
for _row in ROWS:
    _ROWS_BY_REQUEST.setdefault(_row.request, []).append(_row)


def find_row(settings: CoordinatorSettings, group: Group, asked: Any) -> ResponseRow:
    """The first row of the response table that applies to `asked`, a command or one part of it; `group` is the group
    before it."""
    for each in _ROWS_BY_REQUEST[type(asked)]:
        if each.condition.holds(settings, group, asked):
            return each
    raise LookupError(f"the response table has no row for {asked}")


def may_be_held(settings: CoordinatorSettings, group: Group, command: c.Command) -> bool:
    """Whether the table permits the coordinator to hold the response to this command."""
    return TableOutcome.HELD in find_row(settings, group, command).cell(group.state)


def table_violation(settings: CoordinatorSettings, group: Group, command: c.Command, response: Any) -> str | None:
    """Describe a response that the table does not permit; None if it is permitted."""
    for asked, code in response_parts(settings, group, command, response):
        applied = find_row(settings, group, asked)
        cell = applied.cell(group.state)
        if code not in cell:
            permitted = " or ".join(each.name for each in cell) or "nothing, since this cannot occur"
            given = code.name if isinstance(code, TableOutcome) else E.name_of(code)
            return f"{applied}, in {group.state}: due was {permitted}, and the response was {given}"
    return None


def response_parts(
    settings: CoordinatorSettings, group: Group, command: c.Command, response: Any
) -> Iterator[tuple[Any, int | TableOutcome]]:
    """Yield the command with its outcome, and each part of it (partition, topic or member) with its error code.

    The partitions of a commit are looked up in the table only if the commit as a whole is accepted.
    """
    match command:
        case c.JoinGroup() if response.error_code == 0 and response.generation_id != group.generation_id:
            yield command, TableOutcome.NEXT_GENERATION
        case c.LeaveGroup():
            yield command, response.error_code
            yield from leaving_members(group, command, response)
        case c.OffsetCommit() | c.TxnOffsetCommit():
            is_accepted = find_row(settings, group, command).cell(group.state) == OK
            codes = {(t.name, each.partition_index): each.error_code for t in response.topics for each in t.partitions}
            for offset in command.offsets:
                yield (offset if is_accepted else command), codes[offset.topic, offset.partition]
        case c.OffsetFetch():
            yield command, response.error_code
            for topic in response.topics:
                for each in topic.partitions:
                    part = given.RequestedPartition(topic.name, each.partition_index, command.require_stable)
                    yield part, each.error_code
        case c.OffsetDelete():
            yield command, response.error_code
            for topic in response.topics:
                yield from ((given.RequestedTopic(topic.name), each.error_code) for each in topic.partitions)
        case _:
            yield command, response.error_code


def leaving_members(group: Group, command: c.LeaveGroup, response: Any) -> Iterator[tuple[c.LeavingMember, int]]:
    """Yield each leaving member of a LeaveGroup with its error code.

    A member that is named twice is yielded once: the second entry finds it removed already.
    """
    seen: set[str | None] = set()
    for leaving, left in zip(command.members, response.members, strict=False):
        member_id = leaving.member_id or group.static_members.get(leaving.group_instance_id or "")
        if member_id not in seen:
            yield leaving, left.error_code
        seen.add(member_id)
