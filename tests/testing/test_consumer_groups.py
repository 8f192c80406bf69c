"""Groups of the consumer protocol (KIP-848) as the kit shows them, and what it does to them."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupTopicPartitions,
)
from regroup.testing import (
    ActRefused,
    ConsumerGroupState,
    Emulator,
    GroupKind,
    GroupState,
    ReconciliationState,
    WaitTimeout,
)

ORDERS = frozenset(("orders", index) for index in range(4))


@pytest.fixture
def kafka() -> Iterator[Emulator]:
    with Emulator(topics={"orders": 4}, settings={"group.consumer.assignment.interval.ms": 0}) as emulator:
        yield emulator


class Member:
    """A member that sends each heartbeat when a test says so."""

    def __init__(self, kafka: Emulator, name: str) -> None:
        self._connection, self.member_id, self.epoch = kafka.connect(name, group="billing"), f"{name}-id", 0

    def beat(self, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id="billing", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        response = self._connection.send(request)
        assert response.error_code == 0, response
        self.epoch = response.member_epoch
        return response

    def join(self) -> None:
        self.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[])

    def report(self, response: Any, indexes: set[int]) -> None:
        """Report that it owns these partitions of the topic in an earlier response."""
        [topic] = response.assignment.topic_partitions
        owned = ConsumerGroupTopicPartitions(topic_id=topic.topic_id, partitions=sorted(indexes))
        self.beat(topic_partitions=[owned])


def test_a_view_has_state_epoch_members_and_partitions(kafka: Emulator) -> None:
    group = kafka.group("billing")
    first, second = Member(kafka, "first"), Member(kafka, "second")
    first.join()
    alone = group.wait_until_stable(members=1)
    assert (alone.kind, alone.state) == (GroupKind.CONSUMER, ConsumerGroupState.STABLE)
    assert (alone.generation, alone.assignment_epoch, alone.protocol, alone.leader) == (2, 2, "uniform", None)
    assert alone.partitions_of("first") == ORDERS
    assert alone.member("first").subscription == {"orders"}

    second.join()
    revoking = first.beat()
    view = group.now()
    assert (view.state, view.generation, view.is_settled) == (ConsumerGroupState.RECONCILING, 3, False)
    assert str(view) == "Reconciling in group epoch 3, members: first, second"
    asked = view.member("first")
    assert (asked.epoch, asked.reconciliation) == (2, ReconciliationState.UNREVOKED_PARTITIONS)
    assert asked.partitions | asked.revoking == ORDERS
    assert len(asked.revoking) == 2
    assert set(view.unsynced) == {first.member_id, second.member_id}

    first.report(revoking, {index for _, index in asked.partitions})
    second.beat()
    settled = group.wait_until_stable(members=2)
    assert settled.partitions_of("second") == asked.revoking
    assert {each.epoch for each in settled.members} == {3}


def test_members_expire_and_crash_and_a_group_without_members_is_empty(kafka: Emulator) -> None:
    group = kafka.group("billing")
    for name in ("first", "second"):
        Member(kafka, name).join()
    assert [each.client_id for each in group.expire("first").members] == ["second"]
    kafka.crash_client("second")
    empty = group.now()
    assert (empty.state, empty.members, empty.protocol) == (ConsumerGroupState.EMPTY, (), None)
    group.delete()
    assert group.now().state is GroupState.DEAD


def test_acts_of_classic_groups_are_refused(kafka: Emulator) -> None:
    group = kafka.group("billing")
    Member(kafka, "first").join()
    for act in (group.rebalance, group.complete_join_phase, group.bump_generation):
        with pytest.raises(ActRefused, match="one of the consumer protocol, Stable in group epoch 2"):
            act()
    assert group.now().members


def test_the_story_of_a_group_names_epochs_and_the_states_of_members(kafka: Emulator) -> None:
    first, second = Member(kafka, "first"), Member(kafka, "second")
    first.join()
    second.join()
    first.beat()
    lines = [" ".join(line.split()) for line in kafka.group("billing").story().splitlines()]
    heartbeat = "ConsumerGroupHeartbeat of first"
    assert any(f"member-reconciled first-id, unrevoked-partitions, epoch 2 {heartbeat}" in line for line in lines)
    assert any("target-assigned uniform, group epoch 3" in line for line in lines)


@pytest.mark.parametrize("record", [True, False])
def test_the_story_of_a_group_names_members_whose_ids_say_nothing(record: bool) -> None:
    with Emulator(topics={"orders": 2}, record=record) as kafka:
        joining = ConsumerGroupHeartbeatRequest(
            group_id="billing", member_id="1f2e3d4c-0000-4000-8000-000000000001", member_epoch=0,
            rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[],
        )  # fmt: skip
        payments = kafka.connect("payments", group="billing")
        payments.send(joining, 1)
        other_id = "1f2e3d4c-0000-4000-8000-000000000002"
        kafka.connect("c", group="billing").send(replace(joining, member_id=other_id, instance_id="static"), 1)
        with pytest.raises(WaitTimeout) as caught:
            kafka.group("billing").wait_until_stable(members=3, timeout_s=0.01)
        assert "member-subscribed       payments (1f2e3d4c…)" in str(caught.value)
        assert "member-subscribed       static (1f2e3d4c…)" in str(caught.value)
        payments.send(replace(joining, member_epoch=-1, subscribed_topic_names=None, topic_partitions=None), 1)
        has_name = "member-left             payments (1f2e3d4c…)" in kafka.group("billing").story()
        assert has_name == record, "without its requests a former member has no name"


def test_the_broker_asks_members_for_short_heartbeat_intervals_and_allows_any_session_timeout() -> None:
    with Emulator(topics={"orders": 4}, settings={"group.consumer.session.timeout.ms": 1_000}) as emulator:
        member = Member(emulator, "first")
        response = member.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[])
        assert response.heartbeat_interval_ms == 200
