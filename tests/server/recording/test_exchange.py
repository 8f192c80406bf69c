"""The errors in recorded responses: their codes, texts and groups."""

from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_response
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorResponse
from regroup.protocol.messages.describe import DeletableGroupResult, DeleteGroupsResponse
from regroup.protocol.messages.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import RecordedExchange, error_entries
from tests.server.recording.frames import HOST, frame

EXISTS = "Topic 'orders' already exists."


def recorded(request: Message, response: Message, version: int) -> RecordedExchange:
    sent = frame(request, version)
    answered = encode_response(request.api_key, version, 1, response)[4:]
    row = ExchangeRow(1, "0-1@1", HOST, 5, 5, sent, len(sent), 6, bytes(answered), len(answered))
    return RecordedExchange(row)


def test_the_text_of_an_error_is_that_of_the_entry_with_the_code() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
    results = [
        CreatableTopicResult(name="refunds", error_message=None),
        CreatableTopicResult(name="orders", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message=EXISTS),
    ]
    exchange = recorded(request, CreateTopicsResponse(topics=results), 5)
    assert (exchange.answer, exchange.error_message) == ("TOPIC_ALREADY_EXISTS", EXISTS)


def test_a_response_without_an_error_has_no_text_of_one() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
    exchange = recorded(request, CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")]), 5)
    assert (exchange.answer, exchange.error_message) == ("NONE", "")


def test_an_error_belongs_to_the_group_of_its_entry_or_of_the_entry_around_it() -> None:
    deleted = DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id="a"), DeletableGroupResult(group_id="b", error_code=69)]
    )
    assert [each.group for each in error_entries(deleted)] == ["b"]
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=-1, error_code=3)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[partition])
    fetched = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="a", topics=[topic])])
    assert [(each.code, each.group) for each in error_entries(fetched)] == [(3, "a")]
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="c", node_id=-1, host="", port=-1, error_code=15)])
    assert [each.group for each in error_entries(found)] == ["c"]
    assert [each.group for each in error_entries(FindCoordinatorResponse(error_code=15))] == [None]
