"""A group's history as an SVG picture: states, generations, members with held requests, and owners of partitions."""

from typing import Final, TypeAlias

from regroup.classroom.incidents import Incident, IncidentKind
from regroup.classroom.kinds import AWAITED_NAMES, FIRST_STEPS
from regroup.classroom.pictures.part import OwnershipRow, PictureLimits, PicturePart, readable_part
from regroup.classroom.pictures.scale import TimeScale
from regroup.classroom.pictures.svg_canvas import SvgCanvas, fitting, shortened, text_width
from regroup.classroom.pictures.svg_style import (
    STATE_CLASSES,
    STYLE,
    owner_css,
    owner_style,
    pattern_definitions,
    pattern_of,
)
from regroup.classroom.points import Point, PositionRange
from regroup.classroom.timeline import GenerationSpan, GroupTimeline, HeldRequest, Lane, PartitionSpan, StateSpan
from regroup.classroom.wording import not_recorded_text
from regroup.coordinator.group import GroupKind, GroupState, MemberId
from regroup.server.explanation.sentences import duration_text

SVG_LIMITS: Final = PictureLimits(members=20, times=100)
LegendEntry: TypeAlias = tuple[str, str, int]
"""A text, the classes of its colour, and its pattern."""
LEGENDS: Final[dict[GroupKind, list[LegendEntry]]] = {
    GroupKind.CLASSIC: [
        ("JoinGroup held", "join", 0),
        ("SyncGroup held", "sync", 0),
        ("rebalance", "rebalance border", 0),
    ],
    GroupKind.CONSUMER: [
        ("UNREVOKED_PARTITIONS", "join", 0),
        ("UNRELEASED_PARTITIONS", "sync", 0),
        ("target not reached", "rebalance border", 0),
    ],
}
MARKS_KEY: Final = (
    "square: refused; broken line: lost (cross above: the request, below: the response), or late (along the lane)"
)
MAX_NOTES: Final = 8
NUMBER_NAMES: Final = {GroupKind.CLASSIC: "generation", GroupKind.CONSUMER: "epoch"}
HATCHED: Final = {
    GroupKind.CLASSIC: "hatched: no member owns it; pale: assigned, and given up for a rebalance or not yet received",
    GroupKind.CONSUMER: "hatched: no member owns it; lower half hatched: its owner has to give it up",
}
LEGEND_ROW: Final = 18.0
SIZE: Final = 11.0
ROW: Final = 22.0
LEAST_WIDTH: Final = 860.0
PIXELS_A_TIME: Final = 16.0
MAX_LABEL: Final = 170.0
END_WORDS: Final = {
    "member-left": "left",
    "member-removed": "removed",
    "static-member-replaced": "replaced",
    "static-consumer-replaced": "replaced",
}
LEAST_SHORTENED: Final = 60.0
"""A narrower bar has the whole name of its owner or none."""
LABEL_DISTANCE: Final = 74.0
"""Between the middles of two times on the axis."""
OPEN_END: Final = 12.0
"""What goes on after the part reaches so far beyond its last event."""
RIGHT_MARGIN: Final = 40.0
"""Room at the right of the time axis for the words at the end of a lane."""


def svg_picture(timeline: GroupTimeline, within: PositionRange | None = None) -> str:
    """The SVG document. Raises Unreadable for a part with too many members, events or partitions."""
    return SvgPicture(readable_part(timeline, within or timeline.positions, SVG_LIMITS)).document()


class SvgPicture:
    """Draws one part of a timeline as SVG, one row below the other."""

    def __init__(self, part: PicturePart) -> None:
        self._part, self._timeline, self._names = part, part.timeline, part.names
        self._rows = part.ownership_rows()
        labels = ["generation", *(lane.name for lane in part.lanes), *(row.label for row in self._rows)]
        self._left = min(MAX_LABEL, max(text_width(each, SIZE) for each in labels)) + 22
        times = part.times_ms
        self._width = max(LEAST_WIDTH, self._left + PIXELS_A_TIME * len(times) + RIGHT_MARGIN)
        self._right = self._width - RIGHT_MARGIN
        self._x = TimeScale(times, self._left, self._right)
        self._canvas = SvgCanvas()
        self._colors = {lane.member_id: index for index, lane in enumerate(part.lanes)}
        self._top = 0.0
        self._notes = [f"{since + ' s' if since else ''}  {text}" for since, text in part.notes(MAX_NOTES)]

    def document(self) -> str:
        height = self._height()
        self._canvas.rect(0, 0, self._width, height, css="back")
        self._heading()
        body_top = self._top
        self._rebalances(body_top)
        self._axis(body_top, body_top + ROW * (2 + len(self._part.lanes)))
        self._states()
        self._generations()
        for lane in self._part.lanes:
            self._lane(lane)
        self._top += 30
        if self._rows:
            self._owners()
        if self._notes:
            self._incident_notes()
        self._legend()
        return self._canvas.document(
            self._width,
            height,
            title=self._title(),
            description=self._description(),
            style=STYLE + owner_style(len(self._colors)),
            patterns=pattern_definitions(),
        )

    def _title(self) -> str:
        length = duration_text(self._part.ended_ms - self._part.began_ms)
        return f"Group {self._timeline.group_id}, {length} of its history"

    def _description(self) -> str:
        lanes, partitions = len(self._part.lanes), len(self._rows)
        return (
            f"Positions {self._part.within.first} to {self._part.within.last}: the states and {self._number_name}s of "
            f"the group, {lanes} members with what holds them up, and {partitions} rows with the owners of partitions. "
            f"{''.join(f'{text} ' for _, text in self._part.notes(MAX_NOTES))}"
            f"{not_recorded_text(self._timeline.recorded.missing)}"
        )

    def _height(self) -> float:
        owners = 30 + ROW * len(self._rows) if self._rows else 0
        notes = LEGEND_ROW * (len(self._notes) + 1) if self._notes else 0
        legend = 26 + LEGEND_ROW * len(self._legend_rows())
        return 52 + ROW * (2 + len(self._part.lanes)) + 30 + owners + notes + legend

    def _heading(self) -> None:
        self._canvas.text(12, 24, shortened(self._title(), self._width - 24, 15), css="big")
        first, last = self._part.within
        text = f"positions {first} to {last}; time runs to the right, short steps are stretched"
        self._canvas.text(12, 42, text, css="faint")
        self._top = 52.0

    def _label(self, text: str, css: str = "t") -> None:
        self._canvas.text(12, self._top + 15, shortened(text, self._left - 18, SIZE), css=css)

    def _ends(self, began: Point, ended: Point | None) -> tuple[float, float]:
        """The x-coordinates of the begin and the end of a span, cut at the edges of this part."""
        left = self._x(max(began.at_ms, self._part.began_ms))
        if ended is None or ended.position > self._part.within.last:
            return left, self._right + OPEN_END
        return left, self._x(ended.at_ms)

    def _overlaps(self, began: Point, ended: Point | None) -> bool:
        first, last = self._part.within
        return began.position <= last and (ended is None or ended.position > first)

    def _rebalances(self, top: float) -> None:
        bottom = top + ROW * (2 + len(self._part.lanes)) + (30 + ROW * len(self._rows) + 30 if self._rows else 0)
        for each in self._timeline.rebalances:
            if self._overlaps(each.began, each.ended):
                left, right = self._ends(each.began, each.ended)
                took = duration_text((each.ended or self._timeline.last).at_ms - each.began.at_ms)
                self._canvas.rect(left, top, right, bottom, css="rebalance", tip=f"rebalance, {took}")

    def _states(self) -> None:
        self._label("state", "head")
        for each in self._timeline.states:
            if self._overlaps(each.began, each.ended):
                self._state(each)
        self._top += ROW

    def _state(self, span: StateSpan) -> None:
        left, right = self._ends(span.began, span.ended)
        name = span.state.value if span.state is not GroupState.DEAD else "no group"
        took = duration_text((span.ended or self._timeline.last).at_ms - span.began.at_ms)
        css = STATE_CLASSES[span.state.value]
        self._canvas.rect(left, self._top + 2, right, self._top + ROW - 2, css=css, tip=f"{name}, {took}")
        short = name.removesuffix("Rebalance")
        shown = fitting((f"{name}, {took}", name, short), right - left - 6, SIZE)
        self._canvas.text(left + 4, self._top + 15, shown, css="on" if css != "none" else "faint")

    def _generations(self) -> None:
        self._label(self._number_name, "head")
        for each in self._timeline.generations:
            if self._overlaps(each.began, each.ended):
                self._generation(each)
        self._top += ROW

    def _generation(self, span: GenerationSpan) -> None:
        left, right = self._ends(span.began, span.ended)
        number, leader = str(span.generation_id), self._names[span.leader_id] if span.leader_id else ""
        whole = f"{number}, leader {leader}, {span.protocol_name}" if leader else self._epoch_text(span)
        texts = (whole, f"{number}, leader {leader}" if leader else number, number)
        self._canvas.rect(
            left, self._top + 2, right, self._top + ROW - 2, css="generation", tip=f"{self._number_name} {whole}"
        )
        self._canvas.text(left + 4, self._top + 15, fitting(texts, right - left - 6, SIZE))

    @property
    def _number_name(self) -> str:
        return NUMBER_NAMES[self._timeline.kind]

    def _epoch_text(self, span: GenerationSpan) -> str:
        """The words for a generation without a leader, or for a group epoch: the number and the assignor."""
        if self._timeline.kind is GroupKind.CLASSIC or (span.assigned and not span.protocol_name):
            return f"{span.generation_id}, no members"
        return f"{span.generation_id}, {span.protocol_name or 'no target'}"

    def _lane(self, lane: Lane) -> None:
        self._label(lane.name)
        left, right = self._ends(lane.began, lane.ended)
        middle = self._top + ROW / 2
        self._canvas.line(left, middle, right, middle, css="lane")
        for each in self._part.held_requests:
            if each.member_id == lane.member_id and _is_of_lane(each, lane):
                self._held(each)
        if lane.ended is not None and lane.ended.at_ms <= self._part.ended_ms:
            self._canvas.line(right - 4, middle - 6, right + 4, middle + 6, css="cut")
            self._canvas.line(right - 4, middle + 6, right + 4, middle - 6, css="cut")
            word = END_WORDS.get(lane.ended_by, "lost")
            if right + 8 + text_width(word, SIZE) <= self._width:
                self._canvas.text(right + 8, self._top + 15, word)
        for incident in self._part.incidents_by_lane.get(lane, ()):
            self._incident(incident)
        self._top += ROW

    def _incident(self, incident: Incident) -> None:
        """Draw the mark of an incident in the member's lane, with the sentence about it as the mark's tooltip."""
        x, top, bottom = self._x(incident.at_ms), self._top + 3, self._top + ROW - 3
        middle = (top + bottom) / 2
        match incident.kind:
            case IncidentKind.REFUSED:
                self._canvas.rect(x - 4, middle - 4, x + 4, middle + 4, css="refused", tip=incident.text)
                return
            case IncidentKind.LATE:
                self._canvas.line(x, bottom, max(x + 4, self._x(incident.ended_ms)), bottom, css="lost")
            case IncidentKind.TWICE:
                self._canvas.line(x - 2, top, x - 2, bottom, css="wrong")
                self._canvas.line(x + 2, top, x + 2, bottom, css="wrong")
            case IncidentKind.REQUEST_LOST:
                self._broken_arrow(x, bottom, top)
            case IncidentKind.RESPONSE_LOST | IncidentKind.CLOSED:
                self._broken_arrow(x, top, bottom)
            case IncidentKind.AGAIN:
                return  # the request itself is drawn
        self._canvas.rect(x - 4, top, x + 4, bottom, css="hit", tip=incident.text)

    def _broken_arrow(self, x: float, begin: float, end: float) -> None:
        self._canvas.line(x, begin, x, end, css="lost")
        self._canvas.line(x - 3, end - 3, x + 3, end + 3, css="wrong")
        self._canvas.line(x - 3, end + 3, x + 3, end - 3, css="wrong")

    def _incident_notes(self) -> None:
        """Write the meaning of the marks, and below it a sentence about each incident."""
        self._top += 4
        for text in (MARKS_KEY, *self._notes):
            self._canvas.text(12, self._top + 10, shortened(text, self._width - 24, SIZE), css="faint")
            self._top += LEGEND_ROW

    def _held(self, request: HeldRequest) -> None:
        left, right = self._ends(request.began, request.ended)
        api = AWAITED_NAMES[request.response]
        held_for = "held for" if self._timeline.kind is GroupKind.CLASSIC else "for"
        held_ms = (request.ended or self._timeline.last).at_ms - request.began.at_ms
        right = max(right, left + 4)
        top, bottom = self._top + 4, self._top + ROW - 4
        css = "join" if request.response in FIRST_STEPS else "sync"
        self._canvas.rect(
            left, top, right, bottom, css=css, tip=f"{api}, {held_for} {duration_text(held_ms)}", more='rx="2"'
        )
        held = duration_text(held_ms)
        longest = [f"{api}, held {held}"] if self._timeline.kind is GroupKind.CLASSIC else []
        texts = (*longest, f"{api}, {held}", api, api[:4])
        text = fitting(texts, right - left - 6, SIZE)
        self._canvas.text(left + 3, self._top + 15, text, css="on")

    def _axis(self, top: float, bottom: float) -> None:
        """Draw the time axis below the members: seconds since the group's first event, with thin lines upwards."""
        for at_ms, place in self._x.ticks(LABEL_DISTANCE):
            self._canvas.line(place, top, place, bottom + 4, css="grid")
            since = self._part.since_began(at_ms).rstrip("0").rstrip(".") + " s"
            anchor = "end" if at_ms == self._part.ended_ms else "mid"
            self._canvas.text(place, bottom + 16, since, css=f"faint {anchor}")

    def _owners(self) -> None:
        self._label("owners", "head")
        hatched = HATCHED[self._timeline.kind]
        self._canvas.text(self._left, self._top + 15, hatched, css="faint")
        self._top += 30 - 4
        for row in self._rows:
            self._owner_row(row)
        self._top += 4

    def _owner_row(self, row: OwnershipRow) -> None:
        self._label(row.label)
        for span in row.spans:
            left, right = self._ends(span.began, span.ended)
            if right > left or span.ended is None:
                self._owner_span(span, left, right)
        self._top += ROW

    def _owner_span(self, span: PartitionSpan, left: float, right: float) -> None:
        top, bottom = self._top + 2, self._top + ROW - 2
        tip = self._tip(span)
        shown = span.owners or span.assigned_to
        for place, member_id in enumerate(shown):  # several owners share the height of the row
            share = (bottom - top) / len(shown)
            self._colored(member_id, left, top + share * place, right, top + share * (place + 1), span, tip)
        if not span.owners:
            self._canvas.rect(left, top, right, bottom, css="gap", tip=tip)
        if len(span.owners) > 1:
            self._canvas.rect(left, top, right, bottom, css="twice", tip=tip)
        if span.revoking:
            self._canvas.rect(left, (top + bottom) / 2, right, bottom, css="revoking", tip=tip)
        if span.owners:
            self._owner_label(span, left, right)

    def _owner_label(self, span: PartitionSpan, left: float, right: float) -> None:
        """Write the owner's name in its bar, on a plain background, since a pattern would make it hard to read."""
        name, room = ", ".join(self._names[each] for each in span.owners), right - left - 8
        text = fitting((name,), room, SIZE) if room < LEAST_SHORTENED else shortened(name, room, SIZE)
        if text:
            css = owner_css(self._colors.get(span.owners[0], len(self._colors)))
            end = min(right - 1, left + 7 + text_width(text, SIZE))
            self._canvas.rect(left + 1, self._top + 4, end, self._top + ROW - 4, css=css)
            self._canvas.text(left + 4, self._top + 15, text, css="on")

    def _colored(
        self, member_id: MemberId, left: float, top: float, right: float, bottom: float, span: PartitionSpan, tip: str
    ) -> None:
        index = self._colors.get(member_id, len(self._colors))
        kind = "owner" if span.owners else "given"
        self._canvas.rect(left, top, right, bottom, css=f"{owner_css(index)} {kind}", tip=tip)
        if pattern_of(index) and span.owners:
            lines = f'fill="url(#lines{pattern_of(index)})" pointer-events="none"'
            self._canvas.rect(left, top, right, bottom, css="over", more=lines)

    def _tip(self, span: PartitionSpan) -> str:
        took = duration_text((span.ended or self._timeline.last).at_ms - span.began.at_ms)
        owners = ", ".join(self._names[each] for each in span.owners) or "no owner"
        assigned = ", ".join(self._names[each] for each in span.assigned_to) or "no member"
        revoking = " (has to give it up)" if span.revoking else ""
        return f"{span.partition.topic}-{span.partition.partition}: {owners}{revoking}, assigned to {assigned}, {took}"

    def _legend(self) -> None:
        """Draw the legend: each member's colour, the meaning of the bars, and what was not recorded."""
        self._top += 8
        for row in self._legend_rows():
            left = 12.0
            for text, css, pattern in row:
                self._canvas.rect(left, self._top, left + 16, self._top + 12, css=css)
                if pattern:
                    more = f'fill="url(#lines{pattern})"'
                    self._canvas.rect(left, self._top, left + 16, self._top + 12, css="over", more=more)
                self._canvas.text(left + 21, self._top + 10, text)
                left += _legend_width(text)
            self._top += LEGEND_ROW
        self._canvas.text(12, self._top + 10, not_recorded_text(self._timeline.recorded.missing), css="faint")

    def _legend_rows(self) -> list[list[LegendEntry]]:
        """The entries of the legend by row: as many as fit for the members, and a row for the meaning of bars."""
        rows: list[list[LegendEntry]] = [[]]
        for lane in self._part.lanes:
            index = self._colors[lane.member_id]
            if sum(_legend_width(text) for text, _, _ in rows[-1]) + _legend_width(lane.name) > self._width - 24:
                rows.append([])
            rows[-1].append((lane.name, f"{owner_css(index)} owner", pattern_of(index)))
        return [*filter(None, rows), LEGENDS[self._timeline.kind]]


def _legend_width(text: str) -> float:
    return text_width(text, SIZE) + 40


def _is_of_lane(request: HeldRequest, lane: Lane) -> bool:
    """Whether a held request belongs to this lane; a member id has two lanes if a load of the group brought it back."""
    return lane.began.position <= request.began.position and (
        lane.ended is None or request.began.position < lane.ended.position
    )
