"""Rich's console as the commands use it. It is a module of its own because Rich takes a while to load."""

import asyncio

from rich.console import Console

from regroup.cli.terminal.output import say_no_more


class Plain(Console):
    """Shows names and texts as they are. Rich would end the program itself, with 1, when the reader has gone."""

    def __init__(self, *, soft_wrap: bool = True) -> None:
        super().__init__(highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Stopping(Plain):
    """For what runs until `stop`: that is set when the reader of the lines has seen enough."""

    def __init__(self, stop: asyncio.Event, *, soft_wrap: bool = True) -> None:
        super().__init__(soft_wrap=soft_wrap)
        self._stop = stop

    def on_broken_pipe(self) -> None:
        say_no_more()
        self.quiet = True
        self._stop.set()
