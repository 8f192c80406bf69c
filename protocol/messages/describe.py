"""Messages that list, describe and delete groups, of both protocols."""

from typing import Annotated

from regroup.protocol.fields import UNKNOWN_OPERATIONS, Bool, Bytes, Int8, Int16, Int32, Text, Uuid, ignorable, since
from regroup.protocol.message import Message, Structure

__all__ = [
    "DescribeGroupsRequest",
    "DescribedGroupMember",
    "DescribedGroup",
    "DescribeGroupsResponse",
    "ListGroupsRequest",
    "ListedGroup",
    "ListGroupsResponse",
    "DeleteGroupsRequest",
    "DeletableGroupResult",
    "DeleteGroupsResponse",
    "ConsumerGroupDescribeRequest",
    "DescribedTopicPartitions",
    "DescribedAssignment",
    "DescribedConsumer",
    "DescribedConsumerGroup",
    "ConsumerGroupDescribeResponse",
]


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """Asks for the state and the members of classic groups."""

    groups: list[Text]
    include_authorized_operations: Annotated[Bool, since(3)] = False


class DescribedGroupMember(Structure):
    """A member, with its subscription and its assignment as bytes of the group's protocol."""

    member_id: Text
    group_instance_id: Annotated[Text | None, since(4), ignorable] = None
    client_id: Text
    client_host: Text
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Structure):
    """The description of one group. `group_state` is Kafka's name of the state (`Stable`), `protocol_data` the name of
    the chosen assignor. Since v6 a group that does not exist has an error code (KIP-1043)."""

    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(6)] = None
    group_id: Text
    group_state: Text = ""
    protocol_type: Text = ""
    protocol_data: Text = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, since(3)] = UNKNOWN_OPERATIONS


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    """The descriptions of the groups; those of one partition of `__consumer_offsets` stand together, as in Kafka."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    groups: list[DescribedGroup]


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """Asks for the groups of this coordinator. Filters: v4 states (KIP-518), v5 types (KIP-848); empty means any."""

    states_filter: Annotated[list[Text], since(4)] = []
    types_filter: Annotated[list[Text], since(5)] = []


class ListedGroup(Structure):
    """A group in the list of ListGroups. v4 adds its state (KIP-518), v5 its type (KIP-848)."""

    group_id: Text
    protocol_type: Text
    group_state: Annotated[Text, since(4), ignorable] = ""
    group_type: Annotated[Text, since(5), ignorable] = ""


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """The groups of this broker that match the filters."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []


class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    """Deletes empty groups with their offsets (KIP-229)."""

    groups_names: list[Text]


class DeletableGroupResult(Structure):
    """The error code of one group that was to be deleted."""

    group_id: Text
    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(3), ignorable] = None


class DeleteGroupsResponse(Message, api_key=42, versions="0-3", flexible="2+"):
    """An error code for each group that was to be deleted."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """Asks for the state and the members of groups of the consumer protocol (KIP-848)."""

    group_ids: list[Text]
    include_authorized_operations: Bool = False


class DescribedTopicPartitions(Structure):
    """The assigned partitions of one topic."""

    topic_id: Uuid
    topic_name: Text
    partitions: list[Int32]


class DescribedAssignment(Structure):
    """The assignment of one member of a group of the consumer protocol (KIP-848)."""

    topic_partitions: list[DescribedTopicPartitions] = []


class DescribedConsumer(Structure):
    """A member with its current and target assignment. `member_type`: 0 classic, 1 consumer, -1 unknown."""

    member_id: Text
    instance_id: Text | None = None
    rack_id: Text | None = None
    member_epoch: Int32
    client_id: Text
    client_host: Text
    subscribed_topic_names: list[Text]
    subscribed_topic_regex: Text | None = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: Annotated[Int8, since(1), ignorable] = -1


class DescribedConsumerGroup(Structure):
    """The description of one group of the consumer protocol, or an error code."""

    error_code: Int16 = 0
    error_message: Text | None = None
    group_id: Text
    group_state: Text = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: Text = ""
    members: list[DescribedConsumer] = []
    authorized_operations: Int32 = UNKNOWN_OPERATIONS


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    """The groups, in the order of the request. v1 adds the type of each member."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup]
