"""A group's history as lines for a terminal: one row a time, one column a member, and the owners below."""

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap
from typing import Final, NamedTuple

from regroup.classroom.pictures.part import OwnershipRow, PictureLimits, PicturePart, readable_part
from regroup.classroom.timeline import GroupTimeline, Lane, PositionRange, TimelineMoment
from regroup.classroom.wording import not_recorded_text, without_control_characters
from regroup.coordinator.group import AwaitedResponse

TEXT_LIMITS: Final = PictureLimits(members=16, times=60)
MAX_WORDY_MEMBERS: Final = 5
"""Up to so many members have columns with words; more have letters."""
LETTERS: Final = "abcdefghijklmnop"
WORDS: Final = {"join": "JoinGroup", "sync": "SyncGroup", "generation": "gen {}", "assigned": "assigned", "end": "✕ {}"}
SIGNS: Final = {"join": "J", "sync": "S", "generation": "{}", "assigned": "=", "end": "✕"}
"""The same as one character."""
KEY: Final = "J JoinGroup, S SyncGroup, ┆ held, a number: generation, = assigned, ✕ no member any more"
GOES_ON: Final = "│"
HELD: Final = "┆"
QUIET: Final = {"", GOES_ON, HELD}
"""Cells in which nothing happens."""
WIDTH: Final = 80
END_WORDS: Final = {"member-left": "left", "member-removed": "removed", "static-member-replaced": "replaced"}


class TextRow(NamedTuple):
    """The last event of one time, and the cell of each member."""

    moment: TimelineMoment
    cells: list[str]


def text_picture(timeline: GroupTimeline, within: PositionRange | None = None) -> str:
    """The lines. Raises Unreadable for a part with too many members, events or partitions."""
    part = readable_part(timeline, within or timeline.positions, TEXT_LIMITS)
    return "\n".join(without_control_characters(line.rstrip()) for line in TextPicture(part).lines()) + "\n"


class TextPicture:
    """Writes one part of a timeline."""

    def __init__(self, part: PicturePart) -> None:
        self._part = part
        self._is_wordy = len(part.lanes) <= MAX_WORDY_MEMBERS
        self._words, self._width = (WORDS, 10) if self._is_wordy else (SIGNS, 3)
        self._letters = {lane.member_id: LETTERS[index] for index, lane in enumerate(part.lanes)}
        self._rows = list(self._changes())

    def lines(self) -> Iterator[str]:
        first, last = self._part.within
        yield f"Group {self._part.timeline.group_id}, positions {first} to {last}"
        yield ""
        heads = [lane.name if self._is_wordy else self._letters[lane.member_id] for lane in self._part.lanes]
        yield self._row("time", "state", "gen", heads)
        for row in self._rows:
            since = f"+{(row.moment.at_ms - self._part.began_ms) / 1000:.3f}"
            state = row.moment.state.value.removesuffix("Rebalance")
            yield self._row(since, state, str(row.moment.generation_id or ""), row.cells)
        if not self._is_wordy:
            yield from wrap(KEY, WIDTH)
        yield ""
        if rows := self._part.ownership_rows():
            yield from self._owners(rows)
        yield from wrap(not_recorded_text(self._part.timeline.recorded.missing), WIDTH)

    def _changes(self) -> Iterator[TextRow]:
        """One row a time, without those that change nothing."""
        state = None
        for _, same_time in groupby(self._part.moments, lambda each: each.at_ms):
            moments = list(same_time)
            cells = [self._cell(lane, moments) for lane in self._part.lanes]
            if moments[-1].state is not state or not set(cells) <= QUIET:
                yield TextRow(moments[-1], cells)
            state = moments[-1].state

    def _row(self, time: str, state: str, generation: str, cells: list[str]) -> str:
        columns = [cell[: self._width - 1].ljust(self._width) for cell in cells]
        return f"{time:>9}  {state:<10} {generation:>3}  {''.join(columns)}"

    def _cell(self, lane: Lane, moments: list[TimelineMoment]) -> str:
        """What happened last to a member at one time."""
        first, last = moments[0].position, moments[-1].position
        if lane.began.position > last or (lane.ended is not None and lane.ended.position < first):
            return ""
        if lane.ended is not None and lane.ended.position <= last:
            return self._words["end"].format(END_WORDS.get(lane.ended_by, "lost"))
        found = GOES_ON
        for each in self._part.held_requests:
            if each.member_id != lane.member_id:
                continue
            is_join = each.response is AwaitedResponse.JOIN
            if each.ended is not None and first <= each.ended.position <= last:
                generation = moments[-1].generation_id
                found = self._words["generation" if is_join else "assigned"].format(generation)
                found = GOES_ON if each.ended_by == "rebalance-started" else found
            elif first <= each.began.position <= last:
                found = self._words["join" if is_join else "sync"]
            elif each.began.position < first and (each.ended is None or each.ended.position > last):
                found = HELD
        return found

    def _legend(self) -> str:
        return ", ".join(f"{self._letters[lane.member_id]} {lane.name}" for lane in self._part.lanes)

    def _owners(self, rows: list[OwnershipRow]) -> Iterator[str]:
        """One line a row of partitions, one character for each time above."""
        key = f"owners, one character for each row above: {self._legend()}, · no member, ! several"
        yield from wrap(key, WIDTH, break_on_hyphens=False)
        width = max(len(row.label) for row in rows)
        positions = [row.moment.position for row in self._rows]
        for row in rows:
            yield f"{row.label:<{width}}  {''.join(self._owner_at(row, each) for each in positions)}"
        yield ""

    def _owner_at(self, row: OwnershipRow, position: int) -> str:
        for span in row.spans:
            if span.began.position <= position and (span.ended is None or position < span.ended.position):
                if len(span.owners) > 1:
                    return "!"
                return self._letters.get(span.owners[0], "?") if span.owners else "·"
        return " "
