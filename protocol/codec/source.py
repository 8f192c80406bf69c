"""Straight-line Python written by a program: lines, indentation, fresh names, and which field each line serves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """A function in the making.

    The finished function has the line numbers of `lines`, so that a traceback tells which field was at work:
    saying where something failed costs nothing until it fails.
    """

    def __init__(self, first_line: str) -> None:
        self.lines = [first_line]
        self.paths = [""]
        self.constants: dict[str, Any] = {}
        self._depth = 1
        self._names = 0

    def line(self, text: str, path: str = "") -> None:
        self.lines.append("    " * self._depth + text)
        self.paths.append(path or self.paths[-1])

    @contextmanager
    def block(self, opening: str, path: str = "") -> Iterator[None]:
        self.line(opening, path)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name that was not used before."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """A name by which the function can reach `value`."""
        name = f"{stem}_{len(self.constants)}"
        self.constants[name] = value
        return name

    def struct(self, action: str, codes: str) -> str:
        """A name for `pack` or `unpack_from` of these big-endian values."""
        name = f"{action}_{codes.replace('?', 't')}"
        self.constants.setdefault(name, getattr(Struct(">" + codes), action))
        return name

    def compile(self, title: str, names: dict[str, Any]) -> Callable[..., Any]:
        scope = names | self.constants
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), scope)  # the text is ours alone: no input is in it
        function: Callable[..., Any] = scope["made"]
        return function


def failing_path(paths: list[str], error: BaseException) -> str:
    """The field at which a made function stopped."""
    trace = error.__traceback__
    return paths[trace.tb_lineno - 1] if trace else ""
