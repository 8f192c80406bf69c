"""The history of a group whose members own partitions, lose them in rebalances, and commit offsets between.

The coordinator makes the events. Every leader assigns the partitions in turn, in the consumer protocol's encoding, and
the topic's own event precedes the group, so that the tables have owners and gaps. A rebalance follows after each
`rebalance_every` events: in turn a member leaves and another one joins, or a member's session expires.
"""

from collections.abc import Iterator
from itertools import count

from regroup.coordinator import commands as c
from regroup.coordinator.decide import decide
from regroup.coordinator.group import Group, MemberProfile, SupportedProtocol
from regroup.coordinator.serialization import Cause, encode_cause, encode_event
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.storage.records import Record

TOPIC = "orders"
SETTINGS = CoordinatorSettings()
PROFILE = MemberProfile(
    client_id="consumer-1",
    client_host="/10.0.0.7",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    supported_protocols=(SupportedProtocol("range", encode_subscription(Subscription(3, (TOPIC,)))),),
)


def topic_record(partitions: int) -> Record:
    """The record of the cluster's event that creates the topic, at position 1."""
    payload = f'{{"name":"{TOPIC}","partitions":{partitions}}}'.encode()
    return Record(
        position=1,
        group=None,
        event_number=1,
        coordinator_epoch=1,
        at_ms=1_699_999_000_000,
        type="topic-created",
        version=1,
        payload=payload,
        cause=None,
    )


class OwnedGroup:
    """One group, and the records of everything that has happened to it. Positions begin at 1."""

    def __init__(self, members: int, partitions: int) -> None:
        self.records: list[Record] = []
        self._partitions = partitions
        self._now_ms, self._names, self._offset = 1_700_000_000_000, count(1), 0
        self._group = Group(group_id="group")
        for _ in range(members):
            self._join()
        self._settle()

    def commits(self) -> None:
        """Let every member commit an offset for each of its partitions."""
        self._offset += 10
        for number, member_id in enumerate(self._group.members):
            owned = range(number, self._partitions, len(self._group.members))
            self._handle(
                c.OffsetCommit(
                    group_id="group",
                    at_ms=self._now_ms,
                    member_id=member_id,
                    generation_id=self._group.generation_id,
                    offsets=tuple(c.RequestedOffset(TOPIC, index, self._offset) for index in owned),
                )
            )
            self._now_ms += 100

    def rebalance(self, *, expires: bool) -> None:
        """Let the oldest member leave or expire, and a new one join."""
        oldest = next(iter(self._group.members))
        if expires:
            last_seen_ms, self._now_ms = self._now_ms, self._now_ms + 45_000
            self._handle(
                c.DeadlinePassed(
                    group_id="group",
                    at_ms=self._now_ms,
                    kind=c.DeadlineKind.SESSION,
                    member_id=oldest,
                    last_seen_ms=last_seen_ms,
                )
            )
        else:
            leaving = (c.LeavingMember(oldest),)
            self._handle(c.LeaveGroup(group_id="group", at_ms=self._now_ms, members=leaving))
        self._join()
        self._settle()

    def _settle(self) -> None:
        """Let every member join again and sync; the leader assigns the partitions in turn."""
        while self._group.join_phase:
            before = self._group.event_number
            for member_id, member in list(self._group.members.items()):
                if self._group.join_phase and member.awaiting is None:
                    self._now_ms += 40
                    self._join(member_id)
            if self._group.event_number == before:
                self._now_ms = max(self._now_ms, self._group.join_phase.deadline_ms)
                self._handle(c.DeadlinePassed(group_id="group", at_ms=self._now_ms, kind=c.DeadlineKind.JOIN_PHASE))
        members = list(self._group.members)
        assignments = {
            member_id: encode_assignment(
                Assignment(
                    3,
                    partitions=tuple(
                        TopicPartition(TOPIC, index) for index in range(number, self._partitions, len(members))
                    ),
                )
            )
            for number, member_id in enumerate(members)
        }
        for member_id in members:
            self._now_ms += 20
            self._handle(
                c.SyncGroup(
                    group_id="group",
                    at_ms=self._now_ms,
                    member_id=member_id,
                    generation_id=self._group.generation_id,
                    assignments=assignments if member_id == self._group.leader_id else {},
                )
            )

    def _join(self, member_id: str = "") -> None:
        self._handle(
            c.JoinGroup(
                group_id="group",
                at_ms=self._now_ms,
                member_id=member_id,
                new_member_id=f"consumer-{next(self._names)}-5ad7c1f2-3f0e-4a61-9d0b-2f6f3c1e7a55",
                protocol_type="consumer",
                profile=PROFILE,
                supports_member_id_required=False,
            )
        )

    def _handle(self, command: c.Command) -> None:
        decision = decide(SETTINGS, self._group, command)
        first = self._group.event_number + 1
        cause = encode_cause(
            Cause(api=type(command).__name__, connection="0-1", correlation_id=first, client_id="consumer-1")
        )
        for event_number, event in enumerate(decision.events, first):
            self.records.append(encode_event("group", event_number, 1, event, cause).stored_at(event_number))
        self._group = decision.group


def owned_history(members: int, partitions: int, events: int, rebalance_every: int = 200) -> list[Record]:
    """The records of one group, exactly `events` of them, with a rebalance after each `rebalance_every`."""
    group, expiries = OwnedGroup(members, partitions), 0
    while len(group.records) < events:
        before = len(group.records)
        expiries += 1
        group.rebalance(expires=expiries % 2 == 0)
        while len(group.records) - before < rebalance_every:
            group.commits()
    return group.records[:events]


def copies(records: list[Record], groups: int) -> Iterator[Record]:
    """Copies of a history for several groups.

    The event at position 1 comes first; then the first event of every group, the second of every group, and so on.
    """
    for number, record in enumerate(records):
        for group in range(groups):
            yield Record(
                f"group-{group:05}",
                record.event_number,
                record.coordinator_epoch,
                record.at_ms,
                record.type,
                record.version,
                record.payload,
                record.cause,
                number * groups + group + 2,
            )
