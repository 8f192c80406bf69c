"""Exchanges about transactions."""

import asyncio
from importlib.util import find_spec
from typing import Any

from regroup.protocol.messages import transactions as x
from tests.conformance.same_answers.entries import ENTRIES, Named, codes
from tests.conformance.same_answers.probe import Exchange, Probe


def txn_commit(probe: Probe, who: dict[str, Any], group: str, entries: Named, version: int, **fields: Any) -> Any:
    topics = [
        x.TxnOffsetCommitRequestTopic(
            **probe.topic(name, by_id=version >= 6),
            partitions=[
                x.TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes
            ],
        )
        for name, indexes in entries
    ]
    return x.TxnOffsetCommitRequest(**who, group_id=group, topics=topics, **fields)


async def transactional_commits(probe: Probe) -> Any:
    group, who, found = await probe.group(), await probe.begin("t"), []
    await probe.add_group(who, group)
    for version in (0, 3, 4, 5, 6):
        for entries in ENTRIES:
            for each in (group, ""):
                response = await probe.call(txn_commit(probe, who, each, entries, version), version)
                found.append(codes(probe, response, by_id=version >= 6))
    for version in (5, 6):
        for fields in ({"generation_id": 3, "member_id": "m"}, {"generation_id": 0}, {"member_id": "m"}):
            for each in (group, probe.name("new")):
                request = txn_commit(probe, who, each, [("foo", [0])], version, **fields)
                found.append(codes(probe, await probe.call(request, version), by_id=version >= 6))
    return found


async def transactional_commits_with_a_foreign_transactional_id(probe: Probe) -> Any:
    group, who, found = await probe.group(), await probe.begin("own"), []
    foreign = await probe.begin("foreign")
    await probe.add_group(who, group)
    names = [foreign["transactional_id"], probe.name("nobody"), ""]

    async def send(version: int, **changes: Any) -> None:
        request = txn_commit(probe, who | changes, group, [("foo", [0])], version)
        found.append(codes(probe, await probe.call(request, version), by_id=version >= 6))

    for has_written in (False, True):
        if has_written:
            await send(3)
        for version in (1, 3, 4, 5, 6):
            for name in names[: 3 if has_written else 2]:
                await send(version, transactional_id=name)
        await send(3, transactional_id=names[0], producer_epoch=who["producer_epoch"] + 1)
    await probe.eventually(
        lambda: probe.call(x.EndTxnRequest(**who, committed=True), 3), lambda response: response.error_code
    )
    return found


async def transactions(probe: Probe) -> Any:
    empty, ongoing, committed = [await probe.begin(name) for name in ("empty", "ongoing", "committed")]
    for who, indexes in ((ongoing, [2, 0, 1]), (committed, [1])):
        fields = {f"v3_and_below_{name}": value for name, value in who.items()}
        topics = [x.AddPartitionsToTxnTopic(name=probe.name("foo"), partitions=[index]) for index in indexes]
        request = x.AddPartitionsToTxnRequest(**fields, v3_and_below_topics=topics)
        await probe.eventually(
            lambda request=request: probe.call(request, 3),
            lambda added: added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
    await probe.call(x.EndTxnRequest(**committed, committed=True), 3)
    names = [who["transactional_id"] for who in (empty, ongoing, committed)]

    def states(response: Any) -> Any:
        return [
            (
                each.error_code,
                each.transaction_state.replace("PrepareCommit", "CompleteCommit"),
                each.transaction_timeout_ms,
                each.transaction_start_time_ms > 0 if each.transaction_state == "Ongoing" else None,
                [sorted(topic.partitions) for topic in each.topics],
            )
            for each in response.transaction_states
        ]

    describe = x.DescribeTransactionsRequest(transactional_ids=[*names, probe.name("nobody"), "", names[0]])
    await asyncio.sleep(0.5)  # the marker of the transaction has been written
    found = [states(await probe.call(describe))]
    for filters in (
        {},
        {"state_filters": ["Ongoing", "ongoing", "Dead", "Nonsense"]},
        {"producer_id_filters": [empty["producer_id"]]},
        {"duration_filter": 100},
        {"transactional_id_pattern": "("},
        *([{"transactional_id_pattern": "ongo.*"}] if find_spec("re2") else []),
    ):
        response = await probe.call(x.ListTransactionsRequest(**filters))
        listed = sorted(
            (each.transactional_id.partition("-")[0], each.transaction_state)
            for each in response.transaction_states
            if each.transactional_id in names
        )
        found.append((response.error_code, sorted(response.unknown_state_filters), listed))
    return found


EXCHANGES: list[Exchange] = [transactional_commits, transactional_commits_with_a_foreign_transactional_id, transactions]
