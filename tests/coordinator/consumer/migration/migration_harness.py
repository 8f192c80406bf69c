"""A group that migrates, as the catalogue describes it.

harness = MigrationHarness()
c = harness.classic()                   # c is the only member of a classic group, and has foo 0-5
harness.mixed(c)                        # n1 has joined by ConsumerGroupHeartbeat; c is told to rejoin
harness.hand_over(c)                    # c has kept foo 0-2; n1 gets the rest by its next heartbeat
"""

from typing import Any

from regroup.coordinator.group import GroupKind, GroupState
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, Named
from tests.coordinator.group_driver import SentRequest
from tests.coordinator.simulated_client import SimulatedClient

ALL = {"foo": [0, 1, 2, 3, 4, 5]}
LOWER, UPPER = {"foo": [0, 1, 2]}, {"foo": [3, 4, 5]}


def subscription(
    *topics: str, owned: Named | None = None, version: int = 3, rack_id: str | None = None, user_data: bytes = b""
) -> bytes:
    """The subscription of a classic member, with what it owns."""
    partitions = tuple(TopicPartition(topic, index) for topic, indexes in (owned or {}).items() for index in indexes)
    return encode_subscription(
        Subscription(version, topics or ("foo",), user_data or None, owned_partitions=partitions, rack_id=rack_id)
    )


def assignment(partitions: Named, *, user_data: bytes | None = None, version: int = 3) -> bytes:
    named = tuple(TopicPartition(topic, index) for topic, indexes in partitions.items() for index in indexes)
    return encode_assignment(Assignment(version, named, user_data))


def assigned_by(response: Any) -> Named:
    """The partitions in a SyncGroup response, or those assigned to a member of a classic group."""
    named: Named = {}
    for topic, index in decode_assignment(response.assignment).partitions:
        named.setdefault(topic, []).append(index)
    return named


class MigrationHarness(ConsumerHarness):
    """One group with members of both protocols."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"group_initial_rebalance_delay_ms": 0, **settings})

    @property
    def kind(self) -> GroupKind:
        return self.group.kind

    def classic(
        self, *names: str, shares: tuple[Named, ...] = (ALL,), user_data: bytes | None = None, **fields: Any
    ) -> list[SimulatedClient]:
        """Classic clients, by default c alone, in generation 1 of a Stable group, with these shares."""
        clients = [self.client(name, protocol_names=("range",), **fields) for name in names or ("c",)]
        for client in clients:
            client.metadata = subscription()
            client.join()
        self.advance(0)
        for client in clients[: len(clients) if self.generation_id > 1 else 0]:
            client.send_join()
        self.complete_generation(clients, shares, user_data)
        return clients

    def complete_generation(
        self, clients: list[SimulatedClient], shares: tuple[Named, ...], user_data: bytes | None = None
    ) -> None:
        """Let all clients join the present generation, and the leader assign these shares."""
        while self.group.state is GroupState.PREPARING_REBALANCE:
            for client in clients:
                client.send_join()
        assert self.group.state is GroupState.COMPLETING_REBALANCE
        by_member = {
            client.member_id: assignment(share, user_data=user_data)
            for client, share in zip(clients, shares, strict=False)
        }
        for client in sorted(clients, key=lambda each: not each.is_leader):
            client.sync(by_member)
        assert self.group.state is GroupState.STABLE

    def mixed(self, c: SimulatedClient) -> None:
        """n1 has joined: group epoch 2; c has epoch 1, foo 0-5 and the target foo 0-2; n1 has epoch 2, target 3-5."""
        answer = self.join("n1")
        assert (answer.code, answer.epoch, answer.assignment) == (ErrorCode.NONE, 2, {})
        assert (self.target(c.member_id), self.target("n1")) == (LOWER, UPPER)

    def rejoin(self, client: SimulatedClient, owned: Named | None = None, **fields: Any) -> SentRequest:
        """JoinGroup of a classic member that owns these partitions."""
        client.metadata = subscription(*client.topics, owned=owned or {})
        return client.send_join(**fields)

    def hand_over(self, c: SimulatedClient) -> None:
        """As `mixed`, and c has given up foo 3-5: it has epoch 2, and synced."""
        assert self.rejoin(c, ALL).response.generation_id == 1
        assert assigned_by(c.sync().response) == LOWER
        assert c.heartbeat().code is ErrorCode.REBALANCE_IN_PROGRESS
        assert self.rejoin(c, LOWER).response.generation_id == 2
        assert assigned_by(c.sync().response) == LOWER

    def settled_mixed(self) -> SimulatedClient:
        """c and n1 have their shares at epoch 2; returns c."""
        [c] = self.classic()
        self.mixed(c)
        self.hand_over(c)
        assert self.beat("n1", 2).assignment == UPPER
        assert self.state_name == "Stable"
        return c


def founded_by_consumer(**settings: Any) -> tuple[MigrationHarness, SimulatedClient]:
    """m1 is the only member and has foo 0-5 at epoch 2; a classic client has not joined yet."""
    harness = MigrationHarness(**settings).one()
    client = harness.client("c", protocol_names=("range", "roundrobin"), metadata=subscription())
    return harness, client
