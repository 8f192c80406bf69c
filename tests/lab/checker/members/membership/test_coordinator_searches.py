"""A classic member looks for its coordinator only when it has a cause: none, a failure, a refusal, or silence."""

from collections.abc import Callable
from typing import Any

import pytest

from regroup.lab.checker.members.membership.coordinator_searches import KEEPS_ITS_COORDINATOR, CoordinatorSearches
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, FaultEnded
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

SESSION_MS = 10_000
FIND = FindCoordinatorRequest(key="payments", coordinator_keys=["payments"])
COMMIT = OffsetCommitRequest(group_id="payments", topics=[])
PAUSE = MemberFault(MemberFaultKind.PAUSE, duration_ms=1)
NEVER_SYNC = MemberFault(MemberFaultKind.NEVER_SYNC)
NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="payments", generation_id=3, member_id="anna-3")


def commit_response(code: ErrorCode) -> OffsetCommitResponse:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])


class Anna:
    """Anna, who knows her coordinator since 0 ms."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.searches = CoordinatorSearches(lambda: self.now_ms)
        self.searches.add_member("anna", SESSION_MS)
        self.find()

    def find(self, code: ErrorCode = NONE) -> None:
        assert not self.looks_for_its_coordinator(), "it has a cause"
        self.get_coordinator(code)

    def get_coordinator(self, code: ErrorCode = NONE) -> None:
        found = Coordinator(key="payments", node_id=0, host="localhost", port=9092, error_code=code)
        self.searches.on_response("anna", FIND, FindCoordinatorResponse(coordinators=[found]))

    def ask(self, request: Any, response: Any) -> None:
        assert self.searches.on_request("anna", request) is None
        self.searches.on_response("anna", request, response)

    def beat(self, at_ms: int, code: ErrorCode = NONE) -> None:
        self.now_ms = at_ms
        self.ask(heartbeat(), HeartbeatResponse(error_code=code))

    def send_commit(self) -> None:
        assert self.searches.on_request("anna", COMMIT) is None

    def looks_for_its_coordinator(self) -> bool:
        """Whether the rule reports that it looks for its coordinator now."""
        found = self.searches.on_request("anna", FIND)
        assert found is None or found.sentence == KEEPS_ITS_COORDINATOR
        return found is not None


@pytest.mark.parametrize("code", [NONE, REBALANCE])
def test_a_member_that_gives_up_a_coordinator_which_accepts_its_heartbeats_is_found(code: ErrorCode) -> None:
    anna = Anna()
    anna.beat(3_000)
    anna.beat(9_000, code)
    anna.now_ms = 13_000
    assert anna.looks_for_its_coordinator()
    anna.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # looks again, which is not reported again


def test_a_member_looks_again_without_an_accepted_heartbeat_for_the_session_timeout() -> None:
    anna = Anna()
    anna.beat(9_000)
    anna.now_ms = 19_000
    assert not anna.looks_for_its_coordinator()


CAUSES: dict[str, Callable[[Anna], None]] = {
    "a request has failed": lambda anna: anna.ask(COMMIT, None),
    "a commit was refused": lambda anna: anna.ask(COMMIT, commit_response(ErrorCode.NOT_COORDINATOR)),
    "a heartbeat was refused": lambda anna: anna.beat(9_000, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "a request has no response yet": lambda anna: anna.send_commit(),
    "its process has ended": lambda anna: anna.searches.on_new_life("anna"),
    "it pauses": lambda anna: anna.searches.on_note("anna", FaultBegan(PAUSE)),
    "it goes on after a pause": lambda anna: anna.searches.on_note("anna", FaultEnded("paused")),
    "it sends no SyncGroup": lambda anna: anna.searches.on_note("anna", FaultBegan(NEVER_SYNC)),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_member_with_a_cause_looks_for_its_coordinator(cause: str) -> None:
    anna = Anna()
    anna.beat(9_000)
    CAUSES[cause](anna)
    assert not anna.looks_for_its_coordinator()


def test_a_coordinator_that_is_found_ends_the_cause_and_one_that_is_not_found_does_not() -> None:
    anna = Anna()
    anna.ask(COMMIT, None)
    anna.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    anna.find()
    assert anna.looks_for_its_coordinator()


def test_a_coordinator_that_a_former_process_has_looked_for_is_not_known_to_the_next_one() -> None:
    anna = Anna()
    anna.searches.on_new_life("anna")
    anna.get_coordinator()
    assert not anna.looks_for_its_coordinator()


def test_a_member_that_withholds_requests_does_so_in_its_next_process_too() -> None:
    anna = Anna()
    CAUSES["it sends no SyncGroup"](anna)
    anna.searches.on_new_life("anna")
    anna.find()
    assert not anna.looks_for_its_coordinator()


def test_a_member_that_is_not_known_is_not_judged() -> None:
    searches = CoordinatorSearches(lambda: 0)
    searches.on_response("ben", FIND, FindCoordinatorResponse())
    searches.on_new_life("ben")
    assert searches.on_request("ben", FIND) is None
