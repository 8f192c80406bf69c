"""The partitions that requests and responses list: which ones a request names, and responses with an error for all or
some of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from regroup.protocol.fields import NO_UUID
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages import cluster, offsets, records, topics, transactions

RequestT = TypeVar("RequestT", bound=Message)

FIRST_BATCHED_OFFSET_FETCH: Final = 8
_TOPIC_KEYS: Final = ("name", "topic", "topic_id")
_INDEX_FIELDS: Final = ("partition_index", "index", "partition")
_LISTS_OF_TOPICS: Final = ("topics", "topic_data", "v3_and_below_topics", "topic_names")
_LISTS_OF_PARTITIONS: Final = ("partitions", "partition_data", "partition_indexes")
_GROUPS_OF_TOPICS: Final = ("groups", "transactions")

TopicNames: TypeAlias = Callable[[bytes], str]
"""A function that returns the name of a topic id; empty if there is no such topic."""

IsConcerned: TypeAlias = Callable[[str, int], bool]
"""A function that says whether a partition, given topic name and index, gets the error."""


class PartitionLists(NamedTuple):
    """The names of the fields in which an API's request and response list topics and partitions, and in which a
    response has the error of a partition."""

    request_topics: str
    request_partitions: str
    response: type[Message]
    response_topics: str
    response_partitions: str
    topic: type[Structure]
    partition: type[Structure]
    blank: Mapping[str, Any] = {}
    """Values of the other fields of a partition with an error, if they have no default."""
    error_field: str = "error_code"
    changes_state: bool = False
    """Whether the API changes the state of the broker. If so, partitions that get an error must not reach the
    handler."""

    @property
    def index_field(self) -> str:
        return next(name for name in _INDEX_FIELDS if name in self.partition.__struct_fields__)

    def topic_errors(self, topic: Structure, partitions: Iterable[Structure | int], code: int) -> Structure:
        """The response's entry for a topic of the request, with this error code for these partitions."""
        keys = {name: getattr(topic, name) for name in _TOPIC_KEYS if name in self.topic.__struct_fields__}
        errors = [
            self.partition(**{self.index_field: index_of(each), self.error_field: code, **self.blank})
            for each in partitions
        ]
        return self.topic(**keys, **{self.response_partitions: errors})


_NO_OFFSET: Final = {"committed_offset": -1, "metadata": ""}
_NOT_FETCHED: Final = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "records": b""}

# fmt: off
PARTITION_LISTS: Final[dict[type[Message], PartitionLists]] = {
    offsets.OffsetCommitRequest: PartitionLists(
        "topics", "partitions", offsets.OffsetCommitResponse, "topics", "partitions",
        offsets.OffsetCommitResponseTopic, offsets.OffsetCommitResponsePartition, changes_state=True,
    ),
    transactions.TxnOffsetCommitRequest: PartitionLists(
        "topics", "partitions", transactions.TxnOffsetCommitResponse, "topics", "partitions",
        transactions.TxnOffsetCommitResponseTopic, transactions.TxnOffsetCommitResponsePartition, changes_state=True,
    ),
    offsets.OffsetDeleteRequest: PartitionLists(
        "topics", "partitions", offsets.OffsetDeleteResponse, "topics", "partitions",
        offsets.OffsetDeleteResponseTopic, offsets.OffsetDeleteResponsePartition, changes_state=True,
    ),
    offsets.OffsetFetchRequest: PartitionLists(
        "topics", "partition_indexes", offsets.OffsetFetchResponse, "topics", "partitions",
        offsets.OffsetFetchResponseTopic, offsets.OffsetFetchResponsePartition, _NO_OFFSET,
    ),
    records.ProduceRequest: PartitionLists(
        "topic_data", "partition_data", records.ProduceResponse, "responses", "partition_responses",
        records.TopicProduceResponse, records.PartitionProduceResponse, {"base_offset": -1}, changes_state=True,
    ),
    records.FetchRequest: PartitionLists(
        "topics", "partitions", records.FetchResponse, "responses", "partitions",
        records.FetchableTopicResponse, records.PartitionData, _NOT_FETCHED,
    ),
    records.ListOffsetsRequest: PartitionLists(
        "topics", "partitions", records.ListOffsetsResponse, "topics", "partitions",
        records.ListOffsetsTopicResponse, records.ListOffsetsPartitionResponse,
        {"old_style_offsets": [], "timestamp": -1, "offset": -1, "leader_epoch": -1},
    ),
    records.OffsetForLeaderEpochRequest: PartitionLists(
        "topics", "partitions", records.OffsetForLeaderEpochResponse, "topics", "partitions",
        records.OffsetForLeaderTopicResult, records.OffsetForLeaderPartitionResult,
        {"leader_epoch": -1, "end_offset": -1},
    ),
    topics.DeleteRecordsRequest: PartitionLists(
        "topics", "partitions", topics.DeleteRecordsResponse, "topics", "partitions",
        topics.DeleteRecordsTopicResult, topics.DeleteRecordsPartitionResult, {"low_watermark": -1},
        changes_state=True,
    ),
    cluster.MetadataRequest: PartitionLists(
        "topics", "partitions", cluster.MetadataResponse, "topics", "partitions",
        cluster.MetadataResponseTopic, cluster.MetadataResponsePartition, {"leader_id": -1},
    ),
}
"""How each API lists its partitions, by request class; only APIs whose responses have an error code for each
partition."""
# fmt: on

ADD_PARTITIONS: Final = PartitionLists(
    request_topics="v3_and_below_topics",
    request_partitions="partitions",
    response=transactions.AddPartitionsToTxnResponse,
    response_topics="results_by_topic_v3_and_below",
    response_partitions="results_by_partition",
    topic=transactions.AddPartitionsToTxnTopicResult,
    partition=transactions.AddPartitionsToTxnPartitionResult,
    error_field="partition_error_code",
    changes_state=True,
)
"""How AddPartitionsToTxn up to v3 lists its partitions. It is not in PARTITION_LISTS because it adds all partitions or
none, so that single ones cannot have an error."""


def every_partition(request: Message, code: int, lists: PartitionLists | None = None) -> Message:
    """The response with this error code for every partition that the request names."""
    lists = lists or PARTITION_LISTS[type(request)]
    answered = [
        lists.topic_errors(topic, getattr(topic, lists.request_partitions), code)
        for topic in getattr(request, lists.request_topics) or ()
    ]
    return lists.response(**{lists.response_topics: answered})


def without_partitions(request: RequestT, is_concerned: IsConcerned, names: TopicNames) -> tuple[RequestT, RequestT]:
    """Split a request in two: one without the partitions for which `is_concerned` returns True, and one with only these
    partitions."""
    lists = PARTITION_LISTS[type(request)]
    kept: list[Structure] = []
    removed: list[Structure] = []
    for topic in getattr(request, lists.request_topics) or ():
        name = name_of_topic(topic, names)
        for target, wanted in ((kept, False), (removed, True)):
            partitions = [
                each
                for each in getattr(topic, lists.request_partitions)
                if is_concerned(name, index_of(each)) is wanted
            ]
            if partitions:
                target.append(replace(topic, **{lists.request_partitions: partitions}))
    return replace(request, **{lists.request_topics: kept}), replace(request, **{lists.request_topics: removed})


def with_errors_of(removed: Message, response: Message, code: int) -> Message:
    """Make the response to a whole request from `response`, the response to the request without the partitions of the
    request `removed`. Those partitions get the error `code`.

    They come first in their topic, as Kafka puts partitions that it refuses before the others.
    """
    lists = PARTITION_LISTS[type(removed)]
    merged: dict[tuple[object, ...], Structure] = {}
    for topic in (
        *getattr(every_partition(removed, code), lists.response_topics),
        *getattr(response, lists.response_topics),
    ):
        before = merged.get(_key_of(topic))
        partitions = getattr(topic, lists.response_partitions)
        if before is not None:
            partitions = getattr(before, lists.response_partitions) + partitions
        merged[_key_of(topic)] = replace(topic, **{lists.response_partitions: partitions})
    return replace(response, **{lists.response_topics: list(merged.values())})


def with_errors(
    request: Message, response: Message, is_concerned: IsConcerned, names: TopicNames, code: int
) -> Message:
    """The response, in which the partitions for which `is_concerned` is True have this error code in place of the
    handler's result."""
    lists = PARTITION_LISTS[type(request)]

    def changed(topic: Structure) -> Structure:
        name = name_of_topic(topic, names)
        partitions = [
            replace(each, **{lists.error_field: code, **lists.blank}) if is_concerned(name, index_of(each)) else each
            for each in getattr(topic, lists.response_partitions)
        ]
        return replace(topic, **{lists.response_partitions: partitions})

    if isinstance(response, offsets.OffsetFetchResponse) and response.groups:
        groups = [replace(group, topics=[changed(topic) for topic in group.topics]) for group in response.groups]
        return replace(response, groups=groups)
    return replace(
        response, **{lists.response_topics: [changed(topic) for topic in getattr(response, lists.response_topics)]}
    )


def named_partitions(request: Message, names: TopicNames) -> Iterator[tuple[str, frozenset[int] | None]]:
    """The names of the topics in a request, each with its partition indexes, or with None if the API names no
    partitions."""
    for topic in named_topics(request):
        indexes = next((getattr(topic, name) for name in _LISTS_OF_PARTITIONS if hasattr(topic, name)), None)
        if isinstance(topic, str):
            yield topic, None
        else:
            found = None if indexes is None else frozenset(map(index_of, indexes))
            yield name_of_topic(topic, names), found


def named_topics(request: Message) -> Iterator[Structure | str]:
    """The entries of topics in a request, from the field in which its API lists them."""
    for owner in (request, *(each for field in _GROUPS_OF_TOPICS for each in getattr(request, field, None) or ())):
        for field in _LISTS_OF_TOPICS:
            yield from getattr(owner, field, None) or ()


def asks_for_all_topics(request: Message, version: int) -> bool:
    """Whether the request is about every topic without naming any."""
    if isinstance(request, cluster.MetadataRequest):
        return request.topics is None or (version == 0 and not request.topics)
    if isinstance(request, offsets.OffsetFetchRequest):
        asked = [request.topics] if version < FIRST_BATCHED_OFFSET_FETCH else [g.topics for g in request.groups]
        return None in asked
    return False


def name_of_topic(topic: Structure, names: TopicNames) -> str:
    """The topic name of an entry, which may have a topic id instead; empty for an unknown id."""
    name = getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
    topic_id = getattr(topic, "topic_id", NO_UUID)
    return name or (names(topic_id) if topic_id != NO_UUID else "")


def index_of(partition: Structure | int) -> int:
    """The partition index in a partition's entry, which is a structure with an index or, in some APIs, the index
    itself."""
    if isinstance(partition, int):
        return partition
    return int(next(getattr(partition, name) for name in _INDEX_FIELDS if name in partition.__struct_fields__))


def _key_of(topic: Structure) -> tuple[object, ...]:
    return tuple(getattr(topic, name, None) for name in _TOPIC_KEYS)
