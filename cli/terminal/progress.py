"""How far long work is, on standard error: a bar on a terminal, and elsewhere a line now and then.

with Telling() as telling:
    telling("folding", 1_000, 250_000)
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S: Final = 30.0
"""Where a log is kept: work that is done sooner says nothing of its progress."""


class Telling:
    """Called with what is being done, how much of it is done, and of how much, where that is known."""

    def __init__(self, console: Console | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._now_s = now_s
        self._next_line_s = now_s() + LINE_EVERY_S
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

    def __call__(self, what: str, completed: int, total: int | None = None) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, description=what, completed=completed, total=total, visible=True)
        elif self._now_s() >= self._next_line_s:
            self._next_line_s = self._now_s() + LINE_EVERY_S
            of_all = f" of {total:,}" if total else ""
            print(f"{what}: {completed:,}{of_all}", file=self._console.file, flush=True)
