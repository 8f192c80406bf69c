"""The verdict of one run: each violation that was found, and the counts.

verdict.violations, verdict.sentences, verdict.counts
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from regroup.lab.checker.metrics import Counts

__all__ = ["RunVerdict", "RunViolation"]

NO_COUNTS: Final = Counts()


@dataclass(frozen=True, slots=True)
class RunViolation:
    """An invariant or expectation that does not hold."""

    sentence: str
    """The invariant or expectation."""
    at_ms: int
    """Milliseconds since the run began."""
    position: int | None
    """Position of the record after which it was found, if known."""
    detail: str
    """What was found."""
    raw: str = ""
    """The values of the exchange in which it was found, as Python writes them; empty if there is none."""

    def __str__(self) -> str:
        where = "" if self.position is None else f", position {self.position}"
        return f"{self.sentence} (at {self.at_ms} ms{where}) {self.detail}"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The violations of a run, in the order in which they were found, and its counts."""

    violations: tuple[RunViolation, ...] = ()
    counts: Counts = NO_COUNTS
    records_skipped: int = 0
    """Records below the committed offsets that no member has processed."""
    unowned_partitions: Mapping[int, int] = field(default_factory=dict)
    """By the time of each change of owners, in ms since the run began, how many partitions had lost theirs after it."""

    def with_violations(self, violations: Iterable[RunViolation]) -> "RunVerdict":
        """A copy of this verdict with the same counts and these violations in place of its own."""
        return replace(self, violations=tuple(violations))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each violated sentence once, in the order of its first violation."""
        return tuple(dict.fromkeys(each.sentence for each in self.violations))
