"""What a member does about each error code of the group APIs, as the Java client does it: one table for each API.

    reaction_to(JoinGroupResponse, ErrorCode.NOT_COORDINATOR)      look the coordinator up, try again after a pause

A code that has no row comes out of poll(), or is tried again, as the API's last column says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import Struct

from regroup.members.consumer.effects import ErrorKind
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import FindCoordinatorResponse
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)


class Then(Enum):
    """What comes next."""

    AT_ONCE = "join again at once"
    AFTER_BACKOFF = "the same again after a pause"
    RAISE = "the error comes out of poll(), or out of the commit"
    IGNORE = "nothing"


class Forgets(Enum):
    """What the member no longer believes. Without its generation it has lost its partitions."""

    NOTHING = "nothing"
    GENERATION = "its generation"
    MEMBER_ID = "its generation and its member id"


@dataclass(frozen=True, slots=True)
class Reaction:
    """One row. `forgets` counts only if the generation is still the one that was sent."""

    then: Then
    forgets: Forgets = Forgets.NOTHING
    finds_coordinator: bool = False
    kind: ErrorKind = ErrorKind.GROUP
    fatal: bool = False


AGAIN: Final = Reaction(Then.AFTER_BACKOFF)
REJOIN: Final = Reaction(Then.AT_ONCE)
LOOK_UP: Final = Reaction(Then.AFTER_BACKOFF, finds_coordinator=True)
NEW_GENERATION: Final = Reaction(Then.AT_ONCE, Forgets.GENERATION)
NEW_MEMBER_ID: Final = Reaction(Then.AT_ONCE, Forgets.MEMBER_ID)
REFUSED: Final = Reaction(Then.RAISE, fatal=True)
UNEXPECTED: Final = Reaction(Then.RAISE)
FENCED: Final = Reaction(Then.RAISE, kind=ErrorKind.FENCED, fatal=True)
TOO_OLD: Final = Reaction(Then.RAISE, kind=ErrorKind.SETTINGS, fatal=True)

COMMIT_AGAIN: Final = Reaction(Then.AFTER_BACKOFF, kind=ErrorKind.RETRIABLE_COMMIT_FAILED)
COMMIT_ELSEWHERE: Final = Reaction(Then.AFTER_BACKOFF, finds_coordinator=True, kind=ErrorKind.RETRIABLE_COMMIT_FAILED)

FIND_COORDINATOR: Final[dict[int, Reaction]] = {
    E.GROUP_AUTHORIZATION_FAILED: REFUSED,
    E.INVALID_GROUP_ID: REFUSED,
}

JOIN_GROUP: Final[dict[int, Reaction]] = {
    E.MEMBER_ID_REQUIRED: REJOIN,
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: NEW_MEMBER_ID,
    E.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    E.COORDINATOR_NOT_AVAILABLE: LOOK_UP,
    E.NOT_COORDINATOR: LOOK_UP,
    E.FENCED_INSTANCE_ID: FENCED,
    E.INCONSISTENT_GROUP_PROTOCOL: REFUSED,
    E.INVALID_SESSION_TIMEOUT: REFUSED,
    E.INVALID_GROUP_ID: REFUSED,
    E.GROUP_AUTHORIZATION_FAILED: REFUSED,
    E.GROUP_MAX_SIZE_REACHED: REFUSED,
    E.UNSUPPORTED_VERSION: TOO_OLD,
}

SYNC_GROUP: Final[dict[int, Reaction]] = {
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: NEW_MEMBER_ID,
    E.ILLEGAL_GENERATION: NEW_GENERATION,
    E.COORDINATOR_NOT_AVAILABLE: LOOK_UP,
    E.NOT_COORDINATOR: LOOK_UP,
    E.FENCED_INSTANCE_ID: FENCED,
    E.GROUP_AUTHORIZATION_FAILED: REFUSED,
}

# A heartbeat has nobody to complain to: what is not named here is tried again.
HEARTBEAT: Final[dict[int, Reaction]] = {
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: NEW_MEMBER_ID,
    E.ILLEGAL_GENERATION: NEW_GENERATION,
    E.FENCED_INSTANCE_ID: Reaction(Then.RAISE, Forgets.MEMBER_ID, kind=ErrorKind.FENCED, fatal=True),
    E.COORDINATOR_NOT_AVAILABLE: LOOK_UP,
    E.NOT_COORDINATOR: LOOK_UP,
}

OFFSET_COMMIT: Final[dict[int, Reaction]] = {
    E.COORDINATOR_LOAD_IN_PROGRESS: COMMIT_AGAIN,
    E.UNKNOWN_TOPIC_OR_PARTITION: COMMIT_AGAIN,
    E.COORDINATOR_NOT_AVAILABLE: COMMIT_ELSEWHERE,
    E.NOT_COORDINATOR: COMMIT_ELSEWHERE,
    E.REQUEST_TIMED_OUT: COMMIT_ELSEWHERE,
    E.REBALANCE_IN_PROGRESS: Reaction(Then.RAISE, kind=ErrorKind.REBALANCE_IN_PROGRESS),
    E.ILLEGAL_GENERATION: Reaction(Then.RAISE, Forgets.GENERATION, kind=ErrorKind.COMMIT_FAILED),
    E.UNKNOWN_MEMBER_ID: Reaction(Then.RAISE, Forgets.MEMBER_ID, kind=ErrorKind.COMMIT_FAILED),
    E.FENCED_INSTANCE_ID: FENCED,
    E.GROUP_AUTHORIZATION_FAILED: REFUSED,
    E.TOPIC_AUTHORIZATION_FAILED: REFUSED,
    E.OFFSET_METADATA_TOO_LARGE: UNEXPECTED,
    E.INVALID_COMMIT_OFFSET_SIZE: UNEXPECTED,
}

OFFSET_FETCH: Final[dict[int, Reaction]] = {
    E.COORDINATOR_NOT_AVAILABLE: LOOK_UP,
    E.NOT_COORDINATOR: LOOK_UP,
    E.GROUP_AUTHORIZATION_FAILED: REFUSED,
}

OFFSET_FETCH_PARTITION: Final[dict[int, Reaction]] = {
    E.UNSTABLE_OFFSET_COMMIT: AGAIN,
    E.TOPIC_AUTHORIZATION_FAILED: REFUSED,
}


def _raise(code: int) -> Reaction:
    return UNEXPECTED


def _again(code: int) -> Reaction:
    return AGAIN


def _again_if_retriable(code: int) -> Reaction:
    return AGAIN if code in frozenset(E) and E(code).retriable else UNEXPECTED


TABLES: Final[dict[type[Struct], tuple[dict[int, Reaction], Callable[[int], Reaction]]]] = {
    FindCoordinatorResponse: (FIND_COORDINATOR, _again_if_retriable),
    JoinGroupResponse: (JOIN_GROUP, _raise),
    SyncGroupResponse: (SYNC_GROUP, _raise),
    HeartbeatResponse: (HEARTBEAT, _again),
    OffsetCommitResponse: (OFFSET_COMMIT, _raise),
    OffsetFetchResponse: (OFFSET_FETCH, _again_if_retriable),
    OffsetFetchResponsePartitions: (OFFSET_FETCH_PARTITION, _raise),
}
"""For each response, or part of one, its table, and what is done about all other codes."""


def reaction_to(response: type[Struct], code: int) -> Reaction:
    """The row for a code other than 0, also for one that Kafka does not have."""
    table, otherwise = TABLES[response]
    return table.get(code) or otherwise(code)
