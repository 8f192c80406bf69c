"""Reads documents of the page, in separate code: spans with whole positions, and member ids in place of numbers."""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from regroup.classroom.page.recordings import SessionSpan
from regroup.classroom.timeline import TimelineMoment

OPEN = -1


class ReadSpan(NamedTuple):
    began: int
    ended: int | None


def spans_of(columns: dict[str, Any]) -> list[ReadSpan]:
    found, last = [], 0
    for distance, length in zip(columns["began"], columns["length"], strict=True):
        began = last + distance
        ended = None if length == OPEN else began + length
        last = began if ended is None else ended
        found.append(ReadSpan(began, ended))
    return found


def whole(differences: list[int]) -> list[int]:
    return list(accumulate(differences))


def strings_of(document: dict[str, Any], numbers: list[int]) -> list[str | None]:
    return [None if number == OPEN else document["strings"][number] for number in numbers]


def texts_of(document: dict[str, Any], number: int, values: list[int]) -> list[str]:
    """A sentence in each language, of the number of its pattern and its values."""
    _, *texts = document["patterns"][number]
    written = [document["strings"][value] if value >= 0 else str(-1 - value) for value in values]
    return [re.sub(r"\{(\d+)\}", lambda match: written[int(match[1])], text) for text in texts]


def ownership_of(document: dict[str, Any]) -> Iterator[tuple[str, int, ReadSpan, tuple[str, ...], tuple[str, ...]]]:
    """Topic, index, span, owners and members to which it is assigned, of each span of each partition."""
    columns, strings = document["ownership"], document["strings"]
    sets = [tuple(strings[number] for number in each) for each in columns["sets"]]
    spans, place = spans_of(columns), 0
    for topic, index, count in columns["rows"]:
        for number in range(place, place + count):
            owners, assigned = sets[columns["owners"][number]], sets[columns["assigned"][number]]
            yield strings[topic], index, spans[number], owners, assigned
        place += count


def running_sessions(spans: Iterable[SessionSpan], moment: TimelineMoment) -> dict[str, int | None]:
    """When the sessions that run after an event end, by member id; None where that was not recorded."""
    now = (moment.at_ms, moment.position)
    return {
        span.member_id: span.deadline and span.deadline.at_ms
        for span in spans
        if span.began <= now and (span.ended is None or now < span.ended)
    }
