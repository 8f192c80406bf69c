"""Requests of transactional producers, and about transactions."""

from collections.abc import Iterator
from typing import Any

from regroup.protocol.message import Message
from regroup.protocol.messages import transactions as t
from tests.robustness.expensive.requests import Row
from tests.robustness.expensive.world import MANY, OFFSETS_GROUP, TRANSACTIONAL_ID, WIDE, Client


def producer(client: Client) -> dict[str, Any]:
    transaction = client.cluster.state.image.transactions[TRANSACTIONAL_ID]
    return {"producer_id": transaction.producer_id, "producer_epoch": transaction.epoch}


def additions() -> Iterator[Row]:
    async def add(client: Client) -> Message:
        named = {f"v3_and_below_{name}": value for name, value in producer(client).items()}
        topics = [t.AddPartitionsToTxnTopic(name=WIDE, partitions=[i % MANY for i in range(19_900)])]
        return t.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID, v3_and_below_topics=topics, **named
        )

    async def verify(client: Client) -> Message:
        topics = [t.AddPartitionsToTxnTopic(name=WIDE, partitions=[MANY - 1] * 19_900)]
        transaction = t.AddPartitionsToTxnTransaction(
            transactional_id=TRANSACTIONAL_ID, verify_only=True, topics=topics, **producer(client)
        )
        return t.AddPartitionsToTxnRequest(transactions=[transaction])

    yield "AddPartitionsToTxn, all partitions many times", 3, add
    yield "AddPartitionsToTxn, one partition verified many times", 4, verify
    yield (
        "AddOffsetsToTxn",
        3,
        t.AddOffsetsToTxnRequest(
            transactional_id=TRANSACTIONAL_ID, producer_id=1, producer_epoch=0, group_id="g" * 32_000
        ),
    )


def ends() -> Iterator[Row]:
    async def commit(client: Client) -> Message:
        wanted = [t.TxnOffsetCommitRequestPartition(partition_index=i % MANY, committed_offset=7) for i in range(5_500)]
        topics = [t.TxnOffsetCommitRequestTopic(name=WIDE, partitions=wanted)]
        return t.TxnOffsetCommitRequest(
            transactional_id=TRANSACTIONAL_ID, group_id=OFFSETS_GROUP, topics=topics, **producer(client)
        )

    async def end(client: Client) -> Message:
        return t.EndTxnRequest(transactional_id=TRANSACTIONAL_ID, committed=True, **producer(client))

    yield "TxnOffsetCommit, many partitions", 2, commit
    yield "EndTxn, of many partitions", 3, end


def descriptions() -> Iterator[Row]:
    yield (
        "DescribeTransactions, a large one many times",
        0,
        t.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID] * 19_900),
    )
    yield (
        "DescribeTransactions, unknown ones",
        0,
        t.DescribeTransactionsRequest(transactional_ids=[f"{i:x}" for i in range(19_900)]),
    )
    yield (
        "ListTransactions, with many filters",
        2,
        lambda n: t.ListTransactionsRequest(
            state_filters=["Ongoing", *(f"{i:x}" for i in range(n))],
            producer_id_filters=[*range(n)],
            transactional_id_pattern="(((a|x){0,20}){0,10})",
        ),
    )
    yield (
        "InitProducerId, a long id",
        4,
        t.InitProducerIdRequest(transactional_id="x" * 32_000, transaction_timeout_ms=1000),
    )


def transaction_requests() -> Iterator[Row]:
    """Every request about transactions."""
    yield from additions()
    yield from ends()
    yield from descriptions()
