"""Each process begins to collect elsewhere; tests are handed out as whole groups, large files, and single tests."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.collection import rotated
from tests.scheduling import LARGE_FILE, LargeFilesAsUnits

LARGE = [f"tests/test_large.py::test_it[{number}]" for number in range(LARGE_FILE)]
SMALL = ["tests/test_small.py::test_one", "tests/test_small.py::test_two"]
GROUP = ["tests/test_large.py::test_grouped@group", "tests/test_other.py::test_grouped@group"]
COLLECTION = [*SMALL, *LARGE, *GROUP]


class Worker:
    """What the scheduler needs of a process: it keeps the tests that it was given."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.units: list[list[str]] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.units.append([COLLECTION[each] for each in indices])

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(*workers: Worker) -> LargeFilesAsUnits:
    option = SimpleNamespace(loadscopereorder=True)
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"] * len(workers), option=option)
    scheduler = LargeFilesAsUnits(config)
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, COLLECTION)
    scheduler.schedule()
    return scheduler


def test_units_are_handed_out_in_the_order_of_collection() -> None:
    worker = Worker("gw0")
    scheduler = scheduled(worker)
    for test in COLLECTION:
        scheduler.mark_test_complete(worker, COLLECTION.index(test))
    assert worker.units == [SMALL[:1], SMALL[1:], LARGE, GROUP]
    assert worker.shutting_down
    assert scheduler.tests_finished
    assert scheduler.remove_node(worker) is None


def test_a_test_with_subtests_may_be_reported_after_its_unit_has_ended() -> None:
    worker = Worker("gw0")
    scheduler = scheduled(worker)
    for _ in range(3):
        scheduler.mark_test_complete(worker, 0)
    assert worker.units == [SMALL[:1], SMALL[1:], LARGE]


def test_a_test_that_ends_its_process_is_named_and_its_unit_goes_to_another_one() -> None:
    first, second = Worker("gw0"), Worker("gw1")
    scheduler = scheduled(first, second)
    scheduler.mark_test_complete(first, 0)
    crashed = scheduler.remove_node(first)
    assert crashed == first.units[1][0]
    assert scheduler.has_pending


@pytest.mark.parametrize(("number", "parts"), [(0, "abcd"), (1, "bcda"), (2, "cdab"), (3, "dabc")])
def test_each_process_begins_its_collection_with_another_part(number: int, parts: str) -> None:
    assert "".join(rotated([("a", 5), ("b", 5), ("c", 5), ("d", 5)], number, processes=4)) == parts


def test_one_process_collects_in_order() -> None:
    assert rotated([("a", 1), ("b", 1)], number=0, processes=1) == ["a", "b"]
