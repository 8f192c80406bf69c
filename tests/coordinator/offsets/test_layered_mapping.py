"""Offsets of many partitions: a commit shares those that it does not change, and equals what it would be without."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from regroup.coordinator.events import OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import CommittedOffset, Group
from regroup.coordinator.offsets.layered_mapping import LAYERED_FROM, LayeredMapping, with_newer
from regroup.coordinator.serialization import decode_snapshot, encode_snapshot, group_as_json

MANY = 4 * LAYERED_FROM


def group_of(partitions: int) -> Group:
    offsets = {"orders": {index: CommittedOffset(index) for index in range(partitions)}}
    return evolve(Group(group_id="g"), OffsetsCommitted(member_id="", offsets=offsets))


def committed(group: Group, partition: int, offset: int) -> Group:
    return evolve(group, OffsetsCommitted(member_id="", offsets={"orders": {partition: CommittedOffset(offset)}}))


@given(
    st.lists(st.dictionaries(st.integers(0, 2 * MANY), st.integers(), max_size=5), max_size=40),
    st.integers(LAYERED_FROM, MANY),
)
def test_it_is_the_dict_with_the_same_entries(changes: list[dict[int, int]], size: int) -> None:
    expected = dict.fromkeys(range(size), 0)
    mapping = with_newer(expected, {})
    for newer in changes:
        mapping, expected = with_newer(mapping, newer), {**expected, **newer}
    assert isinstance(mapping, LayeredMapping)
    assert list(mapping.items()) == list(expected.items())
    assert mapping == expected
    assert expected == mapping
    assert (len(mapping), bool(mapping), repr(mapping)) == (len(expected), bool(expected), repr(expected))
    assert all(mapping[key] == value for key, value in expected.items())
    assert -1 not in mapping


def test_a_commit_copies_no_offset_of_other_partitions() -> None:
    before = group_of(MANY)
    before = committed(before, 0, 1)
    after = committed(before, 1, 2)
    shared = [group.committed_offsets["orders"] for group in (before, after)]
    assert all(isinstance(each, LayeredMapping) for each in shared)
    assert shared[0]._shared is shared[1]._shared  # type: ignore[attr-defined]
    assert [each[1].offset for each in shared] == [1, 2]


def test_a_stored_group_is_the_same_as_one_of_dicts() -> None:
    group = committed(group_of(MANY), 7, 70)
    plain = msgspec.structs.replace(
        group, committed_offsets={topic: dict(each) for topic, each in group.committed_offsets.items()}
    )
    assert encode_snapshot(group, 1, 1) == encode_snapshot(plain, 1, 1)
    assert decode_snapshot(encode_snapshot(group, 1, 1)) == group == plain
    assert group_as_json(group) == group_as_json(plain)
