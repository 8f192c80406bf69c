"""The requests of transactional producers that consume, transform and produce, for `load.c`.

Each transaction is a record, the offset of a group that it rests on, and the commit. The versions are those of Kafka's
own client since 4.0 (KIP-890): a write adds its partition to the transaction, and each transaction has its own epoch.
"""

import asyncio
from typing import Final

from harness.group_requests import PARTITIONS, TOPIC, Member, form_group
from harness.load_file import OFFSET, PRODUCER_EPOCH, PRODUCER_ID, LoadConnection, LoadRequest, ids_of
from harness.servers import Server

from regroup.protocol.client import ClientConnection
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from regroup.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from regroup.protocol.record_batch import BatchRecord, write_batch

VERSIONS: Final[dict[type[Message], int]] = {ProduceRequest: 12, TxnOffsetCommitRequest: 5, EndTxnRequest: 5}
TRANSACTIONAL: Final = 16
"""The attribute of a record batch that belongs to a transaction."""
RECORD: Final = BatchRecord(key=b"order", value=bytes(100))
BYTES_BEHIND_CODE: Final[dict[type[Message], int]] = {
    # base offset, two more numbers, no record errors, no message, tags; tags of the topic; throttle time, tags
    ProduceResponse: 8 + 8 + 8 + 1 + 1 + 1 + 1 + 4 + 1,
    TxnOffsetCommitResponse: 3,
    EndTxnResponse: 8 + 2 + 1,
}
"""How many bytes follow the error code in these responses."""


async def producer_connections(server: Server, groups: str, producers: int) -> list[LoadConnection]:
    """A producer on each connection, with a partition and a group of one member of its own. It has no ids yet."""
    made = []
    for number in range(producers):
        connection = await ClientConnection.open(server.host, server.port)
        (member,) = await form_group([connection], f"{groups}-{number}")
        made.append(LoadConnection(requests_of(member, number % PARTITIONS)))
        await connection.close()
    return made


async def with_new_ids(server: Server, groups: str, producers: list[LoadConnection]) -> list[LoadConnection]:
    """The producers with new ids. What they left open is aborted."""
    connection = await ClientConnection.open(server.host, server.port)
    renewed = []
    for number, producer in enumerate(producers):
        name = f"{groups}-{number}"
        renewed.append(producer._replace(ids=await producer_ids(connection, name)))
    await connection.close()
    return renewed


async def producer_ids(connection: ClientConnection, transactional_id: str) -> bytes:
    """Get the ids of a producer. While its last transaction is being ended, or its coordinator is loaded, the request
    is repeated."""
    while True:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        response = await connection.send(request, 5)
        assert isinstance(response, InitProducerIdResponse)
        if response.error_code == ErrorCode.NONE:
            return ids_of(response.producer_id, response.producer_epoch)
        await asyncio.sleep(0.1)


def requests_of(member: Member, partition: int) -> list[LoadRequest]:
    """The requests of one transaction. A response is compared up to its error code."""
    batch = write_batch(
        [RECORD],
        base_timestamp_ms=1_700_000_000_000,
        producer_id=PRODUCER_ID,
        producer_epoch=PRODUCER_EPOCH,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    topic_data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)])
    produce = ProduceRequest(transactional_id=member.group_id, acks=-1, timeout_ms=30_000, topic_data=[topic_data])
    offset = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=OFFSET)
    commit = TxnOffsetCommitRequest(
        transactional_id=member.group_id,
        group_id=member.group_id,
        producer_id=PRODUCER_ID,
        producer_epoch=PRODUCER_EPOCH,
        generation_id=member.generation_id,
        member_id=member.member_id,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])],
    )
    end = EndTxnRequest(
        transactional_id=member.group_id, producer_id=PRODUCER_ID, producer_epoch=PRODUCER_EPOCH, committed=True
    )
    produced = PartitionProduceResponse(index=partition, base_offset=0)
    committed = TxnOffsetCommitResponsePartition(partition_index=partition)
    produce_frame, ended = frame_of(produce), up_to_code(EndTxnResponse())
    return [
        LoadRequest(
            produce_frame,
            up_to_code(ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[produced])])),
            is_whole=False,
            batch_at=produce_frame.find(batch),
        ),
        LoadRequest(
            frame_of(commit),
            up_to_code(
                TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=TOPIC, partitions=[committed])])
            ),
            is_whole=False,
        ),
        LoadRequest(frame_of(end), ended, is_whole=False, new_ids_at=len(ended)),
    ]


def frame_of(request: Message) -> bytes:
    return encode_request(RequestHeader(request.api_key, VERSIONS[type(request)], 0, "load"), request)


def up_to_code(response: Message) -> bytes:
    """How a response begins behind the correlation id, up to its only error code."""
    version = next(version for request, version in VERSIONS.items() if request.api_key == response.api_key)
    encoded = encode_response(response.api_key, version, 0, response)[8:]
    return encoded[: -BYTES_BEHIND_CODE[type(response)]]
