"""Small cases, each run with a planted bug and without it."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from regroup.lab.planted_bugs.bug import PlantedBug
from regroup.lab.simulation.virtual_clock import VirtualLoop


class BugCase(NamedTuple):
    """A function, and its results without and with the bug."""

    bug: PlantedBug
    run: Callable[[], Any]
    expected: Any
    with_bug: Any


BUG_CASES: list[BugCase] = []


def bug_case(bug: PlantedBug, *, expected: Any, with_bug: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function as the case of a bug."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        BUG_CASES.append(BugCase(bug, run, expected, with_bug))
        return run

    return register


def run_virtual(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a coroutine, in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()
