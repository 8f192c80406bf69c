"""How a rule ends, and what becomes of the requests that it held."""

from collections.abc import Callable

import pytest

from regroup.testing import Emulator
from tests.testing.faults.conftest import commit_of

StartEmulator = Callable[..., Emulator]


def test_requests_of_lost_connections_are_not_held(kafka: Emulator) -> None:
    held = kafka.hold("OffsetCommit")
    with kafka.connect("anna") as anna:
        anna.post(commit_of(orders={0: 5}), 7)
        held.wait_hits()
    second = kafka.connect("ben").post(commit_of(orders={0: 6}), 7)
    held.wait_hits(2)
    fault = held._fault._fault
    assert [exchange.header.client_id for exchange in fault.held] == ["ben"]
    held.release()
    second.result(10)
    assert kafka.committed("offline") == {("orders", 0): 6}


def test_a_rule_ends_with_its_block_by_removal_or_by_time(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual")
    with kafka.hold("SyncGroup") as block:
        assert block.is_active
    removed = kafka.hold("SyncGroup")
    removed.remove()
    removed.remove()
    expiring = kafka.hold("SyncGroup", expires_after_s=5)
    kafka.advance(4.9)
    assert (block.is_active, removed.is_active, expiring.is_active) == (False, False, True)
    kafka.advance(0.1)
    assert not expiring.is_active


def test_an_expired_rule_releases_what_it_holds(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual", topics={"orders": 1})
    held = kafka.hold("OffsetCommit", expires_after_s=5)
    waiting = kafka.connect().post(commit_of(orders={0: 5}), 7)
    held.wait_hits()
    kafka.advance(5)
    assert waiting.result(10).topics[0].partitions[0].error_code == 0


def test_a_held_request_is_delayed_after_its_release(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual", topics={"orders": 1})
    held = kafka.hold("OffsetCommit")
    held.remove()
    held = kafka.fault(on="OffsetCommit", hold=True, delay_s=3)
    waiting = kafka.connect().post(commit_of(orders={0: 5}), 7)
    held.wait_hits()
    held.release()
    kafka.advance(2.9)
    assert not waiting.done()
    kafka.advance(0.1)
    assert waiting.result(10).topics[0].partitions[0].error_code == 0


def test_no_more_than_a_thousand_rules_are_in_force(kafka: Emulator) -> None:
    for _ in range(1_000):
        kafka.fault(on="SyncGroup", drop="request")
    with pytest.raises(ValueError, match="1000 rules are in force, and no more are possible: remove some"):
        kafka.fault(on="SyncGroup", drop="request")
