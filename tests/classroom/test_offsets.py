"""Committed offsets in a timeline, against a load of the same events."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from tests.classroom.histories import drawn_history, groups_of
from tests.classroom.test_timeline import load_until


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 400), st.data())
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
