"""Which lines a process executes, and which seeds of the lab a mutant has to be played with."""

import importlib.util
import sys
from pathlib import Path

from tests.mutants.reach import LineRecorder, Reach
from tests.mutants.sites import Mutation

SOURCE = """\
LIMIT = 3


def is_above(number):
    if number > LIMIT:
        return True
    return False


def largest(numbers):
    return max(
        number
        for number in numbers
    )
"""


def mutation_at(line: int, last_line: int) -> Mutation:
    return Mutation("coordinator/file.py", "constant", "", line, last_line, 0, 1, "3", "4")


def test_the_lines_that_calls_execute_are_recorded_and_those_of_other_folders_are_not(tmp_path: Path) -> None:
    file = tmp_path / "room" / "limit.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("limit", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    before = sys.gettrace()
    inside, outside = LineRecorder([tmp_path / "room"]), LineRecorder([tmp_path / "roo"])
    try:
        inside.start()
        spec.loader.exec_module(module)
        module.is_above(2)
        outside.start()
        module.largest([1])
    finally:
        sys.settrace(before)
    assert {1, 4, 5, 7, 10} <= inside.lines()[str(file)]
    assert not {6, 11} & inside.lines()[str(file)]
    assert not outside.lines()


def test_a_mutant_is_played_with_the_seeds_that_execute_a_line_of_its_statement() -> None:
    reach = Reach({"coordinator/file.py": {1}}, {5: {"coordinator/file.py": {7, 8}}, 6: {"members/file.py": {7}}})
    assert reach.seeds_that_execute(mutation_at(6, 7)) == [5]
    assert reach.seeds_that_execute(mutation_at(9, 9)) == []


def test_a_mutant_of_a_line_that_the_import_executes_is_played_with_every_seed() -> None:
    reach = Reach({"coordinator/file.py": {1}}, {5: {}, 6: {}})
    assert reach.seeds_that_execute(mutation_at(1, 1)) == [5, 6]
