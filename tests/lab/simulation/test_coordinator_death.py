"""A coordinator dies when the outcome of a transaction is stored, and before the transaction has ended."""

import pytest

from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play

RUN = """\
scenario: The coordinator dies between the outcome of a transaction and its end
topics: {{orders: 2}}
brokers: {brokers}
settings: {{group.initial.rebalance.delay.ms: 0}}
members:
  anna: {{session timeout: 10s}}
steps:
  - at 0s: anna joins
  - at 5s: {end}
  - after anna's transaction is prepared: {death}
faults end at: 15s
"""
DEATHS = ("the brokers crash for 1s", "the power fails for 1s", "the disk fails once")


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize(
    ("end", "is_committed"), [("anna commits in a transaction", True), ("anna aborts a transaction", False)]
)
def test_the_next_coordinator_carries_out_the_outcome(end: str, is_committed: bool, death: str) -> None:
    played = play(read_plan(RUN.format(brokers=1, end=end, death=death)))
    assert not played.failed
    names = [each.type for each in played.records]
    prepared = names.index("transaction-prepared")
    loaded, ended = names.index("coordinator-loaded", prepared), names.index("transaction-ended")
    assert prepared < loaded < ended, "the coordinator has died in between"
    assert (b'"committed":true' in played.records[ended].payload) is is_committed


def test_another_broker_carries_out_the_outcome() -> None:
    death = "broker 0 stops for 5s"
    played = play(read_plan(RUN.format(brokers=2, end="anna commits in a transaction", death=death)))
    assert not played.failed
    assert "transaction-ended" in [each.type for each in played.records]
