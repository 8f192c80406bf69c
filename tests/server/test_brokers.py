"""Several brokers in one process: who coordinates which group, and what happens when one of them stops."""

import asyncio
from typing import Any

from regroup.coordinator.serialization import read
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
from regroup.protocol.record_batch import read_all
from regroup.storage.memory import MemoryStore
from tests.coordinator.story import behaviour
from tests.server.client import until
from tests.server.company import GROUPS, Company, gathered, home_of, join_request


def produce_request(batch: bytes, partition: int) -> ProduceRequest:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])


def fetch_request(partition: int, epoch: int = -1) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10_000, current_leader_epoch=epoch)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[wanted])])


async def test_every_broker_names_the_same_coordinator_and_the_same_leaders(company: Company) -> None:
    for asking in range(3):
        found = {group: await company.coordinator_of(group, asking=asking) for group in GROUPS}
        assert found == {group: home_of(group) for group in GROUPS}
        assert {index: leader for index, (leader, _) in (await company.leaders(asking=asking)).items()} == {
            index: index % 3 for index in range(6)
        }


@behaviour("validation.not-coordinator")
async def test_other_brokers_say_in_each_api_s_own_place_that_they_do_not_coordinate_the_group(
    company: Company,
) -> None:
    group, elsewhere = "g", (home_of("g") + 1) % 3
    member = await company.has_a_member(group, home_of(group))
    generation = {"group_id": group, "generation_id": 1, "member_id": member}
    partition = o.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    doomed = o.OffsetDeleteRequestTopic(name="orders", partitions=[o.OffsetDeleteRequestPartition(partition_index=0)])
    wanted = o.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])

    async def ask(request: Any, version: int) -> Any:
        return await company.ask(elsewhere, request, version)

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
    assert await company.beats(group, member, home_of(group)) == 0


@behaviour("validation.not-coordinator")
async def test_an_empty_group_id_is_a_fault_everywhere(company: Company) -> None:
    for broker in range(3):
        assert (await company.ask(broker, join_request(""), 9)).error_code == E.INVALID_GROUP_ID


@behaviour("list.scope-is-one-broker")
async def test_each_broker_lists_its_own_groups(company: Company) -> None:
    for group in GROUPS:
        await company.has_a_member(group, home_of(group))
    listed = [await company.listed(broker) for broker in range(3)]
    assert listed == [[group for group in GROUPS if home_of(group) == broker] for broker in range(3)]
    assert all(listed)


async def test_a_transactional_id_has_one_coordinator_too(company: Company) -> None:
    home = await company.coordinator_of("t", kind=1)
    request = x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    codes = [(await company.ask(broker, request)).error_code for broker in range(3)]
    assert codes == [0 if broker == home else E.NOT_COORDINATOR for broker in range(3)]


async def test_records_are_written_and_read_where_their_partition_is_led(company: Company, a_batch) -> None:
    for broker in range(3):
        for partition in range(6):
            answer = await company.ask(broker, produce_request(a_batch(b"hello"), partition), 10)
            code = answer.responses[0].partition_responses[0].error_code
            assert code == (0 if partition % 3 == broker else E.NOT_LEADER_OR_FOLLOWER)


@behaviour("recovery.unload-answers-parked-requests")
async def test_a_broker_that_stops_answers_whoever_waits_for_it(company: Company) -> None:
    group, home = "g", home_of("g")
    await company.has_a_member(group, home)
    waiting = await company.client(home, "newcomer")
    waiting.send(join_request(group), 3)
    await until(lambda: company.emulator.shares.coordinators[home].group(group).state.value == "PreparingRebalance")
    stopping = asyncio.create_task(company.emulator.stop_broker(home))
    assert (await waiting.receive(g.JoinGroupRequest.api_key, 3)).error_code == E.NOT_COORDINATOR
    assert await waiting.is_closed_by_the_broker()
    await stopping


@behaviour("recovery.stable-group")
async def test_the_next_broker_loads_the_groups_of_one_that_stopped(company: Company) -> None:
    members = {group: await company.has_a_member(group, home_of(group)) for group in GROUPS}
    await company.stops(1)
    heirs = {group: home_of(group) if home_of(group) != 1 else 2 for group in GROUPS}
    assert {group: await company.coordinator_of(group) for group in GROUPS} == heirs
    for group, member in members.items():
        assert await company.beats(group, member, heirs[group]) == 0
    assert sorted(await company.listed(2)) == sorted(group for group in GROUPS if heirs[group] == 2)


async def test_a_takeover_is_an_event_of_a_new_reign_and_touches_no_other_group(company: Company) -> None:
    for group in GROUPS:
        await company.has_a_member(group, home_of(group))
    before = company.store.last_position
    await company.stops(1)
    records = [record async for record in company.store.read(after=before) if record.group is not None]
    assert [(record.group, record.type) for record in records] == [
        (group, "coordinator-loaded") for group in sorted(GROUPS) if home_of(group) == 1
    ]
    heads = await company.store.heads()
    assert len({record.reign for record in records}) == 1
    assert records[0].reign > max(heads[group].reign for group in GROUPS if home_of(group) != 1)
    assert all(read(record).reason == "" for record in records)


async def test_a_broker_that_starts_again_takes_its_groups_and_its_address_back(company: Company) -> None:
    members = {group: await company.has_a_member(group, home_of(group)) for group in GROUPS}
    addresses = company.emulator.addresses
    await company.stops(1)
    await company.emulator.start_broker(1)
    assert company.emulator.addresses == addresses
    for group, member in members.items():
        assert await company.coordinator_of(group) == home_of(group)
        assert await company.beats(group, member, home_of(group)) == 0
    moved = next(group for group in GROUPS if home_of(group) == 1)
    assert await company.beats(moved, members[moved], 2) == E.NOT_COORDINATOR


async def test_records_survive_their_leader_and_clients_learn_of_the_new_one_by_its_epoch(
    company: Company, a_batch
) -> None:
    await company.ask(1, produce_request(a_batch(b"kept"), 1), 10)
    before = await company.leaders()
    await company.stops(1)
    after = await company.leaders()
    assert [index for index in range(6) if before[index] != after[index]] == [1, 4]
    assert after[1][0] == 2
    assert after[1][1] > before[1][1]
    fenced, found = [
        (await company.ask(2, fetch_request(1, epoch), 12)).responses[0].partitions[0]
        for epoch in (before[1][1], after[1][1])
    ]
    assert fenced.error_code == E.FENCED_LEADER_EPOCH
    assert [record.value for _, record in read_all(found.records)] == [b"kept"]


async def test_all_brokers_may_stop_and_the_first_to_come_back_leads_everything(company: Company) -> None:
    members = {group: await company.has_a_member(group, home_of(group)) for group in GROUPS}
    for broker in range(3):
        await company.stops(broker)
    await company.emulator.start_broker(2)
    for group, member in members.items():
        assert await company.beats(group, member, 2) == 0
    assert {leader for leader, _ in (await company.leaders(asking=2)).values()} == {2}


async def test_stopping_twice_and_starting_twice_changes_nothing_more(company: Company) -> None:
    await company.stops(1)
    leaders = await company.leaders()
    await company.stops(1)
    assert await company.leaders() == leaders
    await company.emulator.start_broker(0)
    assert await company.leaders() == leaders


async def test_a_history_may_be_served_by_another_number_of_brokers_than_wrote_it() -> None:
    store = MemoryStore()
    async with gathered(store) as company:
        members = {group: await company.has_a_member(group, home_of(group)) for group in GROUPS}
    async with gathered(store, brokers=2) as company:
        for group, member in members.items():
            assert await company.beats(group, member, home_of(group, 2)) == 0


async def test_a_transaction_ends_in_the_groups_of_every_broker_also_while_one_is_moving(company: Company) -> None:
    home = await company.coordinator_of("t", kind=1)
    begun = await company.ask(home, x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000))
    who = {"transactional_id": "t", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    partition = x.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [x.TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
    for group in GROUPS:
        await company.ask(home, x.AddOffsetsToTxnRequest(**who, group_id=group), 3)
        request = x.TxnOffsetCommitRequest(**who, group_id=group, topics=topics)
        (row,) = (await company.ask(home_of(group), request, 3)).topics[0].partitions
        assert row.error_code == 0
    away = (home + 1) % 3
    moving = asyncio.create_task(company.stops(away))
    await asyncio.sleep(0)
    assert (await company.ask(home, x.EndTxnRequest(**who, committed=True), 3)).error_code == 0
    await moving
    groups = [group for coordinator in company.emulator.shares.coordinators for group in coordinator.groups()]
    await until(lambda: not any(company_group(company, group.name).pending_offsets for group in groups))
    assert {company_group(company, group).committed("orders", 0).offset for group in GROUPS} == {7}


def company_group(company: Company, name: str) -> Any:
    return company.emulator.shares.coordinators[home_of(name)].group(name)
