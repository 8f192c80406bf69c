"""The summaries of groups of the consumer protocol, made of group values in memory."""

from collections.abc import Callable

import msgspec
import pytest

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import Group
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt import consumer_summary
from regroup.server.mqtt.connection_losses import ConnectionLoss, ConnectionLosses
from regroup.server.mqtt.consumer_summary import ReconciliationSummary
from regroup.server.mqtt.group_summary import GroupSummary, MemberSummary, RemovedMember, summary_of
from regroup.server.mqtt.summaries import MAX_REMOVED_MEMBERS, Summaries
from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.storage.records import Record
from tests.coordinator.consumer.consumer_harness import REBALANCE_TIMEOUT_MS, ConsumerHarness
from tests.coordinator.consumer.migration.migration_harness import MigrationHarness
from tests.coordinator.group_driver import GROUP_ID
from tests.server.mqtt.harness import FeedListener, running_cluster, running_service, wait_until
from tests.server.mqtt.mosquitto import needs_mosquitto


def summary(harness: ConsumerHarness, **losses: ConnectionLoss) -> GroupSummary:
    """The summary of the harness's group, once encoded and decoded."""
    made = summary_of(harness.group, losses, harness.topics, ())
    return msgspec.json.decode(msgspec.json.encode(made), type=GroupSummary)


def members_of(shown: GroupSummary) -> dict[str, MemberSummary]:
    return {member.member_id: member for member in shown.members}


def reconciliation_of(shown: GroupSummary) -> ReconciliationSummary:
    assert shown.consumer is not None
    assert shown.consumer.reconciliation is not None
    return shown.consumer.reconciliation


def test_a_stable_group_has_epochs_members_and_the_end_of_its_reconciliation() -> None:
    harness = ConsumerHarness().revoking()
    began_at_ms = harness.now_ms
    harness.advance(2_000)
    harness.beat("m1", 2, owned={"foo": [0, 1, 2]})
    harness.beat("m2", 3)
    ended_at_ms = harness.now_ms
    harness.advance(500)
    shown = summary(harness)
    assert (shown.kind, shown.state, shown.state_since_ms, shown.member_count) == ("consumer", "Stable", ended_at_ms, 2)
    assert (shown.generation_id, shown.leader_id, shown.protocol_name) == (3, None, "uniform")
    assert reconciliation_of(shown) == ReconciliationSummary(
        group_epoch=3, began_at_ms=began_at_ms, ended_at_ms=ended_at_ms, members_behind=0
    )
    m2 = members_of(shown)["m2"]
    assert (m2.session_timeout_ms, m2.consumer and m2.consumer.assigned) == (45_000, {"foo": [3, 4, 5]})


def test_a_member_that_revokes_has_its_partitions_and_the_time_of_its_removal() -> None:
    harness = ConsumerHarness().revoking()
    shown = summary(harness)
    assert shown.state == "Reconciling"
    assert (reconciliation_of(shown).members_behind, reconciliation_of(shown).ended_at_ms) == (2, None)
    m1 = members_of(shown)["m1"].consumer
    assert m1 is not None
    assert (m1.member_epoch, m1.state, m1.assigned, m1.pending_revocation) == (
        *(2, "unrevoked-partitions"),
        *({"foo": [0, 1, 2]}, {"foo": [3, 4, 5]}),
    )
    assert m1.removal_deadline_ms == harness.now_ms + REBALANCE_TIMEOUT_MS


def test_a_group_whose_target_is_not_computed_yet_shows_both_epochs() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1_000).one()
    harness.join("m2")
    shown = summary(harness)
    assert (shown.state, shown.consumer and shown.consumer.assignment_epoch, shown.generation_id) == ("Assigning", 2, 3)
    assert reconciliation_of(shown).members_behind == 2


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    shown = summary(ConsumerHarness().away())
    m2 = members_of(shown)["m2"]
    assert (m2.group_instance_id, m2.consumer and m2.consumer.member_epoch) == ("i2", -2)
    assert m2.consumer is not None
    assert m2.consumer.assigned == {"foo": [3, 4, 5]}


def test_members_of_the_classic_protocol_are_marked_in_a_group_that_migrates() -> None:
    harness = MigrationHarness()
    (classic,) = harness.classic()
    before = summary(harness)
    harness.mixed(classic)
    shown = summary(harness)
    assert (before.kind, before.consumer, before.leader_id) == ("classic", None, classic.member_id)
    assert {name: member.consumer and member.consumer.is_classic for name, member in members_of(shown).items()} == {
        classic.member_id: True,
        "n1": False,
    }


def test_a_lost_connection_is_shown_in_groups_of_both_kinds() -> None:
    harness = ConsumerHarness().one()
    shown = summary(harness, m1=ConnectionLoss("g", "m1", "laptop", 77))
    assert members_of(shown)["m1"].connection_lost_at_ms == 77


def test_a_summary_lists_a_bounded_number_of_partitions_and_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_summary, "MAX_LISTED_PARTITIONS", 3)
    members = members_of(summary(ConsumerHarness().settled()))
    assert [each.consumer and each.consumer.assigned for each in members.values()] == [{"foo": [0, 1, 2]}, None]
    assert [each.consumer and each.consumer.assigned_count for each in members.values()] == [3, 3]


def test_a_summary_of_an_earlier_version_is_read() -> None:
    earlier = (
        b'{"group":"g","event_number":2,"state":"Empty","state_since_ms":1,"generation_id":1,"protocol_name":null,'
        b'"leader_id":null,"member_count":0,"members":[],"a_later_field":1}'
    )
    assert msgspec.json.decode(earlier, type=GroupSummary).consumer is None


def removal(number: int, payload: bytes) -> Record:
    return Record(GROUP_ID, number, 1, 1_000 + number, "member-removed", 2, payload, None, number)


class StoppedJournal(Journal):
    """A journal that writes nothing."""

    def __init__(self) -> None:
        self.last_position = 0

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        pass


def test_removed_members_are_listed_once_and_the_last_ones_only() -> None:
    harness = ConsumerHarness().settled()
    groups: dict[str, Group] = {GROUP_ID: harness.group}
    summaries = Summaries(StoppedJournal(), groups.__getitem__, ConnectionLosses(), lambda: harness.topics)

    def removed() -> list[RemovedMember]:
        groups[GROUP_ID] = harness.group
        summaries.mark_changed([GROUP_ID])
        return msgspec.json.decode(summaries.take_due(0)[GROUP_ID], type=GroupSummary).removed_members

    records = [removal(number, b'{"member_id":"m%d","reason":"silent"}' % number) for number in range(1, 9)]
    summaries.note_published([*records, records[-1], removal(9, b"damaged")])
    assert [each.member_id for each in removed()] == ["m4", "m5", "m6", "m7", "m8"]
    assert removed()[-1] == RemovedMember(member_id="m8", at_ms=1_008, reason="silent")
    assert len(removed()) == MAX_REMOVED_MEMBERS
    groups[GROUP_ID] = Group(group_id=GROUP_ID)
    summaries.mark_changed([GROUP_ID])
    assert summaries.take_due(0) == {GROUP_ID: b""}
    assert removed() == [], "the group was deleted meanwhile"


@needs_mosquitto
@pytest.mark.slow
async def test_a_group_of_the_consumer_protocol_is_followed_through_mosquitto(address: MqttAddress) -> None:
    async with (
        FeedListener(address).listening() as reader,
        running_cluster() as cluster,
        running_service(cluster, address) as service,
    ):
        topic = service.topics.group("payments", "state")
        coordinator = cluster.coordinator_of("payments")
        for epoch in (0, -1):
            heartbeat = ConsumerGroupHeartbeat(
                group_id="payments", at_ms=cluster.state.now_ms(), member_id="anna", member_epoch=epoch, client_id="c",
                client_host="/h", rebalance_timeout_ms=60_000, owned={}, subscribed_topics=("orders",),
                topics=cluster.state.topics_image,
            )  # fmt: skip
            coordinator.submit(heartbeat)
            count = 1 - abs(epoch)
            await wait_until(lambda: (shown := reader.states.get(topic)) and shown.member_count == count)  # noqa: B023
        shown = reader.states[topic]
        assert shown is not None
        assert (shown.kind, shown.state) == ("consumer", "Empty")
        assert shown.event_number == coordinator.group("payments").event_number
        assert shown.state_since_ms > 0
