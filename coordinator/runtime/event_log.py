"""The events of groups that a coordinator names in its log."""

from collections.abc import Iterable
from typing import Final

from regroup.coordinator.events import Event
from regroup.coordinator.runtime.logger import NamedLogger
from regroup.coordinator.serialization import EVENT_TYPE_NAMES

LOGGED_EVENTS: Final = frozenset(
    {
        "rebalance-started",
        "generation-started",
        "group-emptied",
        "target-assigned",
        "group-upgraded",
        "group-downgraded",
        "member-removed",
        "member-left",
        "coordinator-loaded",
    }
)
"""Events that are logged at level info. Between two targets of a group lies the assignment interval, however many
members join."""
LOGGED_FIELDS: Final = ("member_id", "generation_id", "assignment_epoch", "assignor", "leader_id")


def log_events(log: NamedLogger, group_id: str, events: Iterable[Event]) -> None:
    """Write a log line, with members and generation, for each of the events whose type is one that the coordinator
    logs; the others are skipped."""
    for event in events:
        event_type = EVENT_TYPE_NAMES[type(event)]
        if event_type in LOGGED_EVENTS:
            shown = {key: getattr(event, key) for key in LOGGED_FIELDS if hasattr(event, key)}
            if event.reason:
                shown["reason"] = event.reason
            log.info(event_type, group=group_id, **shown)
