"""The newer group protocol (KIP-848): one heartbeat carries everything."""

from typing import Annotated

from regroup.protocol.fields import Int16, Int32, Text, Uuid, since
from regroup.protocol.message import Message, Structure


class ConsumerGroupTopicPartitions(Structure):
    """Some partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Join with epoch 0, leave with -1 (a static member for a while with -2), else beat.

    A null, or a timeout of -1, means that nothing has changed since the last heartbeat. v1 brings the topic regex and
    lets the member choose its own id.
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
    """What the member may read from now on."""

    topic_partitions: list[ConsumerGroupTopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """`assignment=None` means that the member keeps what it has."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    member_id: Text | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupAssignment | None = None
