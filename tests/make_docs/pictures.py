"""The pictures of documents that are drawn from simulations."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.reading import read_timelines
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from regroup.storage.memory import MemoryStore
from tests.make_docs.blocks import ROOT


def rebalance() -> str:
    """The worked example of docs/classroom.md."""
    store = MemoryStore()
    play(scenario("slow-member-delays-the-rebalance"), open_store=store.open, record=True)
    return svg_picture(asyncio.run(read_timelines(store, ["lab"]))["lab"])


PICTURES: dict[Path, Callable[[], str]] = {ROOT / "docs" / "pictures" / "rebalance.svg": rebalance}
"""The functions that draw them."""
