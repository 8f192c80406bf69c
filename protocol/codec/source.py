"""Builds the source of a generated Python function: lines, indentation, fresh names, and the message field that each
line belongs to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """The source of one function, named `made`, while it is being generated.

    `paths` has the message field for each line. The line number in a traceback thus shows which field failed, and a
    successful call need not keep track of it.
    """

    def __init__(self, first_line: str) -> None:
        self.lines = [first_line]
        self.paths = [""]
        self._constants: dict[str, Any] = {}
        self._depth = 1
        self._name_count = 0

    def line(self, text: str, path: str = "") -> None:
        """Append a line of code. `path` names the message field that the line belongs to; if it is empty, that is the
        field of the line before."""
        self.lines.append("    " * self._depth + text)
        self.paths.append(path or self.paths[-1])

    @contextmanager
    def block(self, opening: str, path: str = "") -> Iterator[None]:
        """Append a line such as `if n:`, and indent the lines that are appended inside the context."""
        self.line(opening, path)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a variable name that the source does not contain yet: `stem` and a number."""
        self._name_count += 1
        return f"{stem}{self._name_count}"

    def constant(self, stem: str, value: Any) -> str:
        """Add `value` to the globals of the generated function, and return the name that it has there, which begins
        with `stem`."""
        name = f"{stem}_{len(self._constants)}"
        self._constants[name] = value
        return name

    def struct(self, action: str, codes: str) -> str:
        """Make `pack` or `unpack_from` (`action`), for these format characters in big-endian order, a global of the
        generated function; returns its name there."""
        name = f"{action}_{codes.replace('?', 't')}"
        self._constants.setdefault(name, getattr(Struct(">" + codes), action))
        return name

    def compile(self, title: str, helpers: dict[str, Any]) -> Callable[..., Any]:
        """Compile the source and return the function; `helpers` are added to its globals."""
        scope = helpers | self._constants
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), scope)  # no input is part of the source
        function: Callable[..., Any] = scope["made"]
        return function


def failing_path(paths: list[str], error: BaseException) -> str:
    """The message field whose code raised `error` in a generated function, found by the line number in the
    traceback."""
    trace = error.__traceback__
    return paths[trace.tb_lineno - 1] if trace else ""
