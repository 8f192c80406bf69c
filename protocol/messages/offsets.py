"""Messages that commit, fetch and delete the offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Annotated

from regroup.protocol.fields import (
    NO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    Text,
    Uuid,
    between,
    ignorable,
    nullable,
    only,
    since,
    until,
)
from regroup.protocol.message import Message, Structure

__all__ = [
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitRequest",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetCommitResponse",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequest",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopics",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponse",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteRequest",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
    "OffsetDeleteResponse",
]


class OffsetCommitRequestPartition(Structure):
    """The offset to commit for one partition: that of the next record to consume."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6), ignorable] = -1
    commit_timestamp: Annotated[Int64, only(1)] = -1
    committed_metadata: Text | None = ""


class OffsetCommitRequestTopic(Structure):
    """The offsets to commit in one topic, which is given by name, since v10 by id (KIP-848)."""

    name: Annotated[Text, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api_key=8, versions="0-10", flexible="8+"):
    """Commits offsets of a group. v5 drops the retention time (KIP-211), v7 adds the instance id (KIP-345), and since
    v9 the generation may be a member epoch (KIP-848)."""

    group_id: Text
    generation_id_or_member_epoch: Annotated[Int32, since(1), ignorable] = -1
    member_id: Annotated[Text, since(1), ignorable] = ""
    group_instance_id: Annotated[Text | None, since(7)] = None
    retention_time_ms: Annotated[Int64, between(2, 4), ignorable] = -1
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Structure):
    """The error code of one partition in which an offset was to be committed."""

    partition_index: Int32
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Structure):
    """The error codes of the partitions of one topic, which is given by name, since v10 by id."""

    name: Annotated[Text, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api_key=8, versions="0-10", flexible="8+"):
    """An error code for each partition; the message itself has none."""

    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Structure):
    """The partitions of one topic whose offsets are asked for, up to v7."""

    name: Text
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Structure):
    """The partitions of one topic whose offsets in one group are asked for, since v8. The topic is given by name, since
    v10 by id."""

    name: Annotated[Text, between(8, 9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Structure):
    """One group of a request since v8; `topics=None` asks for all committed offsets."""

    group_id: Text
    member_id: Annotated[Text | None, since(9), ignorable] = None
    member_epoch: Annotated[Int32, since(9), ignorable] = -1
    topics: list[OffsetFetchRequestTopics] | None = []


class OffsetFetchRequest(Message, api_key=9, versions="0-10", flexible="6+"):
    """Asks for committed offsets of one group up to v7 (`group_id`, `topics`), of several since v8 (`groups`, KIP-709).

    Since v2 `topics=None` asks for all. Since v7 `require_stable` fails while a transaction may still change an
    offset (KIP-447).
    """

    group_id: Annotated[Text, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable(2, 7)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = []
    require_stable: Annotated[Bool, since(7)] = False


class OffsetFetchResponsePartition(Structure):
    """The committed offset of one partition up to v7; -1 if there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, between(5, 7), ignorable] = -1
    metadata: Text | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Structure):
    """The committed offsets of the partitions of one topic, up to v7."""

    name: Text
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Structure):
    """The committed offset of one partition since v8; -1 if there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, ignorable] = -1
    metadata: Text | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Structure):
    """The committed offsets of the partitions of one topic, since v8. The topic is given by name, since v10 by id."""

    name: Annotated[Text, between(8, 9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Structure):
    """The committed offsets of one group in a response since v8."""

    group_id: Text
    topics: list[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


class OffsetFetchResponse(Message, api_key=9, versions="0-10", flexible="6+"):
    """The committed offsets: `topics` and `error_code` (since v2) up to v7, `groups` since v8."""

    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = []
    error_code: Annotated[Int16, between(2, 7), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = []


class OffsetDeleteRequestPartition(Structure):
    """A partition whose offset is to be deleted."""

    partition_index: Int32


class OffsetDeleteRequestTopic(Structure):
    """The partitions of one topic whose committed offsets are to be deleted."""

    name: Text
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    """Deletes the committed offsets of a group in the named partitions (KIP-496)."""

    group_id: Text
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Structure):
    """The error code of one partition whose committed offset was to be deleted."""

    partition_index: Int32
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Structure):
    """The error codes of the partitions of one topic."""

    name: Text
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    """An error code for the request and for each partition. Unlike in other messages, the error code stands before the
    throttle time."""

    error_code: Int16 = 0
    throttle_time_ms: Annotated[Int32, ignorable] = 0
    topics: list[OffsetDeleteResponseTopic] = []
