"""Plots as SVG text: box plots, stacked bars and fan charts, without scripts, fonts or other files.

Colours are CSS classes in report.css, so each part has the same one on every page, in the light and the dark scheme.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Final, NamedTuple

PLOT_WIDTH: Final = 920
LETTER_WIDTH: Final = 7.7
"""The width of a letter in pixels, if it is not in `LETTER_WIDTHS`. Widths are those of DejaVu Sans, a wide font, since
only the browser knows the width of a text."""
LETTER_WIDTHS: Final[Mapping[str, float]] = {
    **dict.fromkeys("ijlI", 3.6),
    **dict.fromkeys(" .,:;'|!()[]/-frt", 5.0),
    **dict.fromkeys("ABCDEFGHJKLNPRSTUVXYZ_&", 9.4),
    **dict.fromkeys("OQ#+<=>^~", 10.2),
    **dict.fromkeys("mwMW@%…", 12.0),
}
WIDE_CHARACTERS: Final = 0x2E80
"""Characters from here on are those of East Asia, as wide as the font is high."""
FONT_SIZE: Final = 12.0
MAX_LABEL_WIDTH: Final = 350
"""Labels that are wider than this many pixels are placed above their bars."""
BAR_HEIGHT: Final = 26
LINE_HEIGHT: Final = 16
MIN_VISIBLE_WIDTH: Final = 1.5
"""A part of a bar is drawn with this many pixels at least, so that it can be seen."""


class Percentiles(NamedTuple):
    """The 5th, 25th, 50th, 75th and 95th percentile of a distribution."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float


class BarLayout(NamedTuple):
    """The layout of horizontal bars: where they begin, pixels per unit, marks of the axis, and each bar."""

    left: float
    pixels: float
    marks: list[float]
    lines: list[tuple[str, str, float]]
    """Of each bar, its name, its label as SVG, and its vertical position in pixels."""
    height: float


def text_width(words: str) -> float:
    """About how many pixels the words need, rather more than fewer."""
    return sum(FONT_SIZE if ord(each) >= WIDE_CHARACTERS else LETTER_WIDTHS.get(each, LETTER_WIDTH) for each in words)


def wrapped(words: str, width: float) -> list[str]:
    """The words as lines, each of which needs at most `width` pixels; a word that is wider is cut."""
    lines, most_letters = [""], int(width / max(LETTER_WIDTHS.values()))
    for word in (part for each in words.split() for part in wrap(each, most_letters)):
        longer = f"{lines[-1]} {word}".lstrip()
        if text_width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def bar_layout(ends: Mapping[str, float], values: Iterable[str]) -> BarLayout:
    """A layout for bars with these ends, with room for each bar's label beside or above it and its value after it."""
    label_width = max(map(text_width, ends), default=0.0) + 16
    left = label_width if label_width <= MAX_LABEL_WIDTH else 8.0
    right = max(map(text_width, values), default=0.0) + 16
    lines, height = [], 0.0
    for name in ends:
        words = [] if left == label_width else wrapped(name, PLOT_WIDTH - left)
        middle = height + LINE_HEIGHT * len(words) + BAR_HEIGHT / 2
        above = [text(left, height + LINE_HEIGHT * number + 13, each) for number, each in enumerate(words)]
        label = "".join(above) or text(left - 10, middle + 4, name, anchor="end")
        lines.append((name, label, middle))
        height = middle + BAR_HEIGHT / 2 + (4 if above else 0)
    pixels, marks = axis_scale(max(ends.values(), default=1.0), PLOT_WIDTH - left - right)
    return BarLayout(left, pixels, marks, lines, height)


def axis_scale(top: float, room: float, *, max_marks: int = 8) -> tuple[float, list[float]]:
    """A scale from 0 to at least `top` that fits into `room` pixels: the pixels per unit, and a few round marks."""
    top = top or 1.0
    step = 10.0 ** len(str(int(top))) / 10
    while top / step < max_marks / 2:
        step /= 2
    while top / step > max_marks:
        step *= 2
    return room / top, [step * number for number in range(int(top / step) + 1)]


def mark_text(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def text(x: float, y: float, words: str, *, anchor: str = "start", css: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{escape(words)}</text>'


def stroke(x1: float, x2: float, y1: float, y2: float, css: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{css}"/>'


def bar_axis(layout: BarLayout, unit: str) -> str:
    drawn = []
    for mark in layout.marks:
        x = layout.left + mark * layout.pixels
        drawn += [
            stroke(x, x, 0, layout.height, "grid"),
            text(x, layout.height + 14, mark_text(mark), anchor="middle", css="soft"),
        ]
    return "".join(drawn) + text(PLOT_WIDTH, layout.height + 30, unit, anchor="end", css="soft")


def svg(height: float, inside: str, title: str) -> str:
    """An SVG element of this height with the content `inside`, and with a title for screen readers.

    It is in a box of its own, in which a narrow page scrolls it.
    """
    return (
        f'<div class="plot"><svg viewBox="0 0 {PLOT_WIDTH} {height + 36:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{inside}</svg></div>"
    )


def box_plot(rows: Mapping[str, Percentiles], unit: str, title: str) -> str:
    """One box for each row, from the 25th to the 75th percentile, with whiskers from the 5th to the 95th."""
    medians = {name: f"{row.p50:,.1f}" for name, row in rows.items()}
    layout = bar_layout({name: row.p95 for name, row in rows.items()}, medians.values())
    drawn = [bar_axis(layout, unit)]
    for name, label, middle in layout.lines:
        p5, p25, p50, p75, p95 = (layout.left + value * layout.pixels for value in rows[name])
        width = max(1.0, p75 - p25)
        drawn += [
            label,
            stroke(p5, p95, middle, middle, "whisker"),
            f'<rect x="{p25:.1f}" y="{middle - 7:.1f}" width="{width:.1f}" height="14" class="box"/>',
            stroke(p50, p50, middle - 9, middle + 9, "median"),
            text(p95 + 6, middle + 4, medians[name], css="soft"),
        ]
    return svg(layout.height, "".join(drawn), title)


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]], parts: Sequence[str], unit: str, title: str, *, decimals: int = 1
) -> str:
    """One bar for each row, made of its parts in the given order, and a legend."""
    totals = {name: sum(row.values()) for name, row in rows.items()}
    layout = bar_layout(totals, [f"{total:,.{decimals}f}" for total in totals.values()])
    drawn, seen = [bar_axis(layout, unit)], set()
    for name, label, middle in layout.lines:
        drawn.append(label)
        start = layout.left
        for part in parts:
            value = rows[name].get(part, 0.0)
            shown = f"{value:,.{decimals}f}"
            if shown == f"{0:,.{decimals}f}":
                continue
            seen.add(part)
            width = max(MIN_VISIBLE_WIDTH, value * layout.pixels)
            drawn.append(
                f'<rect x="{start:.1f}" y="{middle - 8:.1f}" width="{width:.1f}" height="16" class="{css_class(part)}">'
                f"<title>{escape(f'{name}: {part_label(part)} {shown} {unit}')}</title></rect>"
            )
            start += width
        drawn.append(text(start + 6, middle + 4, f"{totals[name]:,.{decimals}f}", css="soft"))
    legend = "".join(
        f'<span><i class="{css_class(part)}"></i>{escape(part_label(part))}</span>' for part in parts if part in seen
    )
    return f'<p class="legend">{legend}</p>' + svg(layout.height, "".join(drawn), title)


def css_class(part: str) -> str:
    """The CSS class in report.css that has the colour of this part of a stacked bar."""
    return "part-" + part.replace("_", "-")


def part_label(part: str) -> str:
    return part.replace("_", " ").replace("-", " ")


PercentileSeries = Sequence[tuple[float, Percentiles]]


class FanScale(NamedTuple):
    """The axes of a fan chart. All fan charts of a page have the same, so that they can be compared."""

    end: float
    top: float
    left: float = 50.0
    height: float = 150.0
    headroom: float = 26.0

    def x(self, at: float) -> float:
        return self.left + at * (PLOT_WIDTH - self.left - 16) / self.end

    def y(self, value: float) -> float:
        return self.height - value / self.top * (self.height - self.headroom)

    def points(self, series: PercentileSeries, index: int) -> list[str]:
        """The points of one percentile, given by its index in `Percentiles`, as SVG coordinates."""
        return [f"{self.x(at):.1f},{self.y(percentiles[index]):.1f}" for at, percentiles in series]

    def area(self, series: PercentileSeries, low: int, high: int) -> str:
        """The outline between two percentiles: right along the upper one, and back along the lower one."""
        return " ".join(self.points(series, high) + self.points(series, low)[::-1])


def fan_scale(all_series: Iterable[PercentileSeries]) -> FanScale:
    """The axes on which all of these series fit."""
    points = [point for series in all_series for point in series]
    end = max((at for at, _ in points), default=0.0)
    return FanScale(end or 1.0, max((percentiles.p95 for _, percentiles in points), default=0.0) or 1.0)


def fan_chart(series: PercentileSeries, scale: FanScale, unit: str, x_unit: str, title: str) -> str:
    """Percentiles over time: a band from the 5th to the 95th, one from the 25th to the 75th, and the median's line."""
    drawn = [
        fan_axes(scale, unit, x_unit),
        f'<polygon points="{scale.area(series, 0, 4)}" class="outer"/>',
        f'<polygon points="{scale.area(series, 1, 3)}" class="inner"/>',
        f'<polyline points="{" ".join(scale.points(series, 2))}" class="line"/>',
    ]
    return svg(scale.height, "".join(drawn), title)


def fan_axes(scale: FanScale, unit: str, x_unit: str) -> str:
    drawn = [text(0, 12, unit, css="soft"), text(PLOT_WIDTH, scale.height + 30, x_unit, anchor="end", css="soft")]
    for mark in axis_scale(scale.top, scale.height, max_marks=4)[1]:
        drawn += [
            stroke(scale.left, PLOT_WIDTH - 16, scale.y(mark), scale.y(mark), "grid"),
            text(scale.left - 6, scale.y(mark) + 4, mark_text(mark), anchor="end", css="soft"),
        ]
    drawn += [
        text(scale.x(mark), scale.height + 15, mark_text(mark), anchor="middle", css="soft")
        for mark in axis_scale(scale.end, PLOT_WIDTH)[1]
    ]
    return "".join(drawn)
