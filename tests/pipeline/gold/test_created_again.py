"""Tables of groups whose topic is deleted and created again, under the same name and with another id.

A group of the consumer protocol knows topics by id, a classic group by name. No test needs Spark.
"""

from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.storage.records import NewRecord
from tests.coordinator.consumer.consumer_harness import topic_id
from tests.coordinator.consumer.migration.migration_harness import ALL, LOWER, UPPER
from tests.coordinator.group_driver import GROUP_ID, START_MS
from tests.pipeline.gold.test_consumer_groups import RecordedHarness, recorded, topic_event
from tests.pipeline.gold.test_trimmed_histories import trimmed
from tests.pipeline.histories import TableRow, all_rows, rows_of_table

KINDS = ("partitions", "new", "kept", "moved", "revoked_and_returned")


class TopicHarness(RecordedHarness):
    """A group, and the events of its topic foo."""

    def __init__(self) -> None:
        super().__init__()
        self.of_topics: list[NewRecord] = []

    def delete(self) -> None:
        assert self.events[-1].at_ms < self.now_ms, "the events of a topic go before those of the group at their time"
        self.of_topics.append(topic_event("topic-deleted", "foo", self.now_ms))
        self.topics = TopicsImage([], 2)

    def create(self) -> None:
        self.of_topics.append(topic_event("topic-created", "foo2", self.now_ms))
        self.topics = TopicsImage([TopicMetadata(topic_id("foo2"), "foo", 6)], 3)

    @property
    def rows(self) -> list[TableRow]:
        return all_rows(recorded(self, *self.of_topics))

    def table(self, name: str) -> list[dict[str, Any]]:
        return rows_of_table(self.rows, name)


@pytest.mark.parametrize("former_owner", ["holds it", "has left", "has left, and the group is deleted"])
def test_the_partitions_of_the_new_topic_are_new_ones(former_owner: str) -> None:
    harness = TopicHarness()
    harness.join("m1")
    if former_owner != "holds it":
        harness.beat("m1", -1)
    if former_owner.endswith("deleted"):
        harness.handle(c.DeleteGroup(group_id=GROUP_ID, at_ms=harness.now_ms))
        assert not harness.group.exists
    harness.advance(5_000)
    harness.delete()
    harness.advance(5_000)
    harness.create()
    if former_owner == "holds it":
        harness.beat("m1", 2, owned=ALL)
        harness.beat("m1", 2, owned={})
    else:
        harness.join("m2")
    gaps = {(row["from_ms"] - START_MS, (row["to_ms"] or 0) - START_MS) for row in harness.table("gaps")}
    assert all(to_ms <= 5_000 or from_ms >= 10_000 for from_ms, to_ms in gaps), "there was no topic for 5 s"
    last = harness.table("reconciliations")[-1]
    assert (last["bumped_ms"], last["outcome"]) == (harness.now_ms, "completed")
    assert [last[each] for each in KINDS] == [6, 6, 0, 0, 0]
    assert (last["ownerless_partitions"], last["ownerless_ms"]) == (0, 0)


def test_a_new_topic_and_the_deleted_one_of_its_name_have_owners_of_their_own() -> None:
    """m1 has not heard yet that foo was deleted and created again; m2 gets the partitions of the new one."""
    harness = TopicHarness()
    harness.join("m1")
    harness.commit(("foo", 0, 17), member_id="m1", generation_id=2)
    harness.advance(5_000)
    harness.delete()
    harness.create()
    harness.advance(2_000)
    harness.join("m2")
    harness.advance(5_000)
    harness.beat("m1", 2, owned=ALL)
    harness.beat("m1", 2, owned={})
    periods = {(row["member_id"], row["topic"], row["ended_by"]) for row in harness.table("ownership")}
    assert periods == {("m1", "foo", "revoked"), ("m1", "foo", "open"), ("m2", "foo", "open")}
    committed = [(row["ended_by"], row["partition"]) for row in harness.table("ownership") if row["last_commit_ms"]]
    assert committed == [("revoked", 0)]
    last = harness.table("reconciliations")[-1]
    assert (last["outcome"], last["ownerless_ms"]) == ("completed", 0)
    assert [last[each] for each in KINDS] == [6, 6, 0, 0, 0]
    gaps = [(row["topic"], row["was_owned"]) for row in harness.table("gaps")]
    assert len(gaps) >= 6
    assert set(gaps) == {("foo", False)}, "the new partitions wait for their first owner"


@pytest.mark.parametrize("is_created", [True, False], ids=["created again", "deleted"])
def test_a_partition_is_without_an_owner_until_its_topic_is_deleted(is_created: bool) -> None:
    """m1 gives up foo 3-5 one second after m2 has joined; m2 does not get them before foo is deleted at 6 s."""
    harness = TopicHarness()
    harness.join("m1")
    harness.join("m2")
    harness.beat("m1", 2, owned=ALL)
    harness.advance(1_000)
    harness.beat("m1", 2, owned=LOWER)
    harness.advance(5_000)
    harness.delete()
    harness.advance(5_000)
    if is_created:
        harness.create()
    harness.join("m3")
    row = harness.table("reconciliations")[1]
    assert (row["trigger_member_id"], row["outcome"]) == ("m2", "superseded")
    assert (row["ownerless_partitions"], row["ownerless_ms"], row["longest_ownerless_ms"]) == (3, 15_000, 5_000)


def test_partitions_of_a_deleted_topic_that_are_given_up_late_need_no_owner() -> None:
    harness = TopicHarness()
    harness.join("m1")
    harness.join("m2")
    harness.beat("m1", 2, owned=ALL)
    harness.beat("m1", 2, owned=LOWER)
    harness.beat("m2", 3)
    harness.advance(1_000)
    harness.delete()
    harness.create()
    for member_id, share in (("m1", LOWER), ("m2", UPPER)):
        harness.beat(member_id, 3, owned=share)
        harness.advance(5_000)
        harness.beat(member_id, 3, owned={})
    last = harness.table("reconciliations")[-1]
    assert (last["outcome"], last["new"], last["ownerless_ms"]) == ("completed", 6, 0)


def test_a_removed_member_leaves_gaps_until_the_topic_that_it_held_is_deleted() -> None:
    harness = TopicHarness()
    harness.join("m1")
    harness.advance(5_000)
    harness.delete()
    harness.create()
    harness.join("m2")
    harness.advance(60_000)
    expired = [row for row in harness.table("gaps") if row["reason"] == "session-expiry" and row["owner_id"] == "m1"]
    found = {(row["topic"], row["from_ms"] - START_MS, row["to_ms"] - START_MS, row["was_owned"]) for row in expired}
    assert (len(expired), found) == (6, {("foo", 0, 5_000, True)})


def test_a_classic_group_knows_topics_by_name_alone() -> None:
    harness = TopicHarness()
    [client] = harness.classic()
    harness.advance(1_000)
    harness.delete()
    harness.create()
    harness.advance(1_000)
    harness.rejoin(client)
    harness.complete_generation([client], (ALL,))
    last = harness.table("rebalances")[-1]
    assert last["outcome"] == "completed"
    assert [last[each] for each in KINDS] == [6, 0, 0, 0, 6]
    harness.advance(client.session_timeout_ms)
    expired = {row["to_ms"] for row in harness.table("gaps") if row["reason"] == "session-expiry"}
    assert expired == {harness.now_ms}


def created_again_while_a_static_member_is_away() -> TopicHarness:
    """m1 goes away; foo is deleted and created again at 5 s; m2 joins at 10 s."""
    harness = TopicHarness()
    harness.join("m1", instance_id="i1")
    harness.beat("m1", -2, instance_id="i1")
    harness.advance(5_000)
    harness.delete()
    harness.create()
    harness.advance(5_000)
    harness.join("m2")
    return harness


def test_a_new_partition_is_not_kept_for_a_static_member_that_is_away() -> None:
    harness = created_again_while_a_static_member_is_away()
    gaps = {(row["reason"], row["was_owned"], row["from_ms"] - START_MS) for row in harness.table("gaps")}
    assert gaps == {("away", True, 0), ("unassigned", False, 5_000), ("reconciling", False, 10_000)}


def test_a_history_that_begins_with_a_snapshot_does_not_take_the_new_topic_for_the_deleted_one() -> None:
    harness = created_again_while_a_static_member_is_away()
    records = recorded(harness, *harness.of_topics)
    [deleted] = [each.position for each in records if each.type == "topic-deleted"]
    topics = [each for each in records if each.position < deleted and each.group is None]
    later = [
        {(row["reason"], row["from_ms"], row["to_ms"]) for row in rows_of_table(all_rows(some), "gaps")}
        for some in (records, [*topics, *trimmed(records, before=deleted)])
    ]
    assert later[0] - later[1] == {("away", START_MS, START_MS + 5_000)}
    assert later[1] <= later[0]


def test_a_static_member_that_is_back_since_its_replacement_was_lost_owns_what_it_had() -> None:
    harness = RecordedHarness()
    [client] = harness.classic("c", static=True)
    harness.log_delays_appends = True
    harness.advance(1_000)
    client.restart()
    client.send_join()
    harness.advance(1_000)
    harness.fail_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    rows = rows_of_table(all_rows(recorded(harness)), "ownership")
    last = {(row["member_id"], row["ended_by"]) for row in rows if row["partition"] == 0}
    assert last == {("c", "replaced"), ("c-2", "lost"), ("c", "open")}
