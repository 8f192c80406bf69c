"""Plots as SVG text: boxes, stacked bars and fans. No script, no font and no file from elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 920
LEFT: Final = 340
RIGHT: Final = 60
ROW: Final = 26
COLOURS: Final = ("#c8553d", "#e8a33d", "#4f7cac", "#7a9e5f", "#8e6c8a", "#9aa0a6")


class Spread(NamedTuple):
    """A distribution by its 5th, 25th, 50th, 75th and 95th hundredths."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float


def scale(top: float) -> tuple[float, list[float]]:
    """Pixels per unit, and a few round marks from 0 to the top."""
    top = top or 1.0
    step = 10.0 ** len(str(int(top))) / 10
    while top / step < 4:
        step /= 2
    while top / step > 8:
        step *= 2
    return (WIDTH - LEFT - RIGHT) / top, [step * n for n in range(int(top / step) + 1)]


def text(x: float, y: float, words: str, *, anchor: str = "start", tone: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{tone}">{escape(words)}</text>'


def axis(pixels: float, marks: Iterable[float], height: float, unit: str) -> str:
    lines = [
        f'<line x1="{LEFT + mark * pixels:.1f}" x2="{LEFT + mark * pixels:.1f}" y1="0" y2="{height}" class="grid"/>'
        + text(LEFT + mark * pixels, height + 14, f"{mark:g}", anchor="middle", tone="soft")
        for mark in marks
    ]
    return "".join(lines) + text(WIDTH - RIGHT, height + 28, unit, anchor="end", tone="soft")


def svg(height: float, inside: str, title: str) -> str:
    """The drawing, with a title for those who hear the page."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height + 36}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{inside}</svg>"
    )


def boxes(rows: Mapping[str, Spread], unit: str, title: str) -> str:
    """One line each: whiskers from the 5th to the 95th hundredth, a box over the middle half, a median."""
    height = ROW * len(rows)
    pixels, marks = scale(max((spread.p95 for spread in rows.values()), default=1.0))
    drawn = [axis(pixels, marks, height, unit)]
    for number, (name, spread) in enumerate(rows.items()):
        middle = ROW * number + ROW / 2
        p5, p25, p50, p75, p95 = (LEFT + value * pixels for value in spread)
        drawn.append(text(LEFT - 10, middle + 4, name, anchor="end"))
        drawn.append(f'<line x1="{p5:.1f}" x2="{p95:.1f}" y1="{middle}" y2="{middle}" class="whisker"/>')
        drawn.append(
            f'<rect x="{p25:.1f}" y="{middle - 7}" width="{max(1.0, p75 - p25):.1f}" height="14" class="box"/>'
        )
        drawn.append(f'<line x1="{p50:.1f}" x2="{p50:.1f}" y1="{middle - 9}" y2="{middle + 9}" class="median"/>')
        drawn.append(text(p95 + 6, middle + 4, f"{spread.p50:,.1f}", tone="soft"))
    return svg(height, "".join(drawn), title)


def stacks(rows: Mapping[str, Mapping[str, float]], unit: str, title: str) -> str:
    """One bar each, in parts; the same part has the same colour everywhere."""
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    colour = {part: COLOURS[number % len(COLOURS)] for number, part in enumerate(parts)}
    height = ROW * len(rows)
    pixels, marks = scale(max((sum(row.values()) for row in rows.values()), default=1.0))
    drawn = [axis(pixels, marks, height, unit)]
    for number, (name, row) in enumerate(rows.items()):
        top, start = ROW * number + 5, float(LEFT)
        drawn.append(text(LEFT - 10, top + 12, name, anchor="end"))
        for part in parts:
            width = row.get(part, 0.0) * pixels
            drawn.append(
                f'<rect x="{start:.1f}" y="{top}" width="{width:.1f}" height="16" fill="{colour[part]}">'
                f"<title>{escape(f'{name}: {part} {row.get(part, 0.0):,.1f} {unit}')}</title></rect>"
            )
            start += width
    return legend(colour) + svg(height, "".join(drawn), title)


def legend(colour: Mapping[str, str]) -> str:
    keys = [f'<span><i style="background:{shade}"></i>{escape(part)}</span>' for part, shade in colour.items()]
    return f'<p class="legend">{"".join(keys)}</p>'


def fan(bands: Sequence[tuple[float, Spread]], unit: str, along: str, title: str) -> str:
    """Many runs over time: the outer band holds nine tenths of them, the inner one half, the line is the median."""
    height, left, headroom = 180.0, 50.0, 26.0
    end = max((at for at, _ in bands), default=1.0) or 1.0
    top = max((spread.p95 for _, spread in bands), default=1.0) or 1.0

    def place(at: float, value: float) -> str:
        return f"{left + at / end * (WIDTH - left - RIGHT):.1f},{height - value / top * (height - headroom):.1f}"

    def area(low: int, high: int) -> str:
        there = [place(at, spread[high]) for at, spread in bands]
        return " ".join(there + [place(at, spread[low]) for at, spread in reversed(bands)])

    drawn = [
        f'<polygon points="{area(0, 4)}" class="outer"/><polygon points="{area(1, 3)}" class="inner"/>',
        f'<polyline points="{" ".join(place(at, spread.p50) for at, spread in bands)}" class="line"/>',
        text(left - 6, headroom + 4, f"{top:g}", anchor="end", tone="soft")
        + text(left - 6, height, "0", anchor="end", tone="soft"),
        text(left, height + 16, "0", tone="soft")
        + text(WIDTH - RIGHT, height + 16, f"{end:,.0f} {along}", anchor="end", tone="soft"),
        text(0, 12, unit, tone="soft"),
    ]
    return svg(height, "".join(drawn), title)
