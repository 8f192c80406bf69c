"""Brokers that stop, slow down, move and load groups, and a process that is killed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest, FindCoordinatorRequest
from regroup.storage.errors import StoreLocked
from regroup.testing import ActRefused, Emulator, EmulatorDown
from tests.testing.conftest import ManualMember, commit, stable_pair

StartEmulator = Callable[..., Emulator]


def found_coordinator(kafka: Emulator, broker: int) -> int:
    with kafka.connect(broker=broker) as connection:
        return connection.send(FindCoordinatorRequest(key="billing"), 2).node_id


def test_a_moved_coordinator_is_found_and_keeps_the_members(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, brokers=3)
    first, _ = stable_pair(kafka)
    old = kafka.coordinator_of("billing")
    new = kafka.move_coordinator("billing")
    assert new != old
    assert {found_coordinator(kafka, broker) for broker in range(3)} == {new}
    assert first.heartbeat() == ErrorCode.NOT_COORDINATOR
    first.connection = kafka.connect("first", group="billing")
    assert first.heartbeat() == ErrorCode.NONE
    assert kafka.move_coordinator("billing", old) == old
    assert kafka.coordinator_of("billing") == old


def test_a_held_join_is_answered_when_the_coordinator_moves(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, brokers=2)
    stable_pair(kafka)
    waiting = ManualMember(kafka, "third").post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    kafka.move_coordinator("billing")
    assert waiting.result(10).error_code == ErrorCode.NOT_COORDINATOR


def test_a_moved_coordinator_stays_where_it_is_when_another_broker_stops(emulator: StartEmulator) -> None:
    kafka = emulator(brokers=3)
    old = kafka.coordinator_of("billing")
    new = kafka.move_coordinator("billing")
    kafka.stop_broker(old)
    kafka.start_broker(old)
    assert kafka.coordinator_of("billing") == new


def test_the_only_broker_cannot_move_a_coordinator(emulator: StartEmulator) -> None:
    with pytest.raises(ActRefused, match="only one runs"):
        emulator().move_coordinator("billing")
    kafka = emulator(brokers=2)
    kafka.stop_broker(0)
    with pytest.raises(ActRefused, match="broker 0 does not run; running: 1"):
        kafka.move_coordinator("billing", 0)
    with pytest.raises(ValueError, match="unknown broker: 7; there are 2"):
        kafka.stop_broker(7)


def test_a_loading_coordinator_refuses_requests_until_it_has_loaded(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2})
    first, _ = stable_pair(kafka)
    with kafka.loading("billing"):
        joiner = ManualMember(kafka, "third")
        assert joiner.post_join().result(10).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert first.heartbeat() == ErrorCode.NONE, "Kafka accepts heartbeats while it loads"
        with pytest.raises(ActRefused, match="COORDINATOR_LOAD_IN_PROGRESS"):
            kafka.group("billing").expire("first")
    assert kafka.group("billing").now().is_settled
    commit(first, {0: 1})


def test_loading_ends_after_its_time_of_the_manual_clock(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual")
    stable_pair(kafka)
    kafka.begin_loading("billing", 5)
    joiner = ManualMember(kafka, "third")
    kafka.advance(4.999)
    assert joiner.post_join().result(10).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    kafka.advance(0.001)
    joiner.post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)


def test_a_second_loading_is_not_ended_by_the_time_of_the_first(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual")
    stable_pair(kafka)
    kafka.begin_loading("billing", 5)
    kafka.finish_loading("billing")
    kafka.begin_loading("billing", 5)
    kafka.begin_loading("billing")
    kafka.advance(6)
    assert ManualMember(kafka, "third").post_join().result(10).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    kafka.finish_loading("billing")


def test_a_slow_broker_answers_repeated_heartbeats_late_too(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, record=False)
    first, _ = stable_pair(kafka)
    assert [first.heartbeat() for _ in range(3)] == [0, 0, 0]
    kafka.slow_broker(0, 0.05)
    before_s = monotonic()
    assert [first.heartbeat() for _ in range(3)] == [0, 0, 0]
    assert monotonic() - before_s >= 0.15
    kafka.slow_broker(0, 0)
    assert [first.heartbeat() for _ in range(3)] == [0, 0, 0]


def test_a_stopped_broker_refuses_connections_and_comes_back_at_its_address(emulator: StartEmulator) -> None:
    kafka = emulator(brokers=2)
    servers = kafka.bootstrap_servers
    kafka.stop_broker(1)
    with pytest.raises(OSError, match="onnect"):
        kafka.connect(broker=1)
    kafka.start_broker(1)
    kafka.connect(broker=1).send(ApiVersionsRequest(), 0)
    assert kafka.bootstrap_servers == servers


# Kill


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_killed_emulator_comes_back_with_what_was_durable(
    emulator: StartEmulator, tmp_path: Path, in_a_file: bool
) -> None:
    kafka = emulator(topics={"orders": 2}, store=tmp_path / "store.db" if in_a_file else None)
    first, _ = stable_pair(kafka)
    commit(first, {0: 7})
    servers = kafka.bootstrap_servers
    waiting = ManualMember(kafka, "third").post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    kafka.kill()
    with pytest.raises(ConnectionLost):
        waiting.result(10)
    with pytest.raises(OSError, match="onnect"):
        kafka.connect()
    kafka.restart()
    assert kafka.bootstrap_servers == servers
    assert kafka.topics() == {"orders": 2}
    group = kafka.group("billing").now()
    assert (group.state, len(group.members), group.committed) == ("Stable", 2, {("orders", 0): 7})
    first.connection = kafka.connect("first")
    assert first.heartbeat() == 0


def test_records_are_lost_in_a_kill_and_their_offsets_are_not_used_again(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 1})
    kafka.produce("orders", "one")
    kafka.kill()
    kafka.restart()
    assert kafka.records("orders") == []
    assert kafka.produce("orders", "two").offset > 0


def test_while_it_is_killed_every_act_says_so(emulator: StartEmulator) -> None:
    kafka = emulator()
    kafka.kill()
    for act in (kafka.kill, kafka.groups, kafka.topics, lambda: kafka.group("billing").now()):
        with pytest.raises(EmulatorDown, match="restart"):
            act()
    kafka.restart()
    with pytest.raises(ActRefused, match="the emulator runs"):
        kafka.restart()


def test_a_killed_emulator_lets_go_of_its_store(emulator: StartEmulator, tmp_path: Path) -> None:
    kafka = emulator(store=tmp_path / "store.db")
    with pytest.raises(StoreLocked):
        Emulator(store=tmp_path / "store.db").start()
    kafka.kill()
    Emulator(store=tmp_path / "store.db").start().close()


def test_emulators_in_one_process_do_not_disturb_each_other(emulator: StartEmulator) -> None:
    with ThreadPoolExecutor() as pool:
        emulators = list(pool.map(lambda number: emulator(topics={f"topic-{number}": 1}), range(5)))
    assert [list(kafka.topics()) for kafka in emulators] == [[f"topic-{number}"] for number in range(5)]


def test_a_client_whose_coordinator_loads_is_not_crashed_by_half(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2})
    first, _ = stable_pair(kafka)
    with kafka.loading("billing"), pytest.raises(ActRefused, match="takes no commands now"):
        kafka.crash_client("first")
    assert first.heartbeat() == ErrorCode.NONE


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_loading_for_no_possible_time_is_refused(emulator: StartEmulator, seconds: float) -> None:
    kafka = emulator()
    with pytest.raises(ValueError, match="invalid seconds"):
        kafka.begin_loading("billing", seconds)
