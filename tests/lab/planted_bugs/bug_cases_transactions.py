"""Cases of bugs in transactions: a small run in which the lab finds each of them."""

from functools import partial

from regroup.lab.checker.prepared_transactions import OUTCOME_IS_CARRIED_OUT
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.planted_bugs import transactions
from regroup.lab.planted_bugs.bug import PlantedBug
from regroup.lab.simulation.run import play
from tests.lab.planted_bugs.bug_cases import BugCase

DEATH = """\
scenario: The coordinator dies between the outcome of a transaction and its end
topics: {orders: 2}
settings: {group.initial.rebalance.delay.ms: 0}
members:
  anna: {session timeout: 10s}
steps:
  - at 0s: anna joins
  - at 5s: anna commits in a transaction
  - after anna's transaction is prepared: the brokers crash for 1s
faults end at: 15s
"""

TRANSACTION_BUG_CASES: list[BugCase] = []


def finds(text: str, sentence: str) -> bool:
    """Whether a run of this plan violates the invariant of this sentence."""
    return sentence in play(read_plan(text)).verdict.sentences


def found_by(bug: PlantedBug, text: str, sentence: str) -> None:
    """A case: the run violates the invariant with the bug, and not without it."""
    TRANSACTION_BUG_CASES.append(BugCase(bug, partial(finds, text, sentence), expected=False, with_bug=True))


found_by(transactions.prepared_transaction_is_forgotten, DEATH, OUTCOME_IS_CARRIED_OUT)
found_by(transactions.prepared_commit_is_aborted_by_a_restart, DEATH, OUTCOME_IS_CARRIED_OUT)
found_by(transactions.prepared_transaction_loses_its_offsets, DEATH, OUTCOME_IS_CARRIED_OUT)
