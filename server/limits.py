"""The limits of one request of each API, in memory, and in time before other connections are served.

Kafka's broker has many threads, and a request that takes long blocks one of them. Here all connections share one
thread, so every request is bounded: its entries before they are decoded, its work by turns, its response while it is
encoded.

A *step* is the handling of one entry: a partition, a group, a topic, or as much other work as takes as long, a few
microseconds. After STEPS_PER_TURN of them the other connections have their turn (`server/net/turns.py`). Steps are
counted, not timed, so that a simulation always pauses at the same places. docs/limits.md has the table for readers.
"""

from typing import Final, NamedTuple

from regroup.protocol.frames import MAX_ARRAY_ENTRIES
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from regroup.protocol.messages.records import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from regroup.protocol.messages.topics import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)

STEPS_PER_TURN: Final = 1_000
"""Steps of one request before the other connections have their turn."""
FIRST_STEPS_WHILE_OTHERS_WAIT: Final = 50
"""How many steps a request may take at once if the work of other requests waits for its next turn; most requests need
no more."""
REQUESTS_PER_TURN: Final = 32
"""Requests that a client has sent without waiting for responses, and that are handled before the other connections have
their turn."""
ENCODED_BYTES_PER_TURN: Final = 256 * 1024
"""Bytes of a response that are encoded before the other connections have their turn."""
DEFAULT_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""The largest response in bytes, unless `--max-response-bytes` says otherwise. `fetch.max.bytes` is 55 MiB by
default."""
MAX_UNREAD_RESPONSES: Final = 8
"""How much response data all clients together may leave unread, in multiples of the largest response. Beyond that no
long response is sent."""
MAX_READ_AHEAD_BYTES: Final = 64 * 1024
"""The most bytes that are read behind a request that has no response yet; further ones stay in the client's socket."""
MAX_PIPELINED_PARTITIONS: Final = 1_000
"""The most partitions of an OffsetCommit behind which the connection handles its next request before the response."""

MAX_COMMITTED_PARTITIONS: Final = 17_000
"""The most partitions in one commit of offsets. In Kafka the commit has to fit into one batch of `message.max.bytes`,
which is checked when the group is changed (`coordinator/offsets/log_batch_size.py`): with the shortest names 16,774
partitions fit."""
MAX_FETCHED_PARTITIONS: Final = 20_000
"""The most entries of one Fetch. While it waits, it listens to all its partitions."""
MAX_GROUP_ENTRIES: Final = 20_000
"""The most protocols, assignments, members or partitions in one request about a group or a transaction."""
MAX_CREATION_RECORDS: Final = 10_000
"""The most topics, settings and partitions together that one request may create: each is a record of Kafka's
controller, which writes at most so many at once. A request may not name more partitions than that, either."""
MAX_DECOMPRESSED_BYTES: Final = 16 * 1024 * 1024
"""The most bytes into which all gzipped legacy message sets of one request together may be decompressed."""
MAX_LEGACY_MESSAGES: Final = 50_000
"""The most legacy messages in one request. A few kilobytes of gzip can hold millions, and each is validated."""
MAX_PATTERN_INSTRUCTIONS: Final = 2_000
"""The most instructions of one compiled pattern, of a ListTransactions or a subscription. A match with one long name is
then one step."""
MAX_PATTERN_CHARACTERS: Final = 4_000
"""The most characters of a pattern in ListTransactions or a subscription: RE2 takes much longer, and much more memory,
to refuse a long pattern than to compile a short one."""
MAX_PATTERN_BYTES: Final = 2**20
"""The most memory, in bytes, of one compiled pattern and of what RE2 keeps while it matches; RE2's default is 8 MiB."""
MAX_SCANNED_RECORDS: Final = 50_000
"""The most records of one batch that are searched for a timestamp. If the record lies behind them, the start of the
batch is returned, as for a compressed batch: a consumer that starts there reads some older records first, and misses
none."""


class RequestLimit(NamedTuple):
    """The limits that apply to each request of one API, in entries and in steps of work."""

    step: str
    """What one step handles, in words; empty for a request that costs one step only."""
    repeated: str = ""
    """How the API answers a name that the request contains twice; empty if a request names one thing only."""
    other: str = ""
    """Further limits of the API, in words, and the answer to a request that exceeds them."""
    max_entries: int = MAX_ARRAY_ENTRIES
    """The most entries in all arrays of a request together. A request with more closes the connection."""


_NO_DUPLICATES: Final = "INVALID_REQUEST, as in Kafka"
_ONCE: Final = "one entry in the response, as in Kafka"
_EACH: Final = "an entry each time"
_SHARED: Final = "an entry each time, computed once"
_WHOLE: Final = "the whole request"
_CREATES: Final = f"POLICY_VIOLATION for all if topics, settings and partitions are more than {MAX_CREATION_RECORDS:,}"
_COMMITS: Final = (
    "UNKNOWN_SERVER_ERROR, and nothing is committed, if Kafka could not write it as one batch of 1,048,588 bytes"
)
_PATTERNS: Final = (
    f"INVALID_REGULAR_EXPRESSION for a pattern of more than {MAX_PATTERN_CHARACTERS:,} characters or "
    f"{MAX_PATTERN_INSTRUCTIONS:,} instructions"
)

LIMITS: Final[dict[type[Message], RequestLimit]] = {
    ProduceRequest: RequestLimit(
        "a partition, or 10 legacy messages",
        _EACH,
        f"MESSAGE_TOO_LARGE for more than {MAX_LEGACY_MESSAGES:,} legacy messages, or more than "
        f"{MAX_DECOMPRESSED_BYTES // 2**20} MiB of them decompressed",
    ),
    FetchRequest: RequestLimit(
        "a partition, or 100 batches",
        _ONCE,
        "`fetch.max.bytes` of records, or seven eighths of the largest response",
        max_entries=MAX_FETCHED_PARTITIONS,
    ),
    ListOffsetsRequest: RequestLimit(
        "a partition, or 20 batches or records searched",
        _NO_DUPLICATES,
        f"{MAX_SCANNED_RECORDS:,} records of a batch are searched; behind them its start is returned",
    ),
    MetadataRequest: RequestLimit(
        "a topic, or a partition that is described for the first time",
        _ONCE,
        f"UNKNOWN_TOPIC_OR_PARTITION, and no topic is created, if new topics and their partitions are more than "
        f"{MAX_CREATION_RECORDS:,}",
    ),
    OffsetCommitRequest: RequestLimit(_WHOLE, _EACH, _COMMITS),
    OffsetFetchRequest: RequestLimit("a group, or a partition", _SHARED, max_entries=MAX_GROUP_ENTRIES),
    FindCoordinatorRequest: RequestLimit("a key", _EACH),
    JoinGroupRequest: RequestLimit(_WHOLE, max_entries=MAX_GROUP_ENTRIES),
    HeartbeatRequest: RequestLimit(""),
    LeaveGroupRequest: RequestLimit(_WHOLE, _EACH, max_entries=MAX_GROUP_ENTRIES),
    SyncGroupRequest: RequestLimit(_WHOLE, "the last assignment", max_entries=MAX_GROUP_ENTRIES),
    DescribeGroupsRequest: RequestLimit("a group, or a member", _SHARED),
    ConsumerGroupHeartbeatRequest: RequestLimit(
        "the whole request with the group's new target; after the response, 2 characters of a pattern, or 500 "
        "characters of a topic times instructions of the pattern",
        "once",
        _PATTERNS,
        max_entries=MAX_GROUP_ENTRIES,
    ),
    ConsumerGroupDescribeRequest: RequestLimit("a group, a member, or a topic of a member", _SHARED),
    ListGroupsRequest: RequestLimit("a group"),
    ApiVersionsRequest: RequestLimit(""),
    CreateTopicsRequest: RequestLimit("a topic", _NO_DUPLICATES, _CREATES),
    DeleteTopicsRequest: RequestLimit("a topic, or 5 groups that may have offsets in 100 of them", _NO_DUPLICATES),
    DeleteRecordsRequest: RequestLimit("a partition", _EACH),
    InitProducerIdRequest: RequestLimit(""),
    OffsetForLeaderEpochRequest: RequestLimit("a partition", _EACH),
    AddPartitionsToTxnRequest: RequestLimit("a transaction, or a partition", _EACH, max_entries=MAX_GROUP_ENTRIES),
    AddOffsetsToTxnRequest: RequestLimit(""),
    EndTxnRequest: RequestLimit("a partition of the transaction, after the response"),
    TxnOffsetCommitRequest: RequestLimit(_WHOLE, _EACH, _COMMITS),
    DescribeConfigsRequest: RequestLimit("a resource", _SHARED),
    AlterConfigsRequest: RequestLimit("a resource", "INVALID_REQUEST; Kafka sends no response"),
    CreatePartitionsRequest: RequestLimit(
        "a topic", _NO_DUPLICATES, f"POLICY_VIOLATION for more than {MAX_CREATION_RECORDS:,} new partitions"
    ),
    DeleteGroupsRequest: RequestLimit("a group", _ONCE),
    IncrementalAlterConfigsRequest: RequestLimit("a resource", _NO_DUPLICATES),
    OffsetDeleteRequest: RequestLimit(_WHOLE, _EACH, max_entries=MAX_GROUP_ENTRIES),
    DescribeClusterRequest: RequestLimit(""),
    DescribeTransactionsRequest: RequestLimit(
        "a transaction, or a partition of it", _SHARED, max_entries=MAX_GROUP_ENTRIES
    ),
    ListTransactionsRequest: RequestLimit(
        "a transaction, or 500 characters of its id times instructions of the pattern",
        other=_PATTERNS,
    ),
}
"""The limits of every API that is served, by its request."""

MAX_ENTRIES_BY_API: Final[dict[int, int]] = {request.api_key: each.max_entries for request, each in LIMITS.items()}
