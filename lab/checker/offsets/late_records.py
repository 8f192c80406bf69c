"""When records that Kafka's log has not committed are given up: at their deadline, and once.

late = LateRecords()
for detail in late.on_command(exchange, now_ms): ...      # what violates `RECORDS_TIME_OUT`
for detail in late.on_stored(record.group, record.event_number, event): ...
for detail in late.overdue(group, now_ms): ...            # at the end of a run

That a record is given up early is measured by the coordinator's clock, which may jump; that it is late, by the run's
clock, which never does.
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.events import (
    AppendCommitted,
    AppendFailed,
    AppendTimedOut,
    CoordinatorLoaded,
    Event,
    GroupCreated,
    GroupDeleted,
)
from regroup.coordinator.group import Group
from regroup.lab.checker.exchanges import ObservedExchange

RECORDS_TIME_OUT: Final = (
    "The requests that wait for Kafka's log to commit a record are refused at the record's deadline, and once."
)
SLACK_MS: Final = 1_000
"""How late a record may be given up, in milliseconds."""


class LateRecords:
    """The deadlines of the records of a run that may wait for Kafka's log, by group and number of the event."""

    def __init__(self) -> None:
        self._deadlines_ms: dict[str, dict[int, int]] = {}
        """By the coordinator's clock, of stored records."""
        self._due_ms: dict[str, dict[int, int]] = {}
        """By the run's clock, of the records that the group's coordinator knows."""

    def on_stored(self, group_id: str, event_number: int, event: Event) -> Iterator[str]:
        """Keep the deadline of a record, and check the end of its time; yields what was found."""
        if isinstance(event, AppendTimedOut):
            deadline_ms = self._deadlines_ms.get(group_id, {}).pop(event.append_number, None)
            if deadline_ms is None:
                yield f"record {event.append_number} times out, and waits for nothing"
            elif event.at_ms < deadline_ms:
                yield f"record {event.append_number} times out {deadline_ms - event.at_ms} ms before its deadline"
        elif isinstance(event, AppendCommitted | AppendFailed):
            self._deadlines_ms.get(group_id, {}).pop(event.append_number, None)
        elif isinstance(event, CoordinatorLoaded | GroupCreated | GroupDeleted):
            self._deadlines_ms.pop(group_id, None)
        if (deadline_ms := getattr(event, "commit_deadline_ms", None)) is not None:
            self._deadlines_ms.setdefault(group_id, {})[event_number] = deadline_ms

    def on_command(self, exchange: ObservedExchange, now_ms: int) -> Iterator[str]:
        """Describe each record that should have been given up before this command, and keep when those that it has
        written are due."""
        group_id, before, after = exchange.group_id, exchange.before, exchange.after
        if isinstance(exchange.command, c.LoadGroup) or not after.pending_appends:
            due_ms = self._due_ms.pop(group_id, None)
        else:
            due_ms = self._due_ms.setdefault(group_id, {})
            for number in [each for each in after.pending_appends if each not in before.pending_appends]:
                due_ms[number] = now_ms + after.pending_appends[number].deadline_ms - exchange.received_ms
        if due_ms and not isinstance(exchange.command, c.LoadGroup):
            yield from _overdue(before, due_ms, now_ms)

    def overdue(self, group: Group, now_ms: int) -> Iterator[str]:
        """Describe each record of this group that should have been given up by now."""
        yield from _overdue(group, self._due_ms.get(group.group_id, {}), now_ms)


def _overdue(group: Group, due_ms: dict[int, int], now_ms: int) -> Iterator[str]:
    """Describe what is overdue; each record once."""
    for number, append in group.pending_appends.items():
        late_ms = now_ms - due_ms.get(number, now_ms)
        if late_ms > SLACK_MS and not append.has_timed_out:
            del due_ms[number]
            yield f"record {number} still waits {late_ms} ms after its deadline"
