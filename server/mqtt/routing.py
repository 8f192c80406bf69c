"""Finds the broker to which a remote client's request goes, and the queue in which it waits there.

A remote client has one topic for all its requests, where a client over TCP has several connections. Its requests about
groups share a queue, as on a connection to the coordinator, and each other API has its own, so that a held JoinGroup
does not block a Fetch. With several brokers the broker in charge is found from the request.
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
from regroup.server.cluster.state import ClusterState

GROUP_REQUESTS: Final = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
GROUP_APIS: Final = frozenset(each.api_key for each in GROUP_REQUESTS)
GROUP_QUEUE: Final = -1
"""The queue of all requests about groups."""


def queue_of(frame: bytes) -> int:
    """The queue of an encoded request: GROUP_QUEUE, or its API key. A frame of less than two bytes may have any, since
    every connection refuses it."""
    key = int.from_bytes(frame[:2], "big", signed=True)
    return GROUP_QUEUE if key in GROUP_APIS else key


def broker_id_for(state: ClusterState, frame: bytes) -> int:
    """The node id of the broker that must handle an encoded request: the leader of its group or partition, or any
    broker.

    -1 while no broker runs.
    """
    if len(state.node_ids) > 1:
        try:
            index = _partition_of(state, decode_request(frame)[1])
        except ProtocolError:
            index = None
        if index is not None:
            return state.leader_of(index)
    return min(state.nodes, default=-1)


def _partition_of(state: ClusterState, request: Message) -> int | None:
    """The partition whose leader must handle the request; None if any broker can handle it."""
    if isinstance(request, GROUP_REQUESTS):
        groups: list[Any] = getattr(request, "groups", None) or [request]
        return state.partition_of_group(groups[0].group_id)
    match request:
        case FetchRequest(topics=[first, *_]):
            indexes = [each.partition for each in first.partitions]
        case ProduceRequest(topic_data=[first, *_]):
            indexes = [each.index for each in first.partition_data]
        case ListOffsetsRequest(topics=[first, *_]):
            indexes = [each.partition_index for each in first.partitions]
        case _:
            return None
    return indexes[0] if indexes else None
