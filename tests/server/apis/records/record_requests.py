"""Requests for the records of the topic `orders`, and the part of the response that tests look at."""

from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)


async def produce(
    client, records: bytes | None, *, partition: int = 0, version: int = 9, **more
) -> PartitionProduceResponse:
    request = produce_request(records, partition=partition, **more)
    return (await client.call(request, version)).responses[0].partition_responses[0]


def produce_request(
    records: bytes | None, *, partition: int = 0, topic: str = "orders", acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    topic_data = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=topic_data)


def fetching(offset: int, *, partitions: int = 1, **more) -> FetchRequest:
    limit, epoch = more.pop("partition_max_bytes", 2**20), more.pop("epoch", -1)
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch)
        for index in range(partitions)
    ]
    topics = [FetchTopic(topic="orders", partitions=wanted)]
    return FetchRequest(**({"max_wait_ms": 0, "min_bytes": 1, "topics": topics} | more))


async def fetch(client, offset: int, **more) -> PartitionData:
    return (await client.call(fetching(offset, **more), 12)).responses[0].partitions[0]


async def list_offset(client, timestamp: int, version: int = 9, **more):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])], **more)
    return (await client.call(request, version)).topics[0].partitions[0]
