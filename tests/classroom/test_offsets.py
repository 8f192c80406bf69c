"""Committed offsets in a timeline, against a load of the same events."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset
from tests.classroom.histories import SEEDS, drawn_history, groups_of
from tests.classroom.made_histories import records_of
from tests.classroom.test_timeline import load_until


@settings(max_examples=6, deadline=None)
@given(SEEDS, st.data())
def test_the_offsets_at_a_position_are_those_that_a_coordinator_loads(seed: int, data: st.DataObject) -> None:
    records = drawn_history(seed, minutes=3)
    position = data.draw(st.integers(1, records[-1].position))
    groups = load_until(records, position)
    for name in groups_of(records):
        timeline, group = timeline_of(name, records), groups.get(name)
        if group is None or timeline.moment_at(position) is None:
            continue
        committed = {}
        for partition, steps in timeline.offsets.items():
            offsets = [step.offset for step in steps if step.began.position <= position]
            if offsets and offsets[-1] is not None:
                committed[partition.topic, partition.partition] = offsets[-1]
        assert committed == {
            (topic, index): value.offset
            for topic, offsets in group.committed_offsets.items()
            for index, value in offsets.items()
        }


def offsets(value: int) -> dict[str, dict[int, CommittedOffset]]:
    return {"orders": {0: CommittedOffset(value)}}


def test_committed_offsets_follow_commits_deletions_and_transactions() -> None:
    events = [
        e.GroupCreated(at_ms=1, by_join=False),
        e.OffsetsCommitted(at_ms=2, offsets=offsets(5)),
        e.TransactionalOffsetsWritten(at_ms=3, producer_id=1, offsets=offsets(9)),
        e.TransactionEnded(at_ms=4, producer_id=1, committed=True),
        e.OffsetsCommitted(at_ms=5, offsets=offsets(9)),
        e.OffsetsDeleted(at_ms=6, partitions={"orders": (0,)}),
    ]
    timeline = timeline_of("made", records_of(events))
    [(partition, steps)] = timeline.offsets.items()
    assert partition == ("orders", 0)
    assert [(step.began.position, step.offset) for step in steps] == [(2, 5), (4, 9), (5, 9), (6, None)]
