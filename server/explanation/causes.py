"""The cause of an event in words: a request, a deadline, an act of the broker or of a test."""

from typing import Final

from regroup.coordinator.serialization import Cause
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.sentences import NOT_RECORDED, Explanation, counted, reason

DEADLINES: Final = {
    "session": "a session timeout ended",
    "new-member-join": "the time limit of a new member's first join phase ended",
    "pending-join": "the time limit of a new member id ended",
    "join-phase": "the join phase reached its deadline",
    "sync-phase": "the sync phase reached its deadline",
    "log-append": "the log did not commit a record in time",
    "retention": "the periodic check of offsets was due",
    "transaction": "the transaction lasted longer than its timeout",
    "last-will": "the last will of a member's MQTT connection was published",
}


def cause_text(cause: Cause) -> str:
    """`JoinGroup of second came`, `a test did this (expire)`; `the cause is not recorded` without one."""
    if cause.test:
        return f"a test did this ({cause.test}{', which Kafka never does' if cause.beyond_kafka else ''})"
    if cause.api:
        return f"{cause.api} of {cause.client_id or 'a client without a name'} came"
    if cause.deadline:
        return DEADLINES.get(cause.deadline, f"the deadline {cause.deadline} passed")
    return f"of {cause.internal}" if cause.internal else f"the cause is {NOT_RECORDED}"


def cause_of(history: KnownHistory, happening: GroupHappening) -> Explanation:
    """The cause, with what a fault rule did to the request where it was recorded."""
    exchange = history.exchange_of(happening)
    text = cause_text(happening.cause)
    if exchange is not None:
        host = exchange.client_host.lstrip("/")
        # In a simulation the host of a client is its own name, which the text has already.
        text += f" from {host}" if host not in ("unknown", happening.cause.client_id) else ""
        if exchange.fault:
            return reason(text, notes=[f"a fault rule did something to this request: {exchange.fault}"])
    return reason(text)


def refused_text(count: int, api: str, answer: str) -> str:
    """`2 Heartbeat requests were refused with UNKNOWN_MEMBER_ID`."""
    return f"{counted(count, f'{api} request')} {'was' if count == 1 else 'were'} refused with {answer}"
