"""Shows the progress of long work on standard error: a bar on a terminal, and elsewhere a line at intervals.

with ProgressReporter() as report:
    report("folding", 1_000, 250_000)
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PROGRESS_LINE_INTERVAL_S: Final = 30.0
"""Seconds between two lines if there is no terminal. Work that ends within this time prints none."""


class ProgressReporter:
    """Shows progress. Call it with a description of the work, how much of it is done, and the total if known."""

    def __init__(self, console: Console | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._now_s = now_s
        self._next_line_s = now_s() + PROGRESS_LINE_INTERVAL_S
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        self._bar = Progress(TextColumn("{task.description}"), *columns, console=self._console, transient=True)
        self._task = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def __call__(self, description: str, completed: int, total: int | None = None) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, description=description, completed=completed, total=total, visible=True)
        elif self._now_s() >= self._next_line_s:
            self._next_line_s = self._now_s() + PROGRESS_LINE_INTERVAL_S
            of_total = f" of {total:,}" if total else ""
            print(f"{description}: {completed:,}{of_total}", file=self._console.file, flush=True)
