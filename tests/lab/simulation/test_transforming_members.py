"""Members that write an output for each record that they have processed, and read-committed members that read them."""

from typing import Any

import pytest

from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.clients.transaction_requests import TransactionRequests
from regroup.lab.simulation.run import RunOutcome, play

RUN = """\
scenario: Outputs in transactions
topics: {{orders: 2, totals: 2}}
settings: {{group.initial.rebalance.delay.ms: 0}}
workload: {{records per s: {rate}}}
members:
  anna: {{session timeout: 10s, transforms to: totals{anna}}}
  ben: {{session timeout: 10s, transforms to: totals}}
  rita: {{topics: [totals], group: readers, isolation level: {level}}}
steps:
  - at 0s: [anna joins, rita joins]
  - at 10s: ben joins
  - at 20s: {step}
faults end at: 40s
"""


def run(step: str = "ben leaves", *, rate: str = "1", anna: str = "", level: str = "read_committed") -> RunOutcome:
    return play(read_plan(RUN.format(step=step, rate=rate, anna=anna, level=level)))


def counts_of(played: RunOutcome, kind: str) -> int:
    return [each.type for each in played.records].count(kind)


def test_outputs_are_committed_and_aborted_and_offsets_are_committed_with_them_alone() -> None:
    played = run()
    assert not played.failed
    ends = [each.payload for each in played.records if each.type == "transaction-prepared"]
    outcomes = [b'"committed":true' in each for each in ends]
    assert outcomes.count(True) > 10
    assert outcomes.count(False) > 2
    assert counts_of(played, "transaction-ended") >= len(ends) - 1
    commits = [each for each in played.records if each.type == "offsets-committed" and each.group == "lab"]
    assert commits == []


def test_a_reader_processes_each_output_once_beside_the_records_themselves() -> None:
    read_committed, alone = run().verdict.counts, run(level="read_uncommitted").verdict.counts
    assert alone.processed > read_committed.processed, "a member that reads all has the aborted outputs, too"
    assert read_committed.processed_twice == 0


def test_a_member_that_reads_uncommitted_records_may_process_those_of_aborted_transactions() -> None:
    text = RUN.format(step="ben leaves\n  - at 35s: rolf joins", rate="1", anna="", level="read_committed")
    played = play(read_plan(text.replace("steps:", "  rolf: {topics: [totals], group: others}\nsteps:")))
    assert [str(each) for each in played.verdict.violations] == []


def test_a_member_that_was_removed_sends_offsets_with_its_last_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = TransactionRequests.commit_offsets

    async def noted(self: TransactionRequests, producer: Any, positions: Any, generation: Any, label: str) -> bool:
        sent.append(generation.generation_id)
        return await send(self, producer, positions, generation, label)

    monkeypatch.setattr(TransactionRequests, "commit_offsets", noted)
    played = run("an administrator removes ben\n  - at 20.1s: ben does not poll for 12s", rate="10")
    assert not played.failed
    assert len(sent) > 10
    assert min(sent) > 0, "a coordinator accepts offsets without a generation from every client"


def test_a_producer_of_a_fenced_member_sends_nothing_in_the_generation_of_the_next_process() -> None:
    text = RUN.format(step="anna joins", rate="1", anna=", instance id: one", level="read_committed")
    played = play(read_plan(text.replace("ben: {", "ben: {instance id: one, ")))
    assert [str(each) for each in played.verdict.violations] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    ["the brokers crash for 2s", "ben pauses for 15s", "the disk fails once", "ben becomes a zombie", "anna crashes"],
)
@pytest.mark.parametrize("anna", ["", ", assignors: [cooperative-sticky, range]"])
def test_no_output_is_lost_or_written_twice(step: str, anna: str) -> None:
    assert not run(step, anna=anna).failed


def test_without_a_workload_there_is_nothing_to_transform() -> None:
    assert counts_of(run(rate="0"), "transaction-prepared") == 0


@pytest.mark.parametrize(
    ("anna", "level", "problem"),
    [
        ("", "serializable", "unknown isolation level: 'serializable'; write read_uncommitted or read_committed"),
        (", client: '2.8'", "read_committed", "anna transforms records, which needs protocol: classic and the newest"),
        (", protocol: consumer", "read_committed", "anna transforms records, which needs protocol: classic"),
        (", topics: [totals]", "read_committed", "anna transforms records of totals to itself"),
        ("", "read_committed, client: '2.8'", "rita reads committed records, which needs the newest client"),
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(anna: str, level: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_plan(RUN.format(step="ben leaves", rate="1", anna=anna, level=level))


def test_neither_a_fenced_producer_nor_the_newer_one_commits_beside_the_outputs() -> None:
    played = run("anna is fenced in a transaction\n  - at 25s: anna is fenced in a transaction")
    assert not played.failed
    ends = [each.payload for each in played.records if each.type == "transaction-prepared"]
    beside = [each for each in ends if b'"anna-transactions"' in each]
    assert len(beside) == 4, "two fenced ones, and two newer ones"
    assert not any(b'"committed":true' in each for each in beside)
