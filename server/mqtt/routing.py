"""Which broker a request from afar goes to, and behind which others it waits there.

A client has one topic for all its requests, and over TCP it would have several connections. So requests about a group
take turns, as on the one connection to a coordinator, and every other API has its own row: a parked JoinGroup holds up
no Fetch. With several brokers the request itself says who is in charge.
"""

from typing import Any, Final

from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.frames import decode_request
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from regroup.protocol.messages.records import FetchRequest, ListOffsetsRequest, ProduceRequest
from regroup.server.cluster.state import Cluster

GROUP_REQUESTS: Final = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
GROUP_APIS: Final = frozenset(each.api_key for each in GROUP_REQUESTS)
GROUPS: Final = -1
"""The row of all requests about groups."""


def row_of(frame: bytes) -> int:
    """The API key, or GROUPS. A frame of less than two bytes is some row's business, and refused there."""
    key = int.from_bytes(frame[:2], "big", signed=True)
    return GROUPS if key in GROUP_APIS else key


def broker_for(cluster: Cluster, frame: bytes) -> int:
    """The node id of the broker in charge; -1 if none is there."""
    if len(cluster.node_ids) > 1:
        try:
            index = _partition_of(cluster, decode_request(frame)[1])
        except ProtocolError:
            index = None
        if index is not None:
            return cluster.leader_of(index)
    return min(cluster.nodes, default=-1)


def _partition_of(cluster: Cluster, request: Message) -> int | None:
    """The partition whose leader has to answer, None where any broker can."""
    if isinstance(request, GROUP_REQUESTS):
        groups: list[Any] = getattr(request, "groups", None) or [request]
        return cluster.partition_of_group(groups[0].group_id)
    partitions: list[Any] = []
    match request:
        case FetchRequest(topics=topics) if topics:
            partitions = [each.partition for each in topics[0].partitions]
        case ProduceRequest(topic_data=topics) if topics:
            partitions = [each.index for each in topics[0].partition_data]
        case ListOffsetsRequest(topics=topics) if topics:
            partitions = [each.partition_index for each in topics[0].partitions]
    return partitions[0] if partitions else None
