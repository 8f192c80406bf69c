"""What is recorded of a group while it runs: exchanges that are in memory, and what simulated members believed."""

from collections.abc import Sequence

from msgspec.structs import replace

from regroup.classroom.reading import RecordingsBuilder
from regroup.classroom.recorded.drafts import GROUP_API_KEYS
from regroup.classroom.timeline import GroupTimeline
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.observations import ViewObserved


class LiveRecordings:
    """Takes in the recorded exchanges of one group again and again, each time what has changed."""

    def __init__(self, group_id: str) -> None:
        self._builder = RecordingsBuilder([group_id])
        self._known: dict[int, tuple[ExchangeRow, tuple[object, ...]]] = {}
        self._views: list[ViewObserved] = []

    def take(self, rows: Sequence[ExchangeRow], views: Sequence[ViewObserved]) -> None:
        """Take in the rows that are in memory now, in the order of their requests, and all views of the group."""
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
        """The timeline with what was recorded, as far as it is in memory."""
        return self._builder.added_to(timeline)

    def _forget_times_before(self, rows: Sequence[ExchangeRow]) -> None:
        """Of the time before the oldest row nothing is known any more, once earlier ones have been forgotten."""
        if not rows or rows[0].number == 1:
            return
        since_ms, epoch = self._builder.exchanges.recorded_since_ms, rows[0].connection.rpartition("@")[2]
        if epoch.isdecimal():
            for earlier in [each for each in since_ms if each < int(epoch)]:
                del since_ms[earlier]
            since_ms[int(epoch)] = max(since_ms.get(int(epoch), 0), rows[0].at_ms)
