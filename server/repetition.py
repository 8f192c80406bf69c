"""A request that comes again byte for byte, as heartbeats do, is answered without being read again."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Again: TypeAlias = Callable[[], bool]
"""Whether the same request, sent once more, has the same answer. To ask this counts as having sent it."""


class Repetition(NamedTuple):
    """The last request and its answer, both as they stand around the correlation id, in their bytes 4 to 8."""

    asked: tuple[bytes, bytes]
    answered: tuple[bytes, bytes]
    again: Again

    @classmethod
    def of(cls, frame: bytes, answer: bytes, again: Again) -> "Repetition":
        """`frame` is without its length, `answer` with it."""
        return cls((frame[:4], frame[8:]), (answer[:4], answer[8:]), again)

    def answer_to(self, frame: bytes) -> bytes | None:
        """The answer to the same request under another correlation id; None if somebody has to look at it."""
        if (frame[:4], frame[8:]) == self.asked and self.again():
            return self.answered[0] + frame[4:8] + self.answered[1]
        return None
