"""A clock that is turned by hand."""

import select
import socket
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.records import FetchPartition, FetchRequest, FetchTopic
from regroup.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from regroup.testing import ActRefused, Emulator
from tests.testing.conftest import ManualMember, commit, stable_pair

StartEmulator = Callable[..., Emulator]
FETCH = FetchRequest(
    max_wait_ms=500,
    min_bytes=1,
    topics=[
        FetchTopic(
            topic="orders",
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000_000)],
        )
    ],
)


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 2}, clock="manual")


def test_a_session_ends_to_the_millisecond(kafka: Emulator) -> None:
    stable_pair(kafka)
    kafka.advance(8.999)
    assert len(kafka.group("billing").now().members) == 2
    kafka.advance(0.001)
    assert kafka.group("billing").now().members == ()


def test_a_deadline_that_is_a_millisecond_earlier_than_the_former_one_passes_in_its_time(kafka: Emulator) -> None:
    ManualMember(kafka, "first").post_join(10_000, version=4).result(10)
    kafka.advance(1)
    ManualMember(kafka, "second").post_join(8_999, version=4).result(10)
    ends = []
    for seconds in (8.998, 0.001, 0.001):
        kafka.advance(seconds)
        ends.append([event.type for event in kafka.group("billing").events()].count("pending-member-removed"))
    assert ends == [0, 1, 2]


def test_a_heartbeat_starts_the_session_again(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    kafka.advance(5)
    assert [first.heartbeat(), first.heartbeat()] == [0, 0]
    kafka.advance(4)
    assert [each.client_id for each in kafka.group("billing").now().members] == ["first"]
    kafka.advance(5)
    assert kafka.group("billing").now().state == "Empty"


def test_time_stands_still_between_advances(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    before_ms = kafka.now_ms()
    assert first.heartbeat() == 0
    assert kafka.now_ms() == before_ms
    kafka.advance(0.25)
    assert kafka.now_ms() == before_ms + 250


@pytest.mark.parametrize("in_a_file", [False, True])
def test_what_fell_due_is_durable_and_answered_when_advance_returns(
    emulator: StartEmulator, tmp_path: Path, in_a_file: bool
) -> None:
    kafka = emulator(
        topics={"orders": 2},
        clock="manual",
        settings={"group.initial.rebalance.delay.ms": 3_000},
        store=tmp_path / "store.db" if in_a_file else None,
    )
    waiting = ManualMember(kafka, "first").post_join()
    kafka.group("billing").wait_until(lambda seen: seen.members)
    kafka.advance(3)
    assert "generation-started" in [event.type for event in kafka.group("billing").events()]
    assert waiting.result(10).generation_id == 1


def test_deadlines_pass_one_by_one(kafka: Emulator) -> None:
    anna, ben = ManualMember(kafka, "anna", "a"), ManualMember(kafka, "ben", "b")
    anna.join(session_timeout_ms=6_000)
    anna.sync().result(10)
    ben.join(session_timeout_ms=9_000)
    ben.sync().result(10)
    start_ms = kafka.now_ms()
    passed = [kafka.advance_to_next_deadline() for _ in range(2)]
    assert [(each.kind, each.group, each.at_ms - start_ms) for each in passed] == [
        ("session", "a", 6_000),
        ("session", "b", 9_000),
    ]
    assert [kafka.group(name).now().state for name in "ab"] == ["Empty", "Empty"]
    with pytest.raises(ActRefused, match="no group and no transaction has a deadline"):
        kafka.advance_to_next_deadline()


def test_offsets_of_an_empty_group_expire_after_a_week_at_once(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 1})
    kafka.advance(60)
    before_s = monotonic()
    kafka.advance(7 * 86_400 + 600)
    assert monotonic() - before_s < 30
    assert kafka.groups() == []


def test_a_long_poll_waits_for_the_clock(kafka: Emulator) -> None:
    connection = kafka.connect()
    waiting = connection.post(FETCH, 4)
    other = kafka.connect()
    other.send(ApiVersionsRequest(), 0)
    kafka.advance(0.499)
    assert not waiting.done()
    kafka.advance(0.001)
    assert waiting.result(10).responses[0].partitions[0].error_code == 0


def test_an_idle_connection_is_closed(kafka: Emulator) -> None:
    connection = kafka.connect()
    connection.send(ApiVersionsRequest(), 0)
    kafka.advance(601)
    with pytest.raises(ConnectionLost):
        connection.send(ApiVersionsRequest(), 0)


def test_a_transaction_times_out(kafka: Emulator) -> None:
    connection = kafka.connect()
    init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=10_000)
    producer = connection.send(init, 3)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    connection.send(add, 3)
    assert kafka.advance_to_next_deadline().transactional_id == "t"
    refused = connection.send(add, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert refused.partition_error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def test_waits_run_in_real_time(kafka: Emulator) -> None:
    before_s = monotonic()
    with pytest.raises(TimeoutError):
        kafka.group("billing").wait_until_stable(timeout_s=0.05)
    assert monotonic() - before_s < 5


def test_time_in_real_time_cannot_be_advanced_and_never_goes_back(emulator: StartEmulator, kafka: Emulator) -> None:
    with pytest.raises(ActRefused, match='clock="manual"'):
        emulator().advance(1)
    with pytest.raises(ValueError, match="time only goes forwards"):
        kafka.advance(-1)


def test_an_emulator_with_a_manual_clock_comes_back_after_a_kill(kafka: Emulator) -> None:
    stable_pair(kafka)
    kafka.advance(1)
    before_ms = kafka.now_ms()
    kafka.kill()
    kafka.restart()
    assert kafka.now_ms() >= before_ms
    kafka.advance(9)
    assert kafka.group("billing").now().members == ()


def test_an_emulator_with_a_manual_clock_closes_while_a_client_does_not_read() -> None:
    with Emulator(topics={"orders": 1}, clock="manual") as kafka:
        for _ in range(20):
            kafka.produce("orders", b"x" * 900_000)
        host, _, port = kafka.bootstrap_servers.partition(":")
        with socket.create_connection((host, int(port))) as client:
            for _ in range(20):
                client.sendall(encode_request(RequestHeader(FETCH.api_key, 4, 1, "deaf"), FETCH))
            wait_for_bytes(client)
            before_s = monotonic()
            kafka.close()
    assert monotonic() - before_s < 10


def wait_for_bytes(client: socket.socket) -> None:
    """The broker has begun to answer."""
    assert select.select([client], [], [], 10)[0]


def test_a_year_passes_as_a_second_does(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual")
    first, _ = stable_pair(kafka)
    assert first.heartbeat() == 0
    kafka.advance(365 * 86_400)
    assert not kafka.group("billing").now().members
