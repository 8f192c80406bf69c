"""A store that a scenario of the lab has written."""

from pathlib import Path

import pytest

from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from regroup.storage.sqlite.inline import open_inline_store


@pytest.fixture(scope="session")
def recorded_lesson_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with its exchanges, as `regroup chaos run --store` writes it."""
    path = tmp_path_factory.mktemp("recorded") / "lesson.db"
    play(
        scenario("slow-member-delays-the-rebalance"),
        check_invariants=False,
        open_store=lambda: open_inline_store(path),
        record=True,
    )
    return path


@pytest.fixture(scope="session")
def lesson_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario `slow-member-delays-the-rebalance`, with the group `lab`."""
    path = tmp_path_factory.mktemp("lesson") / "lesson.db"
    play(
        scenario("slow-member-delays-the-rebalance"),
        check_invariants=False,
        open_store=lambda: open_inline_store(path),
    )
    return path
