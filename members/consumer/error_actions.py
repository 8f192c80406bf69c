"""What a member does about each error code of the group APIs, as the Java client does it: one table for each API.

    action_for(JoinGroupResponse, ErrorCode.NOT_COORDINATOR)      find the coordinator again, retry after a backoff

A code without a row is raised out of poll() or retried: `action_for` has the rule of each API.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import Struct

from regroup.members.consumer.effects import ConsumerErrorKind
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import FindCoordinatorResponse
from regroup.protocol.messages.group import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)


class Recovery(Enum):
    """What the member does next after an error."""

    REJOIN = "send JoinGroup at once"
    RETRY_AFTER_BACKOFF = "send the request again after retry_backoff_ms"
    RAISE = "let the error come out of poll(), or out of the commit"


class MembershipReset(Enum):
    """What the member drops after an error: nothing, its generation, or its generation and its member id.

    A member without a generation has lost its partitions.
    """

    NONE = "nothing"
    GENERATION = "the generation"
    MEMBER_ID = "the generation and the member id"


@dataclass(frozen=True, slots=True)
class ErrorAction:
    """One row of a table: what an error code makes the member do.

    `reset` applies only if the generation is still the one with which the request was sent. For OffsetCommit it applies
    in a newer generation too, except while JoinGroup is in flight.
    """

    recovery: Recovery
    reset: MembershipReset = MembershipReset.NONE
    rediscovers_coordinator: bool = False
    kind: ConsumerErrorKind = ConsumerErrorKind.GROUP
    is_fatal: bool = False


RETRY: Final = ErrorAction(Recovery.RETRY_AFTER_BACKOFF)
REJOIN: Final = ErrorAction(Recovery.REJOIN)
REDISCOVER: Final = ErrorAction(Recovery.RETRY_AFTER_BACKOFF, rediscovers_coordinator=True)
RESET_GENERATION: Final = ErrorAction(Recovery.REJOIN, MembershipReset.GENERATION)
RESET_MEMBER_ID: Final = ErrorAction(Recovery.REJOIN, MembershipReset.MEMBER_ID)
FATAL: Final = ErrorAction(Recovery.RAISE, is_fatal=True)
NOT_FATAL: Final = ErrorAction(Recovery.RAISE)
FENCED: Final = ErrorAction(Recovery.RAISE, kind=ConsumerErrorKind.FENCED, is_fatal=True)
BROKER_TOO_OLD: Final = ErrorAction(Recovery.RAISE, kind=ConsumerErrorKind.SETTINGS, is_fatal=True)

RETRY_COMMIT: Final = ErrorAction(Recovery.RETRY_AFTER_BACKOFF, kind=ConsumerErrorKind.RETRIABLE_COMMIT_FAILED)
REDISCOVER_FOR_COMMIT: Final = ErrorAction(
    Recovery.RETRY_AFTER_BACKOFF, rediscovers_coordinator=True, kind=ConsumerErrorKind.RETRIABLE_COMMIT_FAILED
)

FIND_COORDINATOR: Final[dict[int, ErrorAction]] = {
    E.GROUP_AUTHORIZATION_FAILED: FATAL,
    E.INVALID_GROUP_ID: FATAL,
}

JOIN_GROUP: Final[dict[int, ErrorAction]] = {
    E.MEMBER_ID_REQUIRED: REJOIN,
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: RESET_MEMBER_ID,
    E.COORDINATOR_LOAD_IN_PROGRESS: RETRY,
    E.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    E.NOT_COORDINATOR: REDISCOVER,
    E.FENCED_INSTANCE_ID: FENCED,
    E.INCONSISTENT_GROUP_PROTOCOL: FATAL,
    E.INVALID_SESSION_TIMEOUT: FATAL,
    E.INVALID_GROUP_ID: FATAL,
    E.GROUP_AUTHORIZATION_FAILED: FATAL,
    E.GROUP_MAX_SIZE_REACHED: FATAL,
    E.UNSUPPORTED_VERSION: BROKER_TOO_OLD,
}

SYNC_GROUP: Final[dict[int, ErrorAction]] = {
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: RESET_MEMBER_ID,
    E.ILLEGAL_GENERATION: RESET_GENERATION,
    E.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    E.NOT_COORDINATOR: REDISCOVER,
    E.FENCED_INSTANCE_ID: FENCED,
    E.GROUP_AUTHORIZATION_FAILED: FATAL,
}

HEARTBEAT: Final[dict[int, ErrorAction]] = {
    E.REBALANCE_IN_PROGRESS: REJOIN,
    E.UNKNOWN_MEMBER_ID: RESET_MEMBER_ID,
    E.ILLEGAL_GENERATION: RESET_GENERATION,
    E.FENCED_INSTANCE_ID: ErrorAction(
        Recovery.RAISE, MembershipReset.MEMBER_ID, kind=ConsumerErrorKind.FENCED, is_fatal=True
    ),
    E.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    E.NOT_COORDINATOR: REDISCOVER,
}

OFFSET_COMMIT: Final[dict[int, ErrorAction]] = {
    E.COORDINATOR_LOAD_IN_PROGRESS: RETRY_COMMIT,
    E.UNKNOWN_TOPIC_OR_PARTITION: RETRY_COMMIT,
    E.COORDINATOR_NOT_AVAILABLE: REDISCOVER_FOR_COMMIT,
    E.NOT_COORDINATOR: REDISCOVER_FOR_COMMIT,
    E.REQUEST_TIMED_OUT: REDISCOVER_FOR_COMMIT,
    E.REBALANCE_IN_PROGRESS: ErrorAction(Recovery.RAISE, kind=ConsumerErrorKind.REBALANCE_IN_PROGRESS),
    E.ILLEGAL_GENERATION: ErrorAction(Recovery.RAISE, MembershipReset.GENERATION, kind=ConsumerErrorKind.COMMIT_FAILED),
    E.UNKNOWN_MEMBER_ID: ErrorAction(Recovery.RAISE, MembershipReset.MEMBER_ID, kind=ConsumerErrorKind.COMMIT_FAILED),
    E.FENCED_INSTANCE_ID: FENCED,
    E.GROUP_AUTHORIZATION_FAILED: FATAL,
    E.TOPIC_AUTHORIZATION_FAILED: FATAL,
}

OFFSET_FETCH: Final[dict[int, ErrorAction]] = {
    E.COORDINATOR_NOT_AVAILABLE: REDISCOVER,
    E.NOT_COORDINATOR: REDISCOVER,
    E.GROUP_AUTHORIZATION_FAILED: FATAL,
}

OFFSET_FETCH_PARTITION: Final[dict[int, ErrorAction]] = {
    E.UNSTABLE_OFFSET_COMMIT: RETRY,
    E.TOPIC_AUTHORIZATION_FAILED: FATAL,
}

_TABLES: Final[dict[type[Struct], dict[int, ErrorAction]]] = {
    FindCoordinatorResponse: FIND_COORDINATOR,
    JoinGroupResponse: JOIN_GROUP,
    SyncGroupResponse: SYNC_GROUP,
    HeartbeatResponse: HEARTBEAT,
    OffsetCommitResponse: OFFSET_COMMIT,
    OffsetFetchResponse: OFFSET_FETCH,
    OffsetFetchResponsePartitions: OFFSET_FETCH_PARTITION,
}
_RETRIES_RETRIABLE_CODES: Final = (FindCoordinatorResponse, OffsetFetchResponse)


def action_for(response: type[Struct], code: int) -> ErrorAction:
    """The action for an error code other than 0 in this response or part of a response, also for an unknown code.

    Codes without a row: a heartbeat is always retried, since no application call waits for it; FindCoordinator and
    OffsetFetch are retried if Kafka calls the code retriable; all others are raised.
    """
    action = _TABLES[response].get(code)
    if action is not None:
        return action
    is_retriable = code in frozenset(E) and E(code).retriable
    if response is HeartbeatResponse or (response in _RETRIES_RETRIABLE_CODES and is_retriable):
        return RETRY
    return NOT_FATAL
