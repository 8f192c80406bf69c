"""Mappings of many offsets or members: a change shares the rest, and equals what it would be without sharing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from regroup.coordinator import events as e
from regroup.coordinator.events import OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import CommittedOffset, Group, MemberProfile
from regroup.coordinator.layered_mapping import (
    LAYERED_FROM,
    LayeredMapping,
    added_keys,
    changed,
    keys_from_end,
    keys_in_order,
    with_newer,
    without,
)
from regroup.coordinator.serialization import decode_snapshot, encode_snapshot, group_as_json

MANY = 4 * LAYERED_FROM


def group_of(partitions: int) -> Group:
    offsets = {"orders": {index: CommittedOffset(index) for index in range(partitions)}}
    return evolve(Group(group_id="g"), OffsetsCommitted(member_id="", offsets=offsets))


def committed(group: Group, partition: int, offset: int) -> Group:
    return evolve(group, OffsetsCommitted(member_id="", offsets={"orders": {partition: CommittedOffset(offset)}}))


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 2 * MANY), st.integers(), max_size=5),
            st.lists(st.integers(0, 2 * MANY), max_size=5),
        ),
        max_size=40,
    ),
    st.integers(LAYERED_FROM, MANY),
)
def test_it_is_the_dict_with_the_same_entries(changes: list[tuple[dict[int, int], list[int]]], size: int) -> None:
    expected = dict.fromkeys(range(size), 0)
    mapping = with_newer(expected, {})
    for newer, removed in changes:
        before, former = mapping, expected
        mapping, expected = with_newer(mapping, newer), {**expected, **newer}
        for key in removed:
            mapping, expected = without(mapping, key), {each: expected[each] for each in expected if each != key}
        differing = {key: value for key, value in expected.items() if former.get(key) is not value}
        assert changed(before, mapping) == differing
        assert set(added_keys(before, mapping)) == expected.keys() - former.keys()
        assert set(added_keys(mapping, before)) == former.keys() - expected.keys()
        assert keys_in_order(mapping) == list(expected)
        assert set(added_keys(expected, before)) == former.keys() - expected.keys()
        assert set(added_keys(before, expected)) == expected.keys() - former.keys()
    assert isinstance(mapping, LayeredMapping)
    assert list(mapping.items()) == list(expected.items())
    assert list(keys_from_end(mapping)) == list(reversed(expected))
    assert mapping == expected
    assert expected == mapping
    assert (len(mapping), bool(mapping), repr(mapping)) == (len(expected), bool(expected), repr(expected))
    assert all(mapping[key] == value for key, value in expected.items())
    assert all((key in mapping) == (key in expected) == (mapping.get(key) is not None) for key in range(-1, 2 * MANY))


def test_a_key_that_was_removed_and_set_again_comes_last() -> None:
    many = dict.fromkeys(range(LAYERED_FROM), 0)
    mapping = with_newer(without(many, 5), {5: 1})
    assert list(mapping) == [*range(5), *range(6, LAYERED_FROM), 5]
    assert len(mapping) == LAYERED_FROM
    assert mapping[5] == 1


def test_removals_from_a_large_dict_copy_it_once() -> None:
    many = dict.fromkeys(range(LAYERED_FROM), 0)
    first = without(many, 0)
    second = without(first, 1)
    assert isinstance(first, LayeredMapping)
    assert isinstance(second, LayeredMapping)
    assert second.shares_with(first)
    assert list(second) == list(range(2, LAYERED_FROM))


def test_a_mapping_and_a_dict_are_compared_either_way() -> None:
    """A coordinator that loads a large group gets dicts, which are compared with the mappings of the former one."""
    loaded = dict.fromkeys(range(LAYERED_FROM), 0)
    mapping = with_newer(loaded, {-1: 1, 0: 1})
    assert isinstance(mapping, LayeredMapping)
    assert set(added_keys(mapping, loaded)) == set()
    assert set(added_keys(loaded, mapping)) == {-1}
    assert changed(mapping, loaded) == {0: 0}
    assert changed(loaded, mapping) == {-1: 1, 0: 1}


def test_without_a_key_that_it_does_not_have_a_mapping_is_itself() -> None:
    mapping = {"a": 1}
    assert without(mapping, "b") is mapping
    assert without(mapping, None) is mapping


def test_a_member_that_joins_copies_no_other_members() -> None:
    group = Group(group_id="g")
    for number in range(MANY):
        pending = e.PendingMemberAdded(member_id=f"m{number}", client_id="c", session_timeout_ms=1)
        group = evolve(group, pending)
    shared = []
    for number in (1, 0, 3):
        profile = MemberProfile(session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=())
        group = evolve(group, e.MemberJoined(member_id=f"m{number}", protocol_type="consumer", profile=profile))
        shared.append(group.pending_join_members)
    assert list(group.members) == ["m1", "m0", "m3"]
    assert list(group.pending_join_members)[:2] == ["m2", "m4"]
    assert shared[0]._shared is shared[2]._shared  # type: ignore[attr-defined]


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
