"""Commits that a client sends without waiting: decided together, answered in order, each once it is durable."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from regroup.coordinator.commands import Command, OffsetCommit
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import decode_response
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.net.responses.pipeline import MAX_PIPELINED
from regroup.server.recording.recorder import Recorder
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from tests.server.group_api_harness import GroupApiHarness, commit_request, running_group_api
from tests.server.wire_client import NOW_MS

COMMIT_VERSION = 9


class GatedStore(MemoryStore):
    """Commits when its gate is open, and notes the number of records in each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[int] = []
        self.fails = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        await self.gate.wait()
        if self.fails:
            raise StoreFailed("the disk is gone")
        self.batches.append(len(records))
        return await super().append(records)


@pytest.fixture
async def store() -> GatedStore:
    return GatedStore()


@pytest.fixture(params=[False, True], ids=["", "recorded"])
def recorder(request: pytest.FixtureRequest) -> Recorder | None:
    return Recorder(lambda: NOW_MS) if request.param else None


@pytest.fixture
async def harness(store: GatedStore, recorder: Recorder | None) -> AsyncIterator[GroupApiHarness]:
    async with running_group_api(store, None, recorder) as harness:
        yield harness


def send_commit(harness: GroupApiHarness) -> int:
    request = commit_request("billing", harness, COMMIT_VERSION, {"orders": [0]})
    return harness.client.send(request, COMMIT_VERSION)


async def next_commit(harness: GroupApiHarness) -> int:
    """The correlation id of the next response, which must be to a commit without an error."""
    correlation_id, response = decode_response(
        OffsetCommitRequest.api_key, COMMIT_VERSION, await harness.client.frame()
    )
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    return correlation_id


async def until_read(harness: GroupApiHarness) -> None:
    """Wait until the broker has read what the client has sent: it answers another client that asks later."""
    (host, port) = harness.cluster.address
    client = await type(harness.client).connect(host, port)
    await client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    await client.close()


def rows_of_first_client(recorder: Recorder) -> list[ExchangeRow]:
    """The recorded exchanges of the harness's own client."""
    rows = recorder.rows()
    return [row for row in rows if row.connection == rows[0].connection]


async def test_commits_of_one_connection_are_one_commit_of_the_store(
    harness: GroupApiHarness, store: GatedStore
) -> None:
    store.gate.clear()
    sent = [send_commit(harness) for _ in range(10)]
    await until_read(harness)
    store.batches.clear()
    store.gate.set()
    assert [await next_commit(harness) for _ in sent] == sent
    assert len(store.batches) <= 2
    assert sum(store.batches) >= 10


async def test_no_response_leaves_before_its_commit_is_durable_nor_before_an_earlier_one(
    harness: GroupApiHarness, store: GatedStore
) -> None:
    store.gate.clear()
    commit = send_commit(harness)
    harness.client.send(HeartbeatRequest(group_id="unknown", generation_id=1, member_id="m"), 4)
    await until_read(harness)
    assert not harness.client.reader._buffer
    store.gate.set()
    assert await next_commit(harness) == commit
    _, response = decode_response(HeartbeatRequest.api_key, 4, await harness.client.frame())
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_repeated_heartbeat_behind_a_commit_is_answered_behind_it_without_being_decoded(
    harness: GroupApiHarness, store: GatedStore, recorder: Recorder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    member_id = await harness.add_member("billing")
    heartbeat = HeartbeatRequest(group_id="billing", generation_id=1, member_id=member_id)
    await harness.client.call(heartbeat, 4)
    offsets = commit_request("billing", harness, COMMIT_VERSION, {"orders": [0]})
    commit = replace(offsets, generation_id_or_member_epoch=1, member_id=member_id)
    decided: list[Command] = []
    decide_next = GroupCoordinator._submit
    monkeypatch.setattr(
        GroupCoordinator,
        "_submit",
        lambda self, command, *rest: decided.append(command) or decide_next(self, command, *rest),
    )
    store.gate.clear()
    sent = [harness.client.send(each, version) for each, version in 2 * [(commit, COMMIT_VERSION), (heartbeat, 4)]]
    await until_read(harness)
    assert not harness.client.reader._buffer
    assert [type(command) for command in decided] == [OffsetCommit, OffsetCommit]
    store.gate.set()
    for number in sent[::2]:
        assert await next_commit(harness) == number
        answered, response = decode_response(HeartbeatRequest.api_key, 4, await harness.client.frame())
        assert (answered, response.error_code) == (number + 1, ErrorCode.NONE)
    if recorder is not None:
        rows = rows_of_first_client(recorder)[-4:]
        assert [int.from_bytes(row.request[4:8], "big") for row in rows] == sent
        assert [int.from_bytes(row.response[:4], "big") for row in rows] == sent
        assert [row.count for row in rows] == [1, 1, 1, 1]


async def test_heartbeats_that_repeat_behind_a_commit_are_recorded_as_one_row(store: GatedStore) -> None:
    recorder = Recorder(lambda: NOW_MS)
    async with running_group_api(store, None, recorder) as harness:
        member_id = await harness.add_member("billing")
        heartbeat = HeartbeatRequest(group_id="billing", generation_id=1, member_id=member_id)
        await harness.client.call(heartbeat, 4)
        offsets = commit_request("billing", harness, COMMIT_VERSION, {"orders": [0]})
        store.gate.clear()
        harness.client.send(replace(offsets, generation_id_or_member_epoch=1, member_id=member_id), COMMIT_VERSION)
        sent = [harness.client.send(heartbeat, 4) for _ in range(3)]
        await until_read(harness)
        store.gate.set()
        await next_commit(harness)
        for number in sent:
            answered, response = decode_response(HeartbeatRequest.api_key, 4, await harness.client.frame())
            assert (answered, response.error_code) == (number, ErrorCode.NONE)
        last = rows_of_first_client(recorder)[-1]
        assert last.count == 3
        assert int.from_bytes(last.response[:4], "big") == sent[0]
        assert len(last.response) == last.response_bytes


async def test_other_requests_wait_until_every_commit_before_them_has_its_response(
    harness: GroupApiHarness, store: GatedStore
) -> None:
    store.gate.clear()
    commit = send_commit(harness)
    harness.client.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    await until_read(harness)
    assert not harness.client.reader._buffer
    store.gate.set()
    assert await next_commit(harness) == commit
    assert decode_response(18, 4, await harness.client.frame())[1].api_keys


async def test_more_commits_than_a_pipeline_takes_are_all_answered(harness: GroupApiHarness, store: GatedStore) -> None:
    store.gate.clear()
    sent = [send_commit(harness) for _ in range(3 * MAX_PIPELINED)]
    await until_read(harness)
    store.gate.set()
    assert [await next_commit(harness) for _ in sent] == sent


async def test_commits_before_an_invalid_request_are_answered_before_the_connection_is_closed(
    harness: GroupApiHarness, store: GatedStore
) -> None:
    store.gate.clear()
    sent = [send_commit(harness) for _ in range(2)]
    harness.client.writer.write(bytes.fromhex("0000000a 0008 0009 00000009 ffff"))
    await until_read(harness)
    store.gate.set()
    assert [await next_commit(harness) for _ in sent] == sent
    assert await harness.client.is_closed_by_the_broker()


async def test_every_commit_that_a_failed_store_has_lost_is_refused_in_order(
    harness: GroupApiHarness, store: GatedStore
) -> None:
    store.gate.clear()
    sent = [send_commit(harness) for _ in range(3)]
    await until_read(harness)
    store.fails = True
    store.gate.set()
    for correlation_id in sent:
        frame = await harness.client.frame()
        answered_id, response = decode_response(OffsetCommitRequest.api_key, COMMIT_VERSION, frame)
        assert answered_id == correlation_id
        assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_commits_are_stored_although_the_client_has_gone(harness: GroupApiHarness, store: GatedStore) -> None:
    store.gate.clear()
    for _ in range(3):
        send_commit(harness)
    await until_read(harness)
    await harness.client.close()
    store.gate.set()
    coordinator = harness.cluster.coordinator_of("billing")
    assert coordinator is not None
    await until_read(harness)
    assert [record.type async for record in store.read(group="billing")].count("offsets-committed") == 3
