"""The lab's own built-in partitioner chooses as that of the members does, for any records and loads."""

from random import Random

import pytest

from regroup.lab.checker.members.records.built_in_partitions import BuiltInPartitions
from regroup.members import partitioners
from regroup.members.partitioners import PartitionerSettings, PartitionLoad, ProducedRecord, create_partitioner

NODES = 3


class BothProducers:
    """The partitioner of the members beside that of the lab, with the same records and loads, drawn from a seed."""

    def __init__(self, seed: int, *, is_adaptive: bool = True, timeout_ms: int = 0) -> None:
        self.rng = Random(seed)
        settings = PartitionerSettings(
            partitioner_class="BuiltInPartitioner",
            partitioner_adaptive_partitioning_enable=is_adaptive,
            partitioner_availability_timeout_ms=timeout_ms,
            batch_size=self.rng.choice((1, 64, 128, 200, 300)),
        )
        self.now_ms, self.timeout_ms, self.partition_count = 0, timeout_ms, 4
        draw = self.rng.randrange(1 << 16)
        self.theirs, self.own = (
            create_partitioner(settings, draw),
            BuiltInPartitions(settings, draw, lambda: self.now_ms),
        )
        self.own.on_leaders({each: each % NODES for each in range(9)})
        self.sent_ms: list[tuple[int, int]] = []

    def load(self) -> PartitionLoad:
        count = self.partition_count
        lengths = tuple(sum(each == partition for partition, _ in self.sent_ms) for each in range(count))
        oldest_ms = self.now_ms - self.timeout_ms
        late = {partition % NODES for partition, at_ms in self.sent_ms if self.timeout_ms and at_ms < oldest_ms}
        slow = frozenset(each for each in range(count) if each % NODES in late)
        return PartitionLoad(count, tuple(range(count)), lengths, slow)

    def differ(self) -> bool:
        """Choose the partitions of some records by both; returns whether they do not agree."""
        self.now_ms += self.rng.choice((50, 100))
        self.partition_count = self.rng.choice((self.partition_count, self.partition_count, 2, 4, 9))
        self.own.begin(self.partition_count)
        load, chosen = self.load(), []
        for _ in range(self.rng.randint(1, 3)):
            chosen.append(self.theirs.partition(ProducedRecord(None, 64), load))
            if chosen[-1] not in self.own.possible():
                return True
            self.own.add(chosen[-1], 64)
        self.theirs.close_batches()
        for partition in dict.fromkeys(chosen):
            self.own.on_sent(partition)
            self.sent_ms.append((partition, self.now_ms))
        while self.sent_ms and self.rng.random() < 0.45:
            partition, _ = self.sent_ms.pop(0)
            self.own.on_answered(partition)
        return False


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("is_adaptive", "timeout_ms"), [(True, 0), (True, 500), (False, 0)])
def test_both_choose_the_same(seed: int, is_adaptive: bool, timeout_ms: int) -> None:
    both = BothProducers(seed, is_adaptive=is_adaptive, timeout_ms=timeout_ms)
    assert not any(both.differ() for _ in range(200))


def is_found() -> bool:
    return any(both.differ() for seed in range(20) for both in [BothProducers(seed)] for _ in range(50))


def test_queues_that_do_not_count_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioners, "adaptive_weights", lambda load: None)
    assert is_found()


@pytest.mark.parametrize("is_full", [True, False])
def test_batches_that_are_always_or_never_full_are_found(monkeypatch: pytest.MonkeyPatch, is_full: bool) -> None:
    monkeypatch.setattr(partitioners._OpenBatches, "is_full", lambda self, partition: is_full)
    assert is_found()


def test_a_batch_that_is_as_old_as_the_timeout_may_make_its_leader_slow_or_not() -> None:
    both = BothProducers(1, timeout_ms=500)
    both.own.begin(4)
    both.own.on_sent(1)
    for age_ms, count in ((498, 1), (500, 2), (502, 1)):
        both.now_ms = age_ms
        both.own.begin(4)
        assert len(both.own._load.slow) == count
