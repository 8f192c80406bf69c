"""Cases of bugs in transactions: a small run in which the lab finds each of them."""

from functools import partial

from regroup.lab.checker.members.records.outputs import OUTPUT_ONCE, READS_ALL_COMMITTED, READS_COMMITTED
from regroup.lab.checker.offsets.fenced_producers import FENCED_IS_REFUSED
from regroup.lab.checker.offsets.prepared_transactions import OUTCOME_IS_CARRIED_OUT
from regroup.lab.checker.offsets.transaction_ends import ENDS_AS_ASKED, TIMES_OUT
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

FENCED = """\
scenario: A newer producer begins a transaction, and the one before it sends its requests
topics: {orders: 2}
settings: {group.initial.rebalance.delay.ms: 0}
members:
  anna: {session timeout: 10s}
steps:
  - at 0s: anna joins
  - at 5s: anna is fenced in a transaction
faults end at: 15s
"""

ABANDONED = """\
scenario: A producer abandons its transaction
topics: {orders: 2}
settings: {group.initial.rebalance.delay.ms: 0}
members:
  anna: {session timeout: 10s}
steps:
  - at 0s: anna joins
  - at 5s: anna abandons a transaction
faults end at: 30s
"""

TRANSACTION_BUG_CASES: list[BugCase] = []


def finds(text: str, sentence: str) -> bool:
    """Whether a run of this plan violates the invariant of this sentence."""
    return sentence in play(read_plan(text)).verdict.sentences


def found_by(bug: PlantedBug, text: str, sentence: str) -> None:
    """A case: the run violates the invariant with the bug, and not without it."""
    TRANSACTION_BUG_CASES.append(BugCase(bug, partial(finds, text, sentence), expected=False, with_bug=True))


OUTPUTS = """\
scenario: Members write outputs in transactions, and join again while one is open
topics: {orders: 2, totals: 1}
settings: {group.initial.rebalance.delay.ms: 0}
workload: {records per s: 1}
members:
  anna: {session timeout: 10s, assignors: [range], transforms to: totals}
  ben: {session timeout: 10s, assignors: [range], transforms to: totals}
  rita: {topics: [totals], group: readers, isolation level: read_committed}
steps:
  - at 0s: anna joins
  - after anna sends TxnOffsetCommit: [anna's next EndTxn is lost, anna requests a rebalance]
  - at 15s: ben joins
  - at 20s: ben becomes a zombie
  - at 30s: rita joins
faults end at: 45s
"""

found_by(transactions.reader_takes_aborted_records, OUTPUTS, READS_COMMITTED)
found_by(transactions.reader_leaves_out_what_follows_an_abort, OUTPUTS, READS_ALL_COMMITTED)
found_by(transactions.fetch_names_no_aborted_transaction, OUTPUTS, READS_COMMITTED)
found_by(transactions.fetch_reads_open_transactions, OUTPUTS, READS_COMMITTED)
found_by(transactions.offsets_are_fetched_before_a_transaction_ends, OUTPUTS, OUTPUT_ONCE)
found_by(transactions.former_owner_commits_in_a_transaction, OUTPUTS, OUTPUT_ONCE)
found_by(transactions.prepared_transaction_is_forgotten, DEATH, OUTCOME_IS_CARRIED_OUT)
found_by(transactions.prepared_commit_is_aborted_by_a_restart, DEATH, OUTCOME_IS_CARRIED_OUT)
found_by(transactions.prepared_transaction_loses_its_offsets, DEATH, OUTCOME_IS_CARRIED_OUT)
found_by(transactions.any_epoch_adds_to_a_transaction, FENCED, FENCED_IS_REFUSED)
found_by(transactions.any_epoch_writes_in_a_transaction, FENCED, FENCED_IS_REFUSED)
found_by(transactions.any_epoch_ends_a_transaction, FENCED, FENCED_IS_REFUSED)
found_by(transactions.transaction_times_out_early, ABANDONED, ENDS_AS_ASKED)
found_by(transactions.transaction_never_times_out, ABANDONED, TIMES_OUT)
