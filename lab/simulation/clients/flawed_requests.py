"""Requests that a coordinator has to refuse, by the words with which a step names them.

    flawed_request("a Heartbeat of an unknown member", "payments", "orders")

Their member id is that of no member, or what they ask for is not allowed. A request of the consumer protocol needs
brokers that have it.
"""

from collections.abc import Callable
from typing import Final

from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

UNKNOWN_MEMBER_ID: Final = "unknown-member"
SESSION_TIMEOUT_MS: Final = 45_000


def flawed_request(flaw: str, group: str, topic: str) -> Message:
    """The request of this name to a group; `topic` is one that exists. Raises KeyError if there is no such request."""
    return _REQUESTS[flaw](group, topic)


def _join(group: str, session_timeout_ms: int, member_id: str, assignors: tuple[str, ...]) -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(1, ()))
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in assignors],
    )


def _leave(group: str, topic: str) -> LeaveGroupRequest:
    unknown = MemberIdentity(member_id=UNKNOWN_MEMBER_ID)
    return LeaveGroupRequest(group_id=group, member_id=UNKNOWN_MEMBER_ID, members=[unknown, unknown])


def _commit(group: str, topic: str, generation_id: int = 1) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=UNKNOWN_MEMBER_ID,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def _fetch(group: str, topic: str) -> OffsetFetchRequest:
    asked = OffsetFetchRequestGroup(group_id=group, member_id=UNKNOWN_MEMBER_ID, member_epoch=1, topics=None)
    return OffsetFetchRequest(groups=[asked])


def _consumer_heartbeat(
    group: str,
    member_epoch: int = 0,
    topics: list[str] | None = None,
    *,
    regex: str | None = None,
    assignor: str | None = None,
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=UNKNOWN_MEMBER_ID,
        member_epoch=member_epoch,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        subscribed_topic_names=topics,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=[],
    )


_REQUESTS: Final[dict[str, Callable[[str, str], Message]]] = {
    "a JoinGroup with a session timeout of 1 ms": lambda group, topic: _join(group, 1, "", ("range",)),
    "a JoinGroup without protocols": lambda group, topic: _join(group, SESSION_TIMEOUT_MS, "", ()),
    "a JoinGroup of an unknown member": lambda group, topic: _join(
        group, SESSION_TIMEOUT_MS, UNKNOWN_MEMBER_ID, ("range",)
    ),
    "a JoinGroup that lists an assignor twice": lambda group, topic: _join(
        group, SESSION_TIMEOUT_MS, "", ("range", "range")
    ),
    "a SyncGroup of an unknown member": lambda group, topic: SyncGroupRequest(
        group_id=group, generation_id=1, member_id=UNKNOWN_MEMBER_ID
    ),
    "a Heartbeat of an unknown member": lambda group, topic: HeartbeatRequest(
        group_id=group, generation_id=1, member_id=UNKNOWN_MEMBER_ID
    ),
    "a LeaveGroup of an unknown member": _leave,
    "an OffsetCommit of an unknown member": _commit,
    "an OffsetCommit with generation 0": lambda group, topic: _commit(group, topic, 0),
    "an OffsetFetch of an unknown member": _fetch,
    "a ConsumerGroupHeartbeat of an unknown member": lambda group, topic: _consumer_heartbeat(group, 5, []),
    "a ConsumerGroupHeartbeat without a subscription": lambda group, topic: _consumer_heartbeat(group),
    "a ConsumerGroupHeartbeat with an unknown assignor": lambda group, topic: _consumer_heartbeat(
        group, topics=[topic], assignor="unknown"
    ),
    "a ConsumerGroupHeartbeat with an invalid pattern": lambda group, topic: _consumer_heartbeat(group, regex="("),
}
