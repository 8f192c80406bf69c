"""Rich's console as the commands use it. It is in a module of its own because Rich takes long to load."""

import asyncio
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from regroup.cli.terminal.output import silence_stdout
from regroup.cli.terminal.text import printable_lines


class PlainConsole(Console):
    """A console that prints text without interpreting markup, and raises BrokenPipeError where Rich would exit with
    code 1."""

    def __init__(self, *, soft_wrap: bool = True) -> None:
        super().__init__(highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape control characters in everything that is printed."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class StopOnBrokenPipeConsole(PlainConsole):
    """A console for a command that runs until `stop` is set. It sets `stop` when the reader of its output has closed
    the pipe."""

    def __init__(self, stop: asyncio.Event, *, soft_wrap: bool = True) -> None:
        super().__init__(soft_wrap=soft_wrap)
        self._stop = stop

    def on_broken_pipe(self) -> None:
        silence_stdout()
        self.quiet = True
        self._stop.set()
