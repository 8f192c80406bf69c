"""The whole screen as lines of text: a heading, the four parts in the middle, the event, its exchange, and the keys."""

from typing import Final

from rich.cells import cell_len
from rich.text import Text

from regroup.classroom.incidents import Incident
from regroup.classroom.languages import Language
from regroup.classroom.wording import since_text
from regroup.cli.classroom.step_view.cells import beside, filled, fit, rule, wrap
from regroup.cli.classroom.step_view.event import cause_line, sentence
from regroup.cli.classroom.step_view.exchange import heading, led_to, message_sentence, request_line, response_line
from regroup.cli.classroom.step_view.panels import (
    STATE_ROWS,
    clock_panel,
    member_panel,
    partition_panel,
    state_panel,
)
from regroup.cli.classroom.step_view.shown import Shown
from regroup.cli.store.events_text import clock_time, date_of

KEYS: Final = (
    ("←→", "step", 0),
    ("g", "rebalance", 0),
    ("d", "deadline", 0),
    (":", "go to", 0),
    ("space", "play", 0),
    ("tab", "group", 100),
    ("m", "message", 104),
    ("e", "event", 0),
    ("x", "exchange", 90),
    ("o", "commits", 128),
    ("?", "help", 0),
    ("q", "quit", 0),
)
"""Keys, what they do, and how many columns the screen must have to name them."""
EVENT_ROWS: Final = 4
EXCHANGE_ROWS: Final = 5
NO_EXCHANGE_ROWS: Final = 2
LEAST_LIST_ROWS: Final = 4
"""Rows of members and partitions, without their heading."""
LEAST_NEAR_ROWS: Final = 4
MOST_NEAR_ROWS: Final = 10
"""Rows for the events before and after the present one, on a screen that has room."""
FRAME_ROWS: Final = 3
"""The heading, the scrubber and the keys."""
WIDTH_WITH_DATE: Final = 100
COMMON_ROWS: Final = 24
"""Rows of the smallest terminal that the view is made for; further ones are shared out."""
NOT_KEPT: Final = "not kept"
NO_REQUEST: Final = "no request"
NOT_THIS_ONE: Final = "not this one"


def screen_lines(shown: Shown, width: int, height: int) -> list[Text]:
    """The whole screen: `height` lines of `width` columns."""
    more = max(0, height - COMMON_ROWS)
    exchange_rows = EXCHANGE_ROWS + more // 4 if shown.has_exchanges else NO_EXCHANGE_ROWS
    room = max(LEAST_LIST_ROWS, height - FRAME_ROWS - STATE_ROWS - EVENT_ROWS - exchange_rows)
    spare = max(room - 1 - max(LEAST_LIST_ROWS, shown.most_members), more // 3)
    near_rows = min(MOST_NEAR_ROWS, spare) if spare >= LEAST_NEAR_ROWS else 0
    lower = room - near_rows
    left = (width - 1) // 2 + 2
    right = width - 1 - left
    lines = [
        _heading(shown, width),
        *beside(state_panel(shown, left, STATE_ROWS), clock_panel(shown, right, STATE_ROWS)),
        *beside(member_panel(shown, left, lower), partition_panel(shown, right, lower)),
        *(_event if shown.stop is None else _message)(shown, width, EVENT_ROWS),
        *_near(shown, width, near_rows),
        *_exchange(shown, width, exchange_rows),
    ]
    return [*filled(lines, width, height - 2), *filled([_scrubber(shown, width), _keys(shown, width)], width, 2)]


def _heading(shown: Shown, width: int) -> Text:
    timeline, moment = shown.timeline, shown.view.moment
    numbers = shown.says("group", number=shown.group_number, groups=shown.groups) if shown.groups > 1 else ""
    at_ms = shown.view.at_ms
    since = since_text(at_ms - timeline.began.at_ms)
    day = f"{date_of(at_ms)} " if width >= WIDTH_WITH_DATE else ""
    right = (
        shown.says("where", number=shown.view.index + 1, events=len(timeline.moments), position=moment.position)
        + f"{day}{clock_time(at_ms)} UTC · {since} "
    )
    room = max(8, width - cell_len(right) - 2)
    return Text(
        fit(f" {fit(timeline.group_id, room - cell_len(numbers)).rstrip()}{numbers}", room + 2) + right, style="reverse"
    )


def _event(shown: Shown, width: int, rows: int) -> list[Text]:
    moment = shown.view.moment
    incidents = shown.incidents_after(shown.view.index)
    cause = cause_line(moment, shown.names, shown.language)
    said = wrap(sentence(moment, shown.names, shown.language), width - 4, rows - 2 - bool(incidents))
    lines = [
        rule(
            shown.says("Event", number=moment.event_number, type=moment.type),
            width,
            shown.says("epoch", epoch=moment.coordinator_epoch),
        ),
        *(Text(f"   {line}", style="bold") for line in said),
        Text(f"   {fit(shown.says('cause', cause=cause), width - 4).rstrip()}", style="cyan"),
    ]
    if incidents:
        more = shown.says("and more", number=len(incidents) - 1) if len(incidents) > 1 else ""
        lines.append(_incident(incidents[0], shown.language, width, more))
    return filled(lines, width, rows)


def _message(shown: Shown, width: int, rows: int) -> list[Text]:
    """The lines about the recorded message at which the view stands: a sentence, and the events to which it led."""
    assert shown.stop is not None
    moment = shown.view.moment
    lines = [
        rule(
            shown.says("Response" if shown.stop.is_response else "Request"),
            width,
            shown.says("after event", number=moment.event_number),
        ),
        *(
            Text(f"   {line}", style="bold")
            for line in wrap(message_sentence(shown.stop, shown.language), width - 4, rows - 2)
        ),
        Text(f"   {led_to(shown.stop.exchange, shown.language)}", style="cyan"),
    ]
    return filled(lines, width, rows)


def _incident(incident: Incident, language: Language, width: int, more: str = "") -> Text:
    """A line about a request that went wrong; `more` stands at its end."""
    text = fit(f"{clock_time(incident.at_ms)}  {incident.text_in(language)}", width - 4 - cell_len(more)).rstrip()
    return Text(f" ! {text}{more}", style="red")


def _near(shown: Shown, width: int, rows: int) -> list[Text]:
    """Lines about the events before and after the present one, and about incidents between them."""
    if not rows:
        return []
    moments, here = shown.timeline.moments, 0
    lines: list[Text] = []
    for index in shown.walk.around(shown.view.index, 2 * rows):
        is_here = index == shown.view.index
        here = len(lines) if is_here else here
        text = f"{clock_time(moments[index].at_ms)}  {sentence(moments[index], shown.names, shown.language)}"
        line = Text(" ▶ " if is_here else "   ")
        line.append(fit(text, width - 4))
        line.stylize("bold" if is_here else "dim")
        lines += [line, *(_incident(each, shown.language, width) for each in shown.incidents_after(index))]
    first = min(max(0, here - (rows - 1) // 2), max(0, len(lines) - rows + 1))
    return filled([rule(shown.says("Before and after"), width), *lines[first : first + rows - 1]], width, rows)


def _exchange(shown: Shown, width: int, rows: int) -> list[Text]:
    exchange = shown.exchange
    if exchange is None:
        cause = shown.view.moment.cause
        is_from_request = cause is None or bool(cause.api)
        why = NOT_THIS_ONE if is_from_request else NO_REQUEST
        said = shown.says(why if shown.has_exchanges else NOT_KEPT)
        return filled([rule(shown.says("Exchange"), width), Text(f"   {said}", style="dim")], width, rows)
    lines = [rule(shown.says("Exchange of", heading=heading(exchange, shown.language)), width)]
    each_rows = max(1, (rows - 1) // 2)
    came_ms = shown.stop.at_ms if shown.stop and not shown.stop.is_response else exchange.at_ms
    for mark, text in (
        ("→", request_line(exchange, shown.messages, shown.names, shown.language, came_ms)),
        ("←", response_line(exchange, shown.messages, shown.names, shown.language, came_ms)),
    ):
        wrapped = wrap(text, width - 5, each_rows)
        lines += [Text(f" {mark if number == 0 else ' '} {line}") for number, line in enumerate(wrapped)]
    return filled(lines, width, rows)


def _scrubber(shown: Shown, width: int) -> Text:
    notes = [f"▶ {shown.says('speed', speed=f'{shown.events_per_second:g}')}"] if shown.plays else []
    notes += [shown.says("commits hidden")] if shown.hides_commits else []
    return shown.scrubber.line(shown.view.index, width, f" {', '.join(notes)} " if notes else "")


def _keys(shown: Shown, width: int) -> Text:
    if shown.message:
        return Text(fit(f" {shown.message}", width), style="bold reverse")
    named = [(key, meaning) for key, meaning, least in KEYS if width >= least]
    line = Text(" ")
    for key, meaning in named:
        line.append(key, style="bold")
        line.append(f" {shown.says(f'key {meaning}')}  ", style="dim")
    line.rstrip()
    return line
