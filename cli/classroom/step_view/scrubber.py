"""A line for the whole history: where rebalances ran, and where the present moment is. Each column is a part of the
events, not of the time, so that a busy second has room."""

from bisect import bisect_left
from typing import Final

from rich.text import Text

from regroup.classroom.timeline import GroupTimeline

REBALANCE: Final = "▒"
QUIET: Final = "─"
HERE: Final = "●"


class Scrubber:
    """Draws a timeline as one line. What does not change with a step is drawn once for a width, and kept."""

    def __init__(self, timeline: GroupTimeline) -> None:
        positions = [moment.position for moment in timeline.moments]
        self._last = max(1, len(positions) - 1)
        self._rebalances = [
            (
                bisect_left(positions, each.began.position),
                bisect_left(positions, (each.ended or timeline.last).position),
            )
            for each in timeline.rebalances
        ]
        self._drawn: tuple[int, str] = (0, "")

    def line(self, index: int, width: int, status: str) -> Text:
        """The line in `width` columns, with a mark at the moment with this index, and `status` at its end."""
        columns = max(1, width - 4 - len(status))
        here = round(min(index, self._last) / self._last * (columns - 1))
        drawn = self._parts(columns)
        line = Text(" ├", style="dim")
        line.append(drawn[:here])
        line.append(HERE, style="bold not dim")
        line.append(drawn[here + 1 :])
        line.append("┤")
        line.append(status, style="bold not dim")
        return line

    def _parts(self, columns: int) -> str:
        """The line before the mark is set: a character for each column, other ones where a rebalance ran."""
        if self._drawn[0] != columns:
            cells = [QUIET] * columns
            for first, last in self._rebalances:
                begin, end = (round(each / self._last * (columns - 1)) for each in (first, last))
                cells[begin : end + 1] = REBALANCE * (end + 1 - begin)
            self._drawn = columns, "".join(cells)
        return self._drawn[1]
