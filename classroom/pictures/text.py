"""A group's history as lines for a terminal: one row a time, one column a member, and the owners below."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from rich.cells import cell_len

from regroup.classroom.incidents import IncidentKind
from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase, series
from regroup.classroom.pictures.part import OwnershipRow, PictureLimits, PicturePart, readable_part
from regroup.classroom.pictures.text_cells import filled, without_middle
from regroup.classroom.points import PositionRange
from regroup.classroom.timeline import GroupTimeline, Lane, TimelineMoment
from regroup.classroom.wording import not_recorded_text, without_control_characters
from regroup.classroom.wrapping import columns_of, padded, wrapped
from regroup.coordinator.consumer.events import MemberReconciled
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.group import AwaitedResponse, GroupKind

TEXT_LIMITS: Final = PictureLimits(members=16, times=60)
MAX_WORDY_MEMBERS: Final = 5
"""Up to so many members have columns with words; more have letters."""
LETTERS: Final = "abcdefghijklmnop"
WORDS: Final[dict[str, PhraseValue]] = {
    "join": "JoinGroup",
    "sync": "SyncGroup",
    "assigned": phrase("cell assigned"),
}
SIGNS: Final[dict[str, PhraseValue]] = {"join": "J", "sync": "S", "assigned": "="}
"""The same as one character."""
GOES_ON: Final = "│"
HELD: Final = "┆"
QUIET: Final = {"", GOES_ON, HELD}
"""Cells in which nothing happens."""
WIDTH: Final = 80
END_WORDS: Final = {
    "member-left": phrase("cell left"),
    "member-removed": phrase("cell removed"),
    "static-member-replaced": phrase("cell replaced"),
    "static-consumer-replaced": phrase("cell replaced"),
}
LOST: Final = phrase("cell lost")
NUMBERS: Final = {GroupKind.CLASSIC: "gen", GroupKind.CONSUMER: "epoch"}
STATE_WIDTHS: Final = {GroupKind.CLASSIC: len("Completing"), GroupKind.CONSUMER: len("Reconciling")}
KEYS: Final = {GroupKind.CLASSIC: "text key", GroupKind.CONSUMER: "consumer key"}
RECONCILIATION_WORDS: Final = {
    ReconciliationState.STABLE: "cell epoch",
    ReconciliationState.UNREVOKED_PARTITIONS: "cell revokes",
    ReconciliationState.UNRELEASED_PARTITIONS: "cell waits",
    ReconciliationState.UNKNOWN: "cell lost",
}
RECONCILIATION_SIGNS: Final = {
    ReconciliationState.STABLE: "sign epoch",
    ReconciliationState.UNREVOKED_PARTITIONS: "sign revokes",
    ReconciliationState.UNRELEASED_PARTITIONS: "sign waits",
    ReconciliationState.UNKNOWN: "sign unknown",
}
MARKS: Final = {
    IncidentKind.REFUSED: "!",
    IncidentKind.REQUEST_LOST: "x",
    IncidentKind.RESPONSE_LOST: "x",
    IncidentKind.CLOSED: "x",
    IncidentKind.LATE: "~",
    IncidentKind.TWICE: "2",
    IncidentKind.AGAIN: "»",
}
MAX_NOTES: Final = 20
SHORT_APIS: Final = {
    "JoinGroup": "Join",
    "SyncGroup": "Sync",
    "Heartbeat": "Heartb.",
    "ConsumerGroupHeartbeat": "Heartb.",
    "LeaveGroup": "Leave",
    "OffsetCommit": "Commit",
    "TxnOffsetCommit": "Commit",
    "OffsetFetch": "Fetch",
}


class TextRow(NamedTuple):
    """A row of the picture: a time, the last event at or before it, and the cell of each member."""

    at_ms: int
    moment: TimelineMoment
    cells: list[str]


def text_picture(
    timeline: GroupTimeline,
    within: PositionRange | None = None,
    language: Language = Language.ENGLISH,
    *,
    is_framed: bool = True,
) -> str:
    """The picture as text. With `is_framed` a heading stands above it, and below it what was not recorded.

    Raises Unreadable for a part with too many members, events or partitions.
    """
    part = readable_part(timeline, within or timeline.positions, TEXT_LIMITS)
    picture = TextPicture(part, language)
    lines = [*picture.heading(), *picture.lines(), *picture.not_recorded()] if is_framed else picture.lines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


class TextPicture:
    """Writes one part of a timeline as lines of text."""

    def __init__(self, part: PicturePart, language: Language) -> None:
        self._part, self._language = part, language
        self._is_wordy = len(part.lanes) <= MAX_WORDY_MEMBERS
        words, self._width = (WORDS, 11) if self._is_wordy else (SIGNS, 3)
        self._words = {name: self._said(word) for name, word in words.items()}
        self._names = {lane.member_id: without_control_characters(lane.name) for lane in part.lanes}
        self._letters = {lane.member_id: LETTERS[index] for index, lane in enumerate(part.lanes)}
        self._rows = list(self._changes())

    def _said(self, value: PhraseValue) -> str:
        return in_language(value, self._language)

    def _wrapped(self, value: PhraseValue) -> Iterator[str]:
        return wrapped(self._said(value), WIDTH)

    def heading(self) -> Iterator[str]:
        """Yield the lines above the picture: the group and the positions of the part."""
        first, last = self._part.within
        group_id = without_control_characters(self._part.timeline.group_id)
        yield from self._wrapped(phrase("picture heading", group=group_id, first=first, last=last))
        yield ""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the picture: a row for each time, sentences about incidents, and partitions' owners."""
        heads = self._names if self._is_wordy else self._letters
        cells = [without_middle(heads[lane.member_id], self._width - 1) for lane in self._part.lanes]
        time, state, generation = (
            self._said(phrase(each)) for each in ("time", "state", NUMBERS[self._part.timeline.kind])
        )
        yield self._row(time, state, generation, cells)
        for row in self._rows:
            since = self._part.since_began(row.at_ms)
            state = row.moment.state.value.removesuffix("Rebalance")
            yield self._row(since, state, str(row.moment.generation_id or ""), row.cells)
        if not self._is_wordy:
            yield from self._wrapped(phrase(KEYS[self._part.timeline.kind]))
        yield ""
        if self._part.incidents:
            yield from self._notes()
        if rows := self._part.ownership_rows():
            yield from self._owners(rows)

    def not_recorded(self) -> Iterator[str]:
        """Yield the lines that say what was not recorded."""
        yield from self._wrapped(not_recorded_text(self._part.timeline.recorded.missing, self._language))

    def _notes(self) -> Iterator[str]:
        """Yield the meaning of the marks, and a line for each incident."""
        yield self._said(phrase("marks key"))
        for since, text in self._part.notes(MAX_NOTES, self._language):
            yield from wrapped(without_control_characters(text), WIDTH, " " * 11, f"{since:>9}  ")
        yield ""

    def _changes(self) -> Iterator[TextRow]:
        """Yield a row for each time, except for times at which no cell and no state changes."""
        state = None
        by_time = {at_ms: list(same) for at_ms, same in groupby(self._part.moments, lambda each: each.at_ms)}
        moments = self._part.moments[:1]
        for at_ms in sorted(by_time.keys() | {each.at_ms for each in self._part.incidents}):
            is_event = at_ms in by_time
            moments = by_time.get(at_ms, moments)
            cells = [self._cell(lane, moments, at_ms, is_event=is_event) for lane in self._part.lanes]
            if moments[-1].state is not state or not set(cells) <= QUIET:
                yield TextRow(at_ms, moments[-1], cells)
            state = moments[-1].state

    def _row(self, time: str, state: str, generation: str, cells: list[str]) -> str:
        columns = " ".join(filled(cell, self._width - 1) for cell in cells)
        kind = self._part.timeline.kind
        number = f"{generation:>{len(NUMBERS[kind])}}"
        since = " " * (9 - columns_of(time)) + time
        return f"{since}  {padded(state, STATE_WIDTHS[kind])} {number} {columns}"

    def _cell(self, lane: Lane, moments: Sequence[TimelineMoment], at_ms: int, *, is_event: bool) -> str:
        """The text in a member's cell at one time: what happened to it last by an event, or the mark of an incident."""
        found = self._cell_of_events(lane, moments) if is_event else self._cell_between(lane, moments[-1].position)
        wrong = [each for each in self._part.incidents_by_lane.get(lane, ()) if each.at_ms == at_ms]
        if wrong and found in {*QUIET, self._words["join"], self._words["sync"]}:
            short = SHORT_APIS[wrong[0].api]
            mark = MARKS[wrong[0].kind]
            return f"{mark} {short}" if self._is_wordy else f"{mark}{short[0]}"
        return found

    def _cell_between(self, lane: Lane, position: int) -> str:
        """A member's cell at a time without an event: whether a request is held after the event at `position`."""
        if lane.began.position > position or (lane.ended is not None and lane.ended.position <= position):
            return ""
        is_held = any(
            each.member_id == lane.member_id
            and each.began.position <= position
            and (each.ended is None or each.ended.position > position)
            for each in self._part.held_requests
        )
        return HELD if is_held else GOES_ON

    def _cell_of_events(self, lane: Lane, moments: Sequence[TimelineMoment]) -> str:
        first, last = moments[0].position, moments[-1].position
        if lane.began.position > last or (lane.ended is not None and lane.ended.position < first):
            return ""
        if lane.ended is not None and lane.ended.position <= last:
            return f"✕ {self._said(END_WORDS.get(lane.ended_by, LOST))}" if self._is_wordy else "✕"
        found = self._reconciliation(lane, moments) or GOES_ON
        for each in self._part.held_requests:
            if each.member_id != lane.member_id:
                continue
            if isinstance(each.response, ReconciliationState):
                goes_on = each.began.position < first and (each.ended is None or each.ended.position > last)
                found = HELD if goes_on and found == GOES_ON else found
                continue
            is_join = each.response is AwaitedResponse.JOIN
            if each.ended is not None and first <= each.ended.position <= last:
                found = self._generation(moments[-1]) if is_join else self._words["assigned"]
                found = GOES_ON if each.ended_by == "rebalance-started" else found
            elif first <= each.began.position <= last:
                found = self._words["join" if is_join else "sync"]
            elif each.began.position < first and (each.ended is None or each.ended.position > last):
                found = HELD
        return found

    def _reconciliation(self, lane: Lane, moments: Sequence[TimelineMoment]) -> str:
        """The cell for the last reconciliation step of a member in these moments; empty if it made none."""
        steps = [
            each.event
            for each in moments
            if isinstance(each.event, MemberReconciled) and each.event.member_id == lane.member_id
        ]
        if not steps:
            return ""
        step, cells = steps[-1], RECONCILIATION_WORDS if self._is_wordy else RECONCILIATION_SIGNS
        return self._said(phrase(cells[step.state], number=step.epoch))

    def _generation(self, moment: TimelineMoment) -> str:
        number = moment.generation_id
        return self._said(phrase("cell generation", number=number)) if self._is_wordy else str(number)

    def _owners(self, rows: list[OwnershipRow]) -> Iterator[str]:
        """Yield the lines about owners: one for each row of partitions, with one character for each time."""
        legend = series("legend", (f"{self._letters[each]} {name}" for each, name in self._names.items()), limit=None)
        yield from self._wrapped(phrase("owners key", members=legend))
        positions = [row.moment.position for row in self._rows]
        labels = [without_middle(without_control_characters(row.label), WIDTH - 2 - len(positions)) for row in rows]
        width = max(map(cell_len, labels))
        for row, label in zip(rows, labels, strict=True):
            yield f"{filled(label, width)}  {''.join(self._owner_at(row, each) for each in positions)}"
        yield ""

    def _owner_at(self, row: OwnershipRow, position: int) -> str:
        for span in row.spans:
            if span.began.position <= position and (span.ended is None or position < span.ended.position):
                if len(span.owners) > 1:
                    return "!"
                return self._letters.get(span.owners[0], "?") if span.owners else "·"
        return " "
