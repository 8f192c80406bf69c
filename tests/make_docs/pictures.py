"""The pictures of documents that are drawn from simulations."""

from collections.abc import Callable
from pathlib import Path

from regroup.classroom.build import timeline_of
from regroup.classroom.pictures.svg import svg_picture
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from tests.make_docs.blocks import ROOT


def rebalance() -> str:
    """The worked example of docs/classroom.md."""
    return svg_picture(timeline_of("lab", play(scenario("slow-member-delays-the-rebalance")).records))


PICTURES: dict[Path, Callable[[], str]] = {ROOT / "docs" / "rebalance.svg": rebalance}
"""The functions that draw them."""
