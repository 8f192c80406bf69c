"""The asyncio coordinator over a log of Kafka's that is slow, or loses what is written."""

import asyncio

from regroup.coordinator.group import State
from regroup.coordinator.runtime.kafka_log import SlowLog
from regroup.protocol.errors import ErrorCode
from regroup.storage.memory import MemoryStore
from tests.coordinator.desk import Desk, turns
from tests.coordinator.story import behaviour


async def test_a_slow_log_lets_everybody_wait_and_then_answers_in_order() -> None:
    desk = Desk(MemoryStore(), kafka_log=SlowLog(latency_ms=700))
    await desk.coordinator.start()
    answered: list[str] = []
    desk.coordinator.submit(desk.commit(1), lambda message: answered.append("first"))
    desk.coordinator.submit(desk.commit(2), lambda message: answered.append("second"))
    await asyncio.sleep(0.69)
    assert answered == []
    await asyncio.sleep(0.02)
    assert answered == ["first", "second"]
    assert desk.coordinator.group("payments").offsets["foo"][0].offset == 2
    desk.coordinator.stop()


@behaviour("sync.append-failure", "join.new-group.create-append-failure")
async def test_a_faulty_log_loses_what_is_written() -> None:
    log = SlowLog(outcome=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    joining = desk.asks(desk.join("anna"))
    log.settle_all()
    await turns()
    assert joining.code is ErrorCode.NOT_COORDINATOR
    assert not desk.coordinator.group("payments").exists
    log.is_slow = False
    desk.asks(desk.join("ben"))
    await asyncio.sleep(4)
    log.is_slow = True
    sharing = desk.asks(desk.sync("ben"))
    log.settle_all()
    await turns()
    assert sharing.code is ErrorCode.NOT_COORDINATOR
    assert desk.coordinator.group("payments").state is State.PREPARING
    desk.coordinator.stop()


@behaviour("recovery.write-timeout")
async def test_a_log_that_never_answers_is_waited_for_so_long_and_no_longer() -> None:
    log = SlowLog()
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    commit = desk.asks(desk.commit(1))
    await asyncio.sleep(4.9)
    assert not commit.has_come
    await asyncio.sleep(0.2)
    [row] = commit.message.topics[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.settle_all()
    assert desk.coordinator.group("payments").offsets["foo"][0].offset == 1
    desk.coordinator.stop()


async def test_a_coordinator_that_stops_sends_those_away_who_wait_for_the_log() -> None:
    log = SlowLog()
    desk = Desk(MemoryStore(), kafka_log=log)
    await desk.coordinator.start()
    commit = desk.asks(desk.commit(1))
    desk.coordinator.stop()
    [row] = commit.message.topics[0].partitions
    assert row.error_code == ErrorCode.NOT_COORDINATOR
    log.settle_all()
    await desk.coordinator.start()
    assert desk.coordinator.group("payments").offsets == {}
    desk.coordinator.stop()
