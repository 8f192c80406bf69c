"""Plots as SVG text: boxes, stacked bars and fans. No script, no font and no file from elsewhere.

Colours are classes of the page's style, where each part has its own: it is the same on every page, by day and by night.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Final, NamedTuple

WIDTH: Final = 920
LETTER: Final = 6.7
"""Pixels of a letter, rather too many: how wide text is, only the browser knows."""
MOST_LEFT: Final = 300
"""Longer labels stand above their bars."""
ROW: Final = 26
LINE: Final = 16
VISIBLE: Final = 1.0
"""A part that is thinner everywhere is not explained."""


class Spread(NamedTuple):
    """A distribution by its 5th, 25th, 50th, 75th and 95th hundredths."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float


class Line(NamedTuple):
    """Where one bar goes, with its label."""

    name: str
    label: str
    middle: float


class Sheet(NamedTuple):
    """A drawing with one bar below the other: where each goes, and how long a unit is."""

    left: float
    pixels: float
    marks: list[float]
    lines: list[Line]
    height: float


def sheet(ends: Mapping[str, float], said: Iterable[str]) -> Sheet:
    """Room for each bar up to its end, for its label before or above it, and for what is said behind it."""
    beside = max((len(name) for name in ends), default=0) * LETTER + 16
    left = beside if beside <= MOST_LEFT else 8.0
    right = max((len(words) for words in said), default=0) * LETTER + 16
    lines, height = [], 0.0
    for name in ends:
        words = [] if left == beside else wrap(name, int((WIDTH - left) / LETTER))
        middle = height + LINE * len(words) + ROW / 2
        above = [text(left, height + LINE * n + 13, each) for n, each in enumerate(words)]
        label = "".join(above) or text(left - 10, middle + 4, name, anchor="end")
        lines.append(Line(name, label, middle))
        height = middle + ROW / 2 + (4 if above else 0)
    pixels, marks = scale(max(ends.values(), default=1.0), WIDTH - left - right)
    return Sheet(left, pixels, marks, lines, height)


def scale(top: float, room: float, *, most: int = 8) -> tuple[float, list[float]]:
    """Pixels per unit, and a few round marks from 0 to the top."""
    top = top or 1.0
    step = 10.0 ** len(str(int(top))) / 10
    while top / step < most / 2:
        step /= 2
    while top / step > most:
        step *= 2
    return room / top, [step * n for n in range(int(top / step) + 1)]


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def text(x: float, y: float, words: str, *, anchor: str = "start", tone: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{tone}">{escape(words)}</text>'


def stroke(x1: float, x2: float, y1: float, y2: float, tone: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{tone}"/>'


def axis(on: Sheet, unit: str) -> str:
    drawn = []
    for mark in on.marks:
        x = on.left + mark * on.pixels
        drawn.append(stroke(x, x, 0, on.height, "grid"))
        drawn.append(text(x, on.height + 14, number(mark), anchor="middle", tone="soft"))
    return "".join(drawn) + text(WIDTH, on.height + 30, unit, anchor="end", tone="soft")


def svg(height: float, inside: str, title: str) -> str:
    """The drawing, with a title for those who hear the page."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height + 36:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{inside}</svg>"
    )


def boxes(rows: Mapping[str, Spread], unit: str, title: str) -> str:
    """One line each: whiskers from the 5th to the 95th hundredth, a box over the middle half, a median."""
    medians = {name: f"{spread.p50:,.1f}" for name, spread in rows.items()}
    on = sheet({name: spread.p95 for name, spread in rows.items()}, medians.values())
    drawn = [axis(on, unit)]
    for name, label, middle in on.lines:
        p5, p25, p50, p75, p95 = (on.left + value * on.pixels for value in rows[name])
        width = max(1.0, p75 - p25)
        drawn.append(label + stroke(p5, p95, middle, middle, "whisker"))
        drawn.append(f'<rect x="{p25:.1f}" y="{middle - 7:.1f}" width="{width:.1f}" height="14" class="box"/>')
        drawn.append(stroke(p50, p50, middle - 9, middle + 9, "median"))
        drawn.append(text(p95 + 6, middle + 4, medians[name], tone="soft"))
    return svg(on.height, "".join(drawn), title)


def stacks(rows: Mapping[str, Mapping[str, float]], parts: Sequence[str], unit: str, title: str) -> str:
    """One bar each, in parts, always in the order given."""
    totals = {name: sum(row.values()) for name, row in rows.items()}
    on = sheet(totals, [f"{total:,.1f}" for total in totals.values()])
    drawn = [axis(on, unit)]
    for name, label, middle in on.lines:
        drawn.append(label + bar(on, middle, name, {part: rows[name].get(part, 0.0) for part in parts}, unit))
        end = on.left + totals[name] * on.pixels
        drawn.append(text(end + 6, middle + 4, f"{totals[name]:,.1f}", tone="soft"))
    seen = [part for part in parts if any(row.get(part, 0.0) * on.pixels >= VISIBLE for row in rows.values())]
    return legend(seen) + svg(on.height, "".join(drawn), title)


def bar(on: Sheet, middle: float, name: str, row: Mapping[str, float], unit: str) -> str:
    drawn, start = [], on.left
    for part, value in row.items():
        width = value * on.pixels
        drawn.append(
            f'<rect x="{start:.1f}" y="{middle - 8:.1f}" width="{width:.1f}" height="16" class="{tone_of(part)}">'
            f"<title>{escape(f'{name}: {part} {value:,.1f} {unit}')}</title></rect>"
        )
        start += width
    return "".join(drawn)


def tone_of(part: str) -> str:
    """The class that has its colour."""
    return "part-" + part.replace(" ", "-")


def legend(parts: Iterable[str]) -> str:
    keys = [f'<span><i class="{tone_of(part)}"></i>{escape(part)}</span>' for part in parts]
    return f'<p class="legend">{"".join(keys)}</p>'


Bands = Sequence[tuple[float, Spread]]


class Ground(NamedTuple):
    """What a fan is drawn on: the same for all fans of a page, so that they can be compared."""

    end: float
    top: float
    left: float = 50.0
    height: float = 150.0
    headroom: float = 26.0

    @property
    def along(self) -> float:
        return (WIDTH - self.left - 16) / self.end

    def x(self, at: float) -> float:
        return self.left + at * self.along

    def y(self, value: float) -> float:
        return self.height - value / self.top * (self.height - self.headroom)

    def points(self, bands: Bands, hundredth: int) -> list[str]:
        return [f"{self.x(at):.1f},{self.y(spread[hundredth]):.1f}" for at, spread in bands]


def ground(every: Iterable[Bands]) -> Ground:
    points = [point for bands in every for point in bands]
    end = max((at for at, _ in points), default=0.0)
    return Ground(end or 1.0, max((spread.p95 for _, spread in points), default=0.0) or 1.0)


def fan(bands: Bands, on: Ground, unit: str, along: str, title: str) -> str:
    """Many runs over time: the outer band holds nine tenths of them, the inner one half, the line is the median."""
    drawn = [
        grid_of(on, unit, along),
        f'<polygon points="{area(bands, on, 0, 4)}" class="outer"/>',
        f'<polygon points="{area(bands, on, 1, 3)}" class="inner"/>',
        f'<polyline points="{" ".join(on.points(bands, 2))}" class="line"/>',
    ]
    return svg(on.height, "".join(drawn), title)


def area(bands: Bands, on: Ground, low: int, high: int) -> str:
    """There along the upper edge, and back along the lower one."""
    return " ".join(on.points(bands, high) + on.points(bands, low)[::-1])


def grid_of(on: Ground, unit: str, along: str) -> str:
    drawn = [text(0, 12, unit, tone="soft"), text(WIDTH, on.height + 30, along, anchor="end", tone="soft")]
    for mark in scale(on.top, on.height, most=4)[1]:
        drawn.append(stroke(on.left, WIDTH - 16, on.y(mark), on.y(mark), "grid"))
        drawn.append(text(on.left - 6, on.y(mark) + 4, number(mark), anchor="end", tone="soft"))
    for mark in scale(on.end, WIDTH)[1]:
        drawn.append(text(on.x(mark), on.height + 15, number(mark), anchor="middle", tone="soft"))
    return "".join(drawn)
