"""Messages of ConsumerGroupHeartbeat, the only request with which a member takes part in the consumer group protocol
(KIP-848).
"""

from typing import Annotated

from regroup.protocol.fields import Int16, Int32, Text, Uuid, since
from regroup.protocol.message import Message, Structure

__all__ = [
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupAssignment",
    "ConsumerGroupHeartbeatResponse",
]


class ConsumerGroupTopicPartitions(Structure):
    """Partitions of one topic that a member owns or is assigned; the topic is given by id."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Joins with member epoch 0, leaves with -1 (-2: a static member that will return), else reports a live member.

    A null field, or a timeout of -1, means: unchanged since the last heartbeat. v1 adds the topic regex and member ids
    chosen by the client.
    """

    group_id: Text
    member_id: Text
    member_epoch: Int32
    instance_id: Text | None = None
    rack_id: Text | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[Text] | None = None
    subscribed_topic_regex: Annotated[Text | None, since(1)] = None
    server_assignor: Text | None = None
    topic_partitions: list[ConsumerGroupTopicPartitions] | None = None


class ConsumerGroupAssignment(Structure):
    """The partitions that the member may consume from now on."""

    topic_partitions: list[ConsumerGroupTopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """The member's epoch and assignment; `assignment=None` leaves the assignment unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    member_id: Text | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupAssignment | None = None
