"""Rich's console as the commands use it; a module of its own, because Rich takes a while to load."""

import asyncio
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from regroup.cli.terminal.output import silence_stdout
from regroup.cli.terminal.text import printable_lines


class PlainConsole(Console):
    """A console that shows text as it is, and raises BrokenPipeError where Rich would exit with code 1."""

    def __init__(self, *, soft_wrap: bool = True) -> None:
        super().__init__(highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape control characters in whatever is shown, wherever it comes from."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class StopOnBrokenPipeConsole(PlainConsole):
    """A console of a command that runs until `stop` is set; it sets it when the reader has closed the pipe."""

    def __init__(self, stop: asyncio.Event, *, soft_wrap: bool = True) -> None:
        super().__init__(soft_wrap=soft_wrap)
        self._stop = stop

    def on_broken_pipe(self) -> None:
        silence_stdout()
        self.quiet = True
        self._stop.set()
