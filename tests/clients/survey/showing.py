"""The exchanges of one run of a cell, as lines for people."""

from collections.abc import Iterator

from tests.clients.survey.observation import ObservedRequest
from tests.clients.survey.results import Cell

BEFORE_MS = 500
"""How much of what came before the fault is shown."""


def shown_run(cell: Cell) -> Iterator[str]:
    """The exchanges, what the program reported, and the events, in the order of their times."""
    run = cell.kept
    yield f"{cell.client} {cell.version} ({cell.runtime}), {cell.fault}"
    for outcome in cell.outcomes:
        yield f"  {', '.join(outcome.steps)}: {outcome.recovered_ms} ms, {outcome.exchanges} requests"
    rows = [(each.at_ms, described(each) + (" <- hit" if n == run.hit else "")) for n, each in enumerate(run.requests)]
    rows += [(each.at_ms, f"  program: {each.what} {each.details or ''}") for each in run.lines]
    rows += [(each.at_ms, f"    event: {each.type}, {each.cause}") for each in run.events]
    for at_ms, text in sorted(rows, key=lambda row: row[0]):
        if at_ms >= -BEFORE_MS:
            yield f"{at_ms:+7d} ms  {text}"


def described(request: ObservedRequest) -> str:
    """One line: API, answer, what is special about it, and how long the answer took."""
    took = "" if request.answered_at_ms is None else f", after {request.answered_at_ms - request.at_ms} ms"
    run = f" x{request.count}" if request.count > 1 else ""
    offsets = f" {request.offsets}" if request.offsets else ""
    fault = f" (fault: {request.fault})" if request.fault else ""
    generation = "" if request.generation is None else f" generation {request.generation}"
    where = f"on {request.connection}"
    return f"{request.api} v{request.version}{run}{generation}{offsets} {where}: {request.answer}{fault}{took}"
