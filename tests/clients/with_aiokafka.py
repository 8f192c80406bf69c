"""aiokafka, as its users use it."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from aiokafka.errors import KafkaError as AiokafkaError

from tests.clients.libraries import (
    POLL_S,
    AssignmentListener,
    ConsumedRecord,
    ConsumerOptions,
    Partitions,
    consumed_records,
    partition_names,
    python_client_settings,
)


class LibraryConsumer:
    """aiokafka: built on asyncio; here its loop runs only during a call."""

    ASSIGNORS: ClassVar = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

    def __init__(self, options: ConsumerOptions, listener: AssignmentListener) -> None:
        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Partitions) -> None:
                listener("assigned", partition_names(assigned))

            def on_partitions_revoked(self, revoked: Partitions) -> None:
                listener("revoked", partition_names(revoked))

        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._begin(options, Listener()))

    async def _begin(self, options: ConsumerOptions, listener: object) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(**python_client_settings(options, self.ASSIGNORS))
        consumer.subscribe(options.topics, pattern=options.pattern or None, listener=listener)
        await consumer.start()
        return consumer

    def poll(self) -> list[ConsumedRecord]:
        return consumed_records(self._runner.run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000))))

    def commit(self) -> str:
        try:
            self._runner.run(self._consumer.commit())
        except AiokafkaError as error:
            return repr(error)
        return ""

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def produce(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, acks="all", enable_idempotence=True, compression_type="lz4"
        ) as producer:
            sent = [await producer.send(topic, value.encode(), partition=partition) for topic, partition, value in rows]
            await asyncio.gather(*sent)

    asyncio.run(produce())
