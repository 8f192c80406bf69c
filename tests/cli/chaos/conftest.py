"""Scenario files of two members, one whose expectation holds and one whose does not, and `regroup chaos`."""

from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

STORY = """\
scenario: Two share a topic
topics: {orders: 2}
members: [anna, ben]
faults end at: 30s
steps:
  - at 0s: [anna joins, ben joins]
  - at 20s: EXPECTATION
"""


SOUND = "within 1s the group is Stable with anna and ben"


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "two-share.yaml"
    path.write_text(STORY.replace("EXPECTATION", SOUND))
    return path


@pytest.fixture
def wrong_story(tmp_path: Path) -> Path:
    path = tmp_path / "one-is-missing.yaml"
    path.write_text(STORY.replace("EXPECTATION", "within 1s the group is Stable with anna"))
    return path


@pytest.fixture
def chaos(run_command: RunCommand) -> RunCommand:
    """`chaos("run", "--seed", 7)` runs `regroup chaos run --seed 7`."""
    return partial(run_command, "chaos")
