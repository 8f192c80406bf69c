"""The violations of one run, as its checker finds them: each with its time, and with the values of its exchange.

log = ViolationLog(state)
log.check(invariant, exchange)                    # records a violation if the invariant does not hold
log.report("No record is skipped.", "payments has committed 5 of orders-0, skipping 2-3")
log.found
"""

from collections.abc import Iterable
from typing import Final

from regroup.coordinator.invariants import invariant_sentence
from regroup.lab.checker.coordinator_state import CheckerState, ExchangeInvariant
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.verdict import RunViolation

MAX_VIOLATIONS: Final = 100
"""How many violations of one run are recorded. Later ones usually follow from earlier ones."""


class ViolationLog:
    """Records violations in the order in which they are found, at most MAX_VIOLATIONS of them.

    `state` is what the checker has gathered: invariants read it, and its clock dates the violations.
    """

    def __init__(self, state: CheckerState) -> None:
        self._state = state
        self.found: list[RunViolation] = []

    def check(self, invariant: ExchangeInvariant, exchange: ObservedExchange) -> None:
        """Check one invariant in an exchange, and record what violates it."""
        if detail := invariant(self._state, exchange):
            self.report_exchange(invariant_sentence(invariant), detail, exchange)

    def check_all(self, invariants: Iterable[ExchangeInvariant], exchange: ObservedExchange) -> None:
        """Check these invariants in an exchange, in their order."""
        state = self._state
        for invariant in invariants:
            if detail := invariant(state, exchange):
                self.report_exchange(invariant_sentence(invariant), detail, exchange)

    def report_exchange(self, sentence: str, detail: str, exchange: ObservedExchange) -> None:
        """Record a violation of this sentence that was found in an exchange, at the position on which its response
        depends."""
        if len(self.found) < MAX_VIOLATIONS:  # later ones need no description, which takes long
            position = exchange.required_position or None
            self.report(sentence, f"{detail.rstrip('.')}. {exchange.summary}", position, str(exchange))

    def report_all(self, violations: Iterable[tuple[str, str]]) -> None:
        """Record violations, each given by its sentence and what was found."""
        for sentence, detail in violations:
            self.report(sentence, detail)

    def report(self, sentence: str, detail: str, position: int | None = None, raw: str = "") -> None:
        """Record a violation that is found now, after the record at `position` if that is known."""
        if len(self.found) < MAX_VIOLATIONS:
            self.found.append(RunViolation(sentence, self._state.now_ms(), position, detail, raw))
