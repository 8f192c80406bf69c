"""A request that comes again byte for byte, as heartbeats do, is answered without being read again."""

from collections.abc import Callable, Iterable
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

    def answers_to(self, frames: Iterable[bytes]) -> tuple[int, bytes]:
        """How many frames ask the same, up to the first that does not, and their answers, one behind the other.

        0 if somebody has to look at them. Only the correlation ids differ, so all else is what joins them.
        """
        head, tail = self.asked
        ids: list[bytes] = []
        for frame in frames:
            if frame[8:] != tail or frame[:4] != head:
                break
            ids.append(frame[4:8])
        if not ids or not self.again():
            return 0, b""
        before, behind = self.answered
        return len(ids), before + (behind + before).join(ids) + behind
