"""The requests of a producer with a transactional id, with the versions from before KIP-890, one method each.

requests = TransactionRequests(client, "anna-transactions", group_id="lab")
producer = await requests.new_producer()
await requests.add_group(producer) and await requests.commit_offsets(producer, positions, generation, "transaction 1")
response = await requests.end(producer, committed=True)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from regroup.lab.simulation.clients.lab_client import MAX_ATTEMPTS, TRANSACTION_KEY, LabClient, first_code
from regroup.members.consumer.state import MemberGeneration
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from regroup.protocol.record_batch import TRANSACTIONAL, BatchRecord, write_batch

TRANSACTION_TIMEOUT_MS: Final = 10_000
OLD_VERSIONS: Final = {
    TxnOffsetCommitRequest.api_key: 4,
    EndTxnRequest.api_key: 4,
    InitProducerIdRequest.api_key: 4,
    AddPartitionsToTxnRequest.api_key: 3,
    ProduceRequest.api_key: 11,
}
"""Versions before KIP-890: the producer adds groups and partitions to its transaction itself, and keeps its epoch."""
ACKS_ALL: Final = -1


class TransactionRequests:
    """Sends the requests of one transactional id, whose transactions have offsets of one group."""

    def __init__(self, client: LabClient, transactional_id: str, group_id: str, instance_id: str | None = None) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._group_id, self._instance_id = group_id, instance_id

    async def new_producer(self) -> InitProducerIdResponse | None:
        """Begin as a new producer, which aborts what a former one has left open; None if that fails."""
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        response = await self._client.request(self._transactional_id, request, key_type=TRANSACTION_KEY)
        if not isinstance(response, InitProducerIdResponse) or response.error_code:
            return None
        return response

    async def add_group(self, producer: InitProducerIdResponse) -> bool:
        """Add the group to the transaction; returns whether that was accepted."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=self._group_id,
        )
        added = await self._client.request(self._transactional_id, request, key_type=TRANSACTION_KEY)
        return added is not None and not added.error_code

    async def add_partitions(self, producer: InitProducerIdResponse, partitions: Iterable[TopicPartition]) -> bool:
        """Add partitions to the transaction; returns whether that was accepted."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in by_topic(partitions).items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        added = await self._client.request(self._transactional_id, request, key_type=TRANSACTION_KEY)
        return added is not None and not any(
            each.partition_error_code
            for topic in added.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        )

    async def write(
        self,
        producer: InitProducerIdResponse,
        partition: TopicPartition,
        records: Sequence[BatchRecord],
        now_ms: int,
        *,
        attempts: int = MAX_ATTEMPTS,
    ) -> bool:
        """Write these records to a partition, as the first ones of the producer there; returns whether that was
        accepted. `now_ms` is their time."""
        batch = write_batch(
            records,
            base_timestamp_ms=now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        data = PartitionProduceData(index=partition.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ACKS_ALL,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
        )
        response = await self._client.request_of_leader(partition, request, attempts=attempts)
        return response is not None and not first_code(response)

    async def commit_offsets(
        self,
        producer: InitProducerIdResponse,
        positions: Mapping[TopicPartition, int],
        generation: MemberGeneration,
        label: str,
    ) -> bool:
        """Write these positions in the transaction, with its label as metadata; returns whether that was accepted."""
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=positions[TopicPartition(topic, index)],
                        committed_metadata=label,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(positions).items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self._group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
            topics=topics,
        )
        written = await self._client.request(self._group_id, request)
        return written is not None and not any(each.error_code for topic in written.topics for each in topic.partitions)

    async def end(self, producer: InitProducerIdResponse, *, committed: bool) -> EndTxnResponse | None:
        """Send EndTxn, and return its response; None if there is none after some tries."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )
        response = await self._client.request(self._transactional_id, request, key_type=TRANSACTION_KEY)
        return response if isinstance(response, EndTxnResponse) else None
