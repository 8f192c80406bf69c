"""A classic member that owns partitions asks for their committed offsets until it has them."""

from collections.abc import Callable
from typing import Any

import pytest

from regroup.lab.checker.members.records.unread_partitions import ASKS_FOR_OFFSETS, UnreadPartitions
from regroup.members.runtime.application import PollStay
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest
from regroup.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=3, member_id="anna-3")
JOIN = JoinGroupRequest(group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
FIND = FindCoordinatorRequest(key="payments", coordinator_keys=["payments"])
FETCH = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="payments", topics=None)])


class Anna:
    """Anna, who has got two partitions at 0 ms."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.stay: PollStay | None = None
        self.unread = UnreadPartitions(lambda: self.now_ms)
        self.unread.add_member("anna", lambda: self.stay)
        self.unread.on_assigned("anna", [FIRST, SECOND])

    def send(self, message: Any, at_ms: int) -> None:
        self.now_ms = at_ms
        assert self.unread.on_request("anna", message) is None

    def get_response(self, message: Any, at_ms: int) -> None:
        self.now_ms = at_ms
        self.unread.on_response("anna", message)

    def beats(self, at_ms: int) -> str | None:
        """What a heartbeat at this time shows."""
        self.now_ms = at_ms
        found = self.unread.on_request("anna", HEARTBEAT)
        assert found is None or found.sentence == ASKS_FOR_OFFSETS
        return found and found.detail


def test_a_member_that_does_not_ask_for_offsets_for_ten_seconds_is_found_once() -> None:
    anna = Anna()
    anna.unread.on_fetched("anna", [FIRST])
    assert anna.beats(10_000) is None
    assert anna.beats(10_001) == "anna has not asked for those of orders-1 for 10001 ms"
    assert anna.beats(10_500) is None


IN_ORDER: dict[str, Callable[[Anna], None]] = {
    "knows all offsets": lambda anna: anna.unread.on_fetched("anna", [FIRST, SECOND]),
    "has given its partitions up": lambda anna: anna.unread.on_given_up("anna", [FIRST, SECOND]),
    "has just asked": lambda anna: anna.send(FETCH, 9_000),
    "looks for its coordinator": lambda anna: anna.send(FIND, 9_000),
    "has just found its coordinator": lambda anna: anna.get_response(FIND, 9_000),
    "has just joined": lambda anna: anna.send(JOIN, 9_000),
    "is a new process": lambda anna: anna.unread.on_new_life("anna"),
    "was interrupted": lambda anna: (setattr(anna, "now_ms", 9_000), anna.unread.on_interruption("anna"))[1],
    "is outside poll": lambda anna: setattr(anna, "stay", PollStay(5_000)),
    "was outside poll": lambda anna: setattr(anna, "stay", PollStay(5_000, 9_000)),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_member_need_not_ask_if_it(name: str) -> None:
    anna = Anna()
    IN_ORDER[name](anna)
    assert anna.beats(15_000) is None


def test_a_member_waits_for_the_response_to_its_request_and_then_asks_again() -> None:
    anna = Anna()
    anna.send(FETCH, 1_000)
    assert anna.beats(30_000) is None
    anna.unread.on_response("anna", FETCH)
    assert anna.beats(40_000) is None
    assert anna.beats(40_001) is not None


def test_a_member_that_is_not_known_is_not_judged() -> None:
    unread = UnreadPartitions(lambda: 0)
    unread.on_assigned("ben", [FIRST])
    unread.on_interruption("ben")
    unread.on_response("ben", FETCH)
    unread.on_new_life("ben")
    assert unread.on_request("ben", HEARTBEAT) is None
