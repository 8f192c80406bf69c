"""Several brokers: the coordinator of each group, and brokers that stop and start."""

import asyncio
from typing import Any

from regroup.coordinator.serialization import decode_event
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import transactions as x
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.fetched_records import read_all_records
from tests.server.cluster_harness import GROUPS, ClusterHarness, expected_coordinator, join_request, running_cluster
from tests.server.wire_client import wait_until


def produce_request(batch: bytes, partition: int) -> ProduceRequest:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])


def fetch_request(partition: int, epoch: int = -1) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10_000, current_leader_epoch=epoch)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[wanted])])


async def test_every_broker_names_the_same_coordinator_and_the_same_leaders(brokers: ClusterHarness) -> None:
    for asking in range(3):
        found = {group: await brokers.coordinator_of(group, through=asking) for group in GROUPS}
        assert found == {group: expected_coordinator(group) for group in GROUPS}
        assert {index: leader for index, (leader, _) in (await brokers.leaders(through=asking)).items()} == {
            index: index % 3 for index in range(6)
        }


@behaviour("validation.not-coordinator")
async def test_other_brokers_refuse_requests_about_the_group_in_every_api(
    brokers: ClusterHarness,
) -> None:
    group, elsewhere = "g", (expected_coordinator("g") + 1) % 3
    member = await brokers.add_member(group, expected_coordinator(group))
    generation = {"group_id": group, "generation_id": 1, "member_id": member}
    partition = o.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    doomed = o.OffsetDeleteRequestTopic(name="orders", partitions=[o.OffsetDeleteRequestPartition(partition_index=0)])
    wanted = o.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])

    async def ask(request: Any, version: int) -> Any:
        return await brokers.call(elsewhere, request, version)

    joined = await ask(join_request(group, member_id=member), 9)
    left = await ask(g.LeaveGroupRequest(group_id=group, members=[g.MemberIdentity(member_id=member)]), 5)
    deleted_offsets = await ask(o.OffsetDeleteRequest(group_id=group, topics=[doomed]), 0)
    places = [
        joined.error_code,
        (await ask(g.SyncGroupRequest(**generation, protocol_type="consumer", protocol_name="range"), 5)).error_code,
        (await ask(g.HeartbeatRequest(**generation), 4)).error_code,
        left.error_code,
        deleted_offsets.error_code,
        (
            await ask(
                o.OffsetCommitRequest(
                    group_id=group,
                    generation_id_or_member_epoch=1,
                    member_id=member,
                    topics=[o.OffsetCommitRequestTopic(name="orders", partitions=[partition])],
                ),
                9,
            )
        )
        .topics[0]
        .partitions[0]
        .error_code,
        (await ask(o.OffsetFetchRequest(groups=[o.OffsetFetchRequestGroup(group_id=group, topics=[wanted])]), 9))
        .groups[0]
        .error_code,
        (await ask(d.DescribeGroupsRequest(groups=[group]), 5)).groups[0].error_code,
        (await ask(d.DeleteGroupsRequest(groups_names=[group]), 2)).results[0].error_code,
    ]
    assert places == [E.NOT_COORDINATOR] * len(places)
    assert (joined.member_id, left.members, deleted_offsets.topics) == ("", [], [])
    assert await brokers.heartbeat(group, member, expected_coordinator(group)) == 0


@behaviour("validation.not-coordinator")
async def test_an_empty_group_id_is_refused_by_every_broker(brokers: ClusterHarness) -> None:
    for broker in range(3):
        assert (await brokers.call(broker, join_request(""), 9)).error_code == E.INVALID_GROUP_ID


@behaviour("list.scope-is-one-broker")
async def test_each_broker_lists_its_own_groups(brokers: ClusterHarness) -> None:
    for group in GROUPS:
        await brokers.add_member(group, expected_coordinator(group))
    listed = [await brokers.list_groups(broker) for broker in range(3)]
    assert listed == [[group for group in GROUPS if expected_coordinator(group) == broker] for broker in range(3)]
    assert all(listed)


async def test_a_transactional_id_has_one_coordinator(brokers: ClusterHarness) -> None:
    home = await brokers.coordinator_of("t", key_type=1)
    request = x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    codes = [(await brokers.call(broker, request)).error_code for broker in range(3)]
    assert codes == [0 if broker == home else E.NOT_COORDINATOR for broker in range(3)]


async def test_records_are_written_to_the_partitions_leader_only(brokers: ClusterHarness, make_batch) -> None:
    for broker in range(3):
        for partition in range(6):
            answer = await brokers.call(broker, produce_request(make_batch(b"hello"), partition), 10)
            code = answer.responses[0].partition_responses[0].error_code
            assert code == (0 if partition % 3 == broker else E.NOT_LEADER_OR_FOLLOWER)


@behaviour("recovery.unload-answers-parked-requests")
async def test_a_stopping_broker_answers_its_held_requests(brokers: ClusterHarness) -> None:
    group, home = "g", expected_coordinator("g")
    await brokers.add_member(group, home)
    waiting = await brokers.client(home, "second")
    waiting.send(join_request(group), 3)
    await wait_until(lambda: brokers.cluster.coordinator_of(group).group(group).state.value == "PreparingRebalance")
    stopping = asyncio.create_task(brokers.cluster.stop_broker(home))
    assert (await waiting.receive(g.JoinGroupRequest.api_key, 3)).error_code == E.NOT_COORDINATOR
    assert await waiting.is_closed_by_the_broker()
    await stopping


async def test_the_end_of_a_load_leaves_a_coordinator_that_runs_already(brokers: ClusterHarness) -> None:
    group, home, next_home = "g", expected_coordinator("g"), (expected_coordinator("g") + 1) % 3
    member = await brokers.add_member(group, home)
    brokers.cluster.begin_load(group)
    await brokers.cluster.move_coordinator(group, next_home)
    waiting = await brokers.client(next_home, "second")
    waiting.send(join_request(group), 3)
    await wait_until(lambda: brokers.cluster.coordinator_of(group).group(group).state.value == "PreparingRebalance")
    await brokers.cluster.finish_load(group)
    await brokers.call(next_home, g.LeaveGroupRequest(group_id=group, member_id=member), 0)
    assert (await waiting.receive(g.JoinGroupRequest.api_key, 3)).error_code == E.NONE


@behaviour("recovery.stable-group")
async def test_the_next_broker_loads_the_groups_of_a_stopped_one(brokers: ClusterHarness) -> None:
    members = {group: await brokers.add_member(group, expected_coordinator(group)) for group in GROUPS}
    await brokers.stop_broker(1)
    expected = {group: expected_coordinator(group) if expected_coordinator(group) != 1 else 2 for group in GROUPS}
    assert {group: await brokers.coordinator_of(group) for group in GROUPS} == expected
    for group, member in members.items():
        assert await brokers.heartbeat(group, member, expected[group]) == 0
    assert sorted(await brokers.list_groups(2)) == sorted(group for group in GROUPS if expected[group] == 2)


async def test_a_failover_is_an_event_of_a_new_coordinator_epoch_and_affects_no_other_group(
    brokers: ClusterHarness,
) -> None:
    for group in GROUPS:
        await brokers.add_member(group, expected_coordinator(group))
    before = brokers.store.last_position
    await brokers.stop_broker(1)
    records = [record async for record in brokers.store.read(after=before) if record.group is not None]
    assert [(record.group, record.type) for record in records] == [
        (group, "coordinator-loaded") for group in sorted(GROUPS) if expected_coordinator(group) == 1
    ]
    heads = await brokers.store.heads()
    assert len({record.coordinator_epoch for record in records}) == 1
    assert records[0].coordinator_epoch > max(
        heads[group].coordinator_epoch for group in GROUPS if expected_coordinator(group) != 1
    )
    assert all(decode_event(record).reason == "" for record in records)


async def test_a_broker_that_starts_again_has_its_groups_and_its_address(brokers: ClusterHarness) -> None:
    members = {group: await brokers.add_member(group, expected_coordinator(group)) for group in GROUPS}
    addresses = brokers.cluster.addresses
    await brokers.stop_broker(1)
    await brokers.cluster.start_broker(1)
    assert brokers.cluster.addresses == addresses
    for group, member in members.items():
        assert await brokers.coordinator_of(group) == expected_coordinator(group)
        assert await brokers.heartbeat(group, member, expected_coordinator(group)) == 0
    moved = next(group for group in GROUPS if expected_coordinator(group) == 1)
    assert await brokers.heartbeat(moved, members[moved], 2) == E.NOT_COORDINATOR


async def test_records_survive_a_failover_and_clients_learn_of_it_by_the_leader_epoch(
    brokers: ClusterHarness, make_batch
) -> None:
    await brokers.call(1, produce_request(make_batch(b"stored"), 1), 10)
    before = await brokers.leaders()
    await brokers.stop_broker(1)
    after = await brokers.leaders()
    assert [index for index in range(6) if before[index] != after[index]] == [1, 4]
    assert after[1][0] == 2
    assert after[1][1] > before[1][1]
    fenced, found = [
        (await brokers.call(2, fetch_request(1, epoch), 12)).responses[0].partitions[0]
        for epoch in (before[1][1], after[1][1])
    ]
    assert fenced.error_code == E.FENCED_LEADER_EPOCH
    assert [record.value for _, record in read_all_records(found.records)] == [b"stored"]


async def test_without_a_running_broker_no_coordinator_loads_the_groups(brokers: ClusterHarness) -> None:
    for group in GROUPS:
        await brokers.add_member(group, expected_coordinator(group))
    for broker in range(2):
        await brokers.stop_broker(broker)
    last = brokers.store.last_position
    await brokers.stop_broker(2)
    assert [each.refusal for each in brokers.cluster.router.coordinators] == [E.NOT_COORDINATOR] * 3
    assert brokers.store.last_position == last, "a load stores an event of each group"


async def test_after_all_brokers_have_stopped_the_first_one_started_leads_all_partitions(
    brokers: ClusterHarness,
) -> None:
    members = {group: await brokers.add_member(group, expected_coordinator(group)) for group in GROUPS}
    for broker in range(3):
        await brokers.stop_broker(broker)
    await brokers.cluster.start_broker(2)
    for group, member in members.items():
        assert await brokers.heartbeat(group, member, 2) == 0
    assert {leader for leader, _ in (await brokers.leaders(through=2)).values()} == {2}


async def test_stopping_a_stopped_broker_and_starting_a_running_one_changes_nothing(brokers: ClusterHarness) -> None:
    await brokers.stop_broker(1)
    leaders = await brokers.leaders()
    await brokers.stop_broker(1)
    assert await brokers.leaders() == leaders
    await brokers.cluster.start_broker(0)
    assert await brokers.leaders() == leaders


async def test_a_store_may_be_served_by_another_number_of_brokers() -> None:
    store = MemoryStore()
    async with running_cluster(store) as brokers:
        members = {group: await brokers.add_member(group, expected_coordinator(group)) for group in GROUPS}
    async with running_cluster(store, brokers=2) as brokers:
        for group, member in members.items():
            assert await brokers.heartbeat(group, member, expected_coordinator(group, 2)) == 0


async def test_a_transaction_ends_in_the_groups_of_every_broker_also_during_a_failover(
    brokers: ClusterHarness,
) -> None:
    home = await brokers.coordinator_of("t", key_type=1)
    begun = await brokers.call(home, x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000))
    who = {"transactional_id": "t", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    partition = x.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [x.TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
    for group in GROUPS:
        await brokers.call(home, x.AddOffsetsToTxnRequest(**who, group_id=group), 3)
        request = x.TxnOffsetCommitRequest(**who, group_id=group, topics=topics)
        (row,) = (await brokers.call(expected_coordinator(group), request, 3)).topics[0].partitions
        assert row.error_code == 0
    away = (home + 1) % 3
    moving = asyncio.create_task(brokers.stop_broker(away))
    await asyncio.sleep(0)
    assert (await brokers.call(home, x.EndTxnRequest(**who, committed=True), 3)).error_code == 0
    await moving
    groups = list(brokers.cluster.groups())
    await wait_until(
        lambda: not any(group_of(brokers, group.group_id).pending_transactional_offsets for group in groups)
    )
    assert {group_of(brokers, group).committed_offset("orders", 0).offset for group in GROUPS} == {7}


def group_of(brokers: ClusterHarness, name: str) -> Any:
    return brokers.cluster.coordinator_of(name).group(name)
