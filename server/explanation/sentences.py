"""Explanations as values, and as text. They contain names as clients sent them: filter them before display."""

from collections.abc import Iterable
from typing import Final

import msgspec

NOT_RECORDED: Final = "not recorded"


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sentence without its full stop, the explanations of why it is so (`because`), and `notes` with further
    facts."""

    sentence: str
    position: int | None = None
    """The position of the event that the sentence is about; None if it is not about an event."""
    because: tuple["Explanation", ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self._chain()}."
        return text[:1].upper() + text[1:]

    def _chain(self) -> str:
        reasons = ", and ".join(f"because {each._chain()}" for each in self.because)
        text = f"{self.sentence}, {reasons}" if reasons else self.sentence
        return "; ".join([text, *self.notes])


def reason(sentence: str, *because: Explanation, notes: Iterable[str] = ()) -> Explanation:
    """Make an Explanation that is not about a stored event and so has no position; `because` are the explanations that
    it follows from."""
    return Explanation(sentence=sentence, because=because, notes=tuple(notes))


def time_text(at_ms: int) -> str:
    """A time of day from epoch milliseconds: `12:00:45.200`, in UTC."""
    seconds, milliseconds = divmod(at_ms % 86_400_000, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}"


def duration_text(duration_ms: int) -> str:
    """A duration in words: `45 s`, `1.5 s`, `300 ms`, `7 days`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms % 86_400_000 == 0:
        return counted(duration_ms // 86_400_000, "day")
    if duration_ms >= 600_000 and duration_ms % 60_000 == 0:
        return f"{duration_ms // 60_000} min"
    return f"{duration_ms / 1000:.3f}".rstrip("0").rstrip(".") + " s"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 request`, `2 requests`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """Names as an enumeration: `a, b and c`."""
    *first, last = list(names) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
