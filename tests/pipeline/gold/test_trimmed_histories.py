"""The rows of a history that begins with a snapshot, since its first events have been trimmed. No test needs Spark."""

from collections.abc import Sequence

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import decode_event, encode_snapshot
from regroup.pipeline.source.columns import SNAPSHOT_TYPE
from regroup.storage.records import Record
from tests.pipeline.gold.test_consumer_groups import RecordedHarness, recorded
from tests.pipeline.histories import GROUP_ID, all_rows, rows_of_table


def trimmed(records: Sequence[Record], before: int) -> list[Record]:
    """The records from a position on, after a snapshot of the group in the place of those before it."""
    group, last = Group(group_id=GROUP_ID), 0
    for record in records:
        if record.position < before and record.group == GROUP_ID:
            group, last = evolve(group, decode_event(record)), record.position
    stored = encode_snapshot(group, last, 1)
    snapshot = Record(
        GROUP_ID,
        stored.event_number,
        stored.coordinator_epoch,
        0,
        SNAPSHOT_TYPE,
        stored.version,
        stored.payload,
        None,
        last,
    )
    return [snapshot, *(each for each in records if each.position >= before)]


def static_member_replaced() -> list[Record]:
    """The static member m1 goes away and comes back as m2; then m3 joins."""
    harness = RecordedHarness()
    harness.join("m1", instance_id="i1")
    harness.advance(5_000)
    harness.beat("m1", -2, instance_id="i1")
    harness.advance(7_000)
    harness.join("m2", instance_id="i1")
    harness.advance(1_000)
    harness.join("m3")
    return recorded(harness)


def test_a_member_that_is_replaced_before_the_first_target_after_the_trim_has_no_row_of_a_target() -> None:
    records = static_member_replaced()
    [replaced] = [each.position for each in records if each.type == "static-consumer-replaced"]
    rows = all_rows(trimmed(records, before=replaced))
    assert rows_of_table(rows, "fold_errors") == []
    [group] = rows_of_table(rows, "groups")
    assert group["is_complete"]
    [target] = [each.position for each in records if each.type == "target-assigned" and each.position > replaced]
    assert {row["position"] for row in rows_of_table(rows, "target_members")} == {target}
