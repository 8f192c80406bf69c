"""When records that Kafka's log has not committed are given up: at their deadline, and once.

late = LateRecords()
for detail in late.on_stored(record.group, record.event_number, event): ...      # what violates `RECORDS_TIME_OUT`
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator.events import AppendTimedOut, CoordinatorLoaded, Event

RECORDS_TIME_OUT: Final = (
    "The requests that wait for Kafka's log to commit a record are refused at the record's deadline, and once."
)


class LateRecords:
    """The deadlines of the records of a run that may wait for Kafka's log, by group and number of the event."""

    def __init__(self) -> None:
        self._deadlines_ms: dict[str, dict[int, int]] = {}

    def on_stored(self, group_id: str, event_number: int, event: Event) -> Iterator[str]:
        """Keep the deadline of a record, and check the end of its time; yields what was found."""
        if isinstance(event, AppendTimedOut):
            deadline_ms = self._deadlines_ms.get(group_id, {}).pop(event.append_number, None)
            if deadline_ms is None:
                yield f"record {event.append_number} times out, and waits for nothing"
            elif event.at_ms < deadline_ms:
                yield f"record {event.append_number} times out {deadline_ms - event.at_ms} ms before its deadline"
        elif isinstance(event, CoordinatorLoaded):
            self._deadlines_ms.pop(group_id, None)
        elif (deadline_ms := getattr(event, "commit_deadline_ms", None)) is not None:
            self._deadlines_ms.setdefault(group_id, {})[event_number] = deadline_ms
