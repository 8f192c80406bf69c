"""What is recorded of a group while it runs: exchanges that are in memory, and what simulated members believed."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from regroup.classroom.reading import RecordingsBuilder
from regroup.classroom.recorded.drafts import GROUP_API_KEYS
from regroup.classroom.recorded.messages import ExchangeMessages, messages_of_row
from regroup.classroom.timeline import GroupTimeline
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.log_ends import LOG_API_KEYS
from regroup.server.recording.observations import ViewObserved
from regroup.server.recording.recorder import MAX_EXCHANGES

MAX_MESSAGES: Final = 100
"""The latest exchanges whose messages are decoded."""
MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Longer exchanges are not decoded."""
RowForm: TypeAlias = tuple[int, int | None, int, str, str]
"""What changes of a row."""


class LiveRecordings:
    """Collects the recorded exchanges of one group while it runs: each call of `take` adds what is new."""

    def __init__(self, group_id: str) -> None:
        self._builder = RecordingsBuilder([group_id])
        self._known: dict[int, tuple[ExchangeRow, RowForm]] = {}
        self._messages: dict[int, tuple[RowForm, ExchangeMessages]] = {}
        self._views: list[ViewObserved] = []
        self._read: set[int] = set()
        """The numbers of rows that have said where logs end."""

    def take(self, rows: Sequence[ExchangeRow], views: Sequence[ViewObserved], *, most: int = MAX_EXCHANGES) -> None:
        """Take in the rows that the recorder has in memory now, ordered by request, and all views of the group.

        Rows that the recorder has dropped since the last call are removed. If more than `most` rows may name a group,
        only the latest `most` are used, and the others are treated as dropped.
        """
        for row in rows:
            if row.request[:2] in LOG_API_KEYS and row.ended_at_ms is not None and row.number not in self._read:
                self._builder.log_ends.on_row(row)
                self._read.add(row.number)
        self._read.intersection_update({row.number for row in rows})
        of_groups = [row for row in rows if row.request[:2] in GROUP_API_KEYS]
        if len(of_groups) > most:
            rows = of_groups[len(of_groups) - most :]
        drafts, present = self._builder.exchanges, {row.number for row in rows}
        for number in [number for number in self._known if number not in present]:
            # The recorder has forgotten it, or counts it in an earlier run.
            row, _ = self._known.pop(number)
            drafts.on_row(replace(row, count=0), 1)
        for row in rows:
            if row.request[:2] not in GROUP_API_KEYS and row.number > 1:
                continue
            form = (row.last_at_ms, row.ended_at_ms, row.count, row.closed, row.fault)
            known = self._known.get(row.number)
            if known is None or known[1] != form:
                drafts.on_row(row, 1)
                self._known[row.number] = row, form
        self._forget_times_before(rows)
        for view in views[len(self._views) :]:
            self._builder.on_observation(view)
        self._views = list(views)

    def added_to(self, timeline: GroupTimeline) -> GroupTimeline:
        """The timeline with the recorded exchanges, views and ends of logs that are still in memory."""
        return self._builder.added_to(timeline)

    def messages(self, timeline: GroupTimeline) -> Mapping[int, ExchangeMessages]:
        """The decoded messages of the latest exchanges of a timeline made by `added_to`, by the exchanges' numbers."""
        found: dict[int, ExchangeMessages] = {}
        decoded: dict[int, tuple[RowForm, ExchangeMessages]] = {}
        for exchange in timeline.exchanges[-MAX_MESSAGES:]:
            row, form = self._known.get(exchange.recorded_number, (None, None))
            if row is None or form is None or row.request_bytes + row.response_bytes > MAX_MESSAGE_BYTES:
                continue
            before = self._messages.get(row.number)
            decoded[row.number] = before if before and before[0] == form else (form, messages_of_row(row))
            found[exchange.number] = decoded[row.number][1]
        self._messages = decoded
        return found

    def _forget_times_before(self, rows: Sequence[ExchangeRow]) -> None:
        """Note that exchanges before the oldest row are unknown, if the recorder has dropped earlier rows."""
        if not rows or rows[0].number == 1:
            return
        since_ms, epoch = self._builder.exchanges.recorded_since_ms, rows[0].connection.rpartition("@")[2]
        if epoch.isdecimal():
            for earlier in [each for each in since_ms if each < int(epoch)]:
                del since_ms[earlier]
            since_ms[int(epoch)] = max(since_ms.get(int(epoch), 0), rows[0].at_ms)
