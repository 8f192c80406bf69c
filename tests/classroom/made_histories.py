"""Short histories made of single events, for groups that no simulation has."""

from collections.abc import Iterable

from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset, MemberProfile
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.storage.records import Record

ORDERS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
SUBSCRIPTION = encode_subscription(Subscription(1, ("orders",)))


def records_of(events: Iterable[e.Event], group: str = "made") -> list[Record]:
    found = []
    for number, event in enumerate(events, start=1):
        new = encode_event(group, number, 1, event, None)
        fields = {name: getattr(new, name) for name in new.__struct_fields__}
        found.append(Record(**fields, position=number))
    return found


def generation_of(*names: str, assignments: dict[str, bytes], protocol_type: str = "consumer") -> list[e.Event]:
    """These members join, and the first of them sends the assignments."""
    profiles = {
        name: MemberProfile(
            client_id=name,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            supported_protocols=(SupportedProtocol("range", SUBSCRIPTION if protocol_type == "consumer" else b"x"),),
        )
        for name in names
    }
    return [
        e.GroupCreated(at_ms=1_000, by_join=True),
        *(
            e.MemberJoined(at_ms=1_000, member_id=name, protocol_type=protocol_type, profile=profile)
            for name, profile in profiles.items()
        ),
        e.RebalanceStarted(at_ms=1_000, deadline_ms=4_000, is_initial=True),
        e.GenerationStarted(
            at_ms=4_000,
            generation_id=1,
            protocol_name="range",
            leader_id=names[0],
            subscribed_topics=("orders",),
            sync_deadline_ms=9_000,
        ),
        *(e.MemberSynced(at_ms=4_001, member_id=name, awaits_assignment=True) for name in names),
        e.AssignmentWritten(at_ms=4_002, assignments=assignments),
        e.AssignmentCommitted(at_ms=4_002),
    ]


def assignment(*partitions: TopicPartition) -> bytes:
    return encode_assignment(Assignment(1, partitions))


def commit(at_ms: int, offset: int, member_id: str = "") -> e.Event:
    return e.OffsetsCommitted(at_ms=at_ms, member_id=member_id, offsets={"orders": {0: CommittedOffset(offset)}})
