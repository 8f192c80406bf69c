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
    "revocation": "the time limit for giving up partitions ended",
    "classic-join": "the time limit to send JoinGroup again ended",
    "classic-sync": "the time limit to send SyncGroup ended",
    "log-append": "the log did not commit a record in time",
    "retention": "the periodic check of offsets was due",
    "transaction": "the transaction lasted longer than its timeout",
    "last-will": "the last will of a member's MQTT connection was published",
}
INTERNAL: Final = {
    "load of the group": "a coordinator loaded the group",
    "Kafka's log": "Kafka's log wrote a record or lost it",
    "the search for topics that match patterns": "the broker looked for topics that match patterns",
    "the start of the broker": "the broker started",
    "the end of the broker": "the broker stopped",
    "records that came in": "records came in",
    "the end of a transaction": "a transaction ended",
    "the plan": "the plan of the simulation said so",
}
"""What brokers do by themselves, by the `internal` of a stored cause. A test finds each such cause in the sources."""


def cause_text(cause: Cause) -> str:
    """The cause of an event as a clause, such as `JoinGroup of second came` or `a test did this (expire)`; `the cause
    is not recorded` for an empty cause.

    The clause can stand alone or after `because`.
    """
    if cause.test:
        return f"a test did this ({cause.test}{', which Kafka never does' if cause.beyond_kafka else ''})"
    if cause.api:
        return f"{cause.api} of {cause.client_id or 'a client without a name'} came"
    if cause.deadline:
        return DEADLINES.get(cause.deadline, f"the deadline {cause.deadline} passed")
    if cause.internal:
        return INTERNAL.get(cause.internal, f"the broker did this ({cause.internal})")
    return f"the cause is {NOT_RECORDED}"


def cause_of(history: KnownHistory, happening: GroupHappening) -> Explanation:
    """The recorded cause of an event as an explanation. If the request that caused the event was recorded and a fault
    rule hit it, a note says what the rule did."""
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
    """A clause about refused requests: for 2, `Heartbeat` and `UNKNOWN_MEMBER_ID` it is `2 Heartbeat requests were
    refused with UNKNOWN_MEMBER_ID`."""
    return f"{counted(count, f'{api} request')} {'was' if count == 1 else 'were'} refused with {answer}"
