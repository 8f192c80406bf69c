"""Produce, Fetch, ListOffsets and others about the records of partitions."""

import gzip
import zlib
from collections.abc import Iterator

from regroup.protocol.messages import records as r
from regroup.protocol.messages import topics as p
from regroup.protocol.record_batch import BatchRecord, write_batch
from tests.robustness.expensive.requests import REQUEST_BYTES, Row
from tests.robustness.expensive.world import DEEP, MANY, SMALL_TOPICS, WIDE, fetch_partition


def legacy_message(value: bytes, attributes: int = 0) -> bytes:
    body = bytes([1, attributes]) + bytes(8) + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    sized = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(sized).to_bytes(4, "big") + sized


def produce(topic: str, records: list[tuple[int, bytes]]) -> r.ProduceRequest:
    data = [r.PartitionProduceData(index=index, records=each) for index, each in records]
    return r.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[r.TopicProduceData(name=topic, partition_data=data)])


def produces() -> Iterator[Row]:
    batch = write_batch([BatchRecord()], base_timestamp_ms=5)
    large = legacy_message(gzip.compress(legacy_message(bytes(9_000_000))), 1)
    many = legacy_message(gzip.compress(legacy_message(b"") * 49_000), 1)
    yield "Produce, a batch in each partition", 9, lambda n: produce(WIDE, [(i % MANY, batch) for i in range(n)])
    yield "Produce, one partition many times", 9, lambda n: produce(SMALL_TOPICS[0], [(0, batch)] * n)
    yield "Produce, large gzipped sets", 2, produce(SMALL_TOPICS[1], [(0, large)] * (REQUEST_BYTES // len(large)))
    yield (
        "Produce, gzipped sets of many messages",
        2,
        produce(SMALL_TOPICS[2], [(0, many)] * (REQUEST_BYTES // len(many))),
    )
    yield "Produce, a gzipped set of nothing", 2, produce(SMALL_TOPICS[3], [(0, legacy_message(gzip.compress(b""), 1))])


def fetches() -> Iterator[Row]:
    def fetch(topic: str, indexes: list[int], **fields: int) -> r.FetchRequest:
        wanted = [r.FetchTopic(topic=topic, partitions=[fetch_partition(index) for index in indexes])]
        return r.FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted, **fields)

    yield "Fetch, all partitions", 12, lambda n: fetch(WIDE, [i % MANY for i in range(n)])
    yield "Fetch, aborted transactions many times", 12, lambda n: fetch(DEEP, [2] * n, isolation_level=1)
    yield "Fetch, small batches many times", 12, lambda n: fetch(DEEP, [0] * n)


def offsets_of_records() -> Iterator[Row]:
    def list_offsets(topic: str, indexes: list[int], timestamp: int) -> r.ListOffsetsRequest:
        wanted = [r.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
        return r.ListOffsetsRequest(replica_id=-1, topics=[r.ListOffsetsTopic(name=topic, partitions=wanted)])

    yield "ListOffsets, all partitions by time", 7, lambda n: list_offsets(WIDE, [i % MANY for i in range(n)], 6)
    yield "ListOffsets, many batches many times", 7, lambda n: list_offsets(DEEP, [0] * n, 2**41)
    yield "ListOffsets, many batches", 7, list_offsets(DEEP, [0, 1, 2], 2**39)
    yield "ListOffsets, the newest of many batches", 7, list_offsets(DEEP, [0, 1, 2], -3)
    yield "ListOffsets, many records many times", 7, lambda n: list_offsets(DEEP, [1] * n, 2**39)


def epochs_and_deletes() -> Iterator[Row]:
    def epochs(n: int) -> r.OffsetForLeaderEpochRequest:
        wanted = [r.OffsetForLeaderPartition(partition=i % MANY, leader_epoch=0) for i in range(n)]
        return r.OffsetForLeaderEpochRequest(topics=[r.OffsetForLeaderTopic(topic=WIDE, partitions=wanted)])

    yield "OffsetForLeaderEpoch, all partitions", 4, epochs

    def delete_records(n: int) -> p.DeleteRecordsRequest:
        wanted = [p.DeleteRecordsPartition(partition_index=i % MANY, offset=-1) for i in range(n)]
        return p.DeleteRecordsRequest(topics=[p.DeleteRecordsTopic(name=WIDE, partitions=wanted)], timeout_ms=1000)

    yield "DeleteRecords, all partitions", 2, delete_records


def record_requests() -> Iterator[Row]:
    """Every request about records."""
    yield from produces()
    yield from fetches()
    yield from offsets_of_records()
    yield from epochs_and_deletes()
