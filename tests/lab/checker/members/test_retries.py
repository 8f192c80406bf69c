"""A member whose request has failed looks for its coordinator again, and waits before it repeats what it asked."""

from itertools import count
from typing import Any

import pytest

from regroup.lab.checker.members.retries import LOOKS_AGAIN, SHORTEST_BACKOFF_MS, WAITS_BEFORE_REPEATING, Retries
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse

FOUND = FindCoordinatorResponse(node_id=0, host="broker", port=1)
COMMIT = OffsetCommitRequest(group_id="payments", topics=[])
SYNC = SyncGroupRequest(group_id="payments", generation_id=1, member_id="anna-1")
NOT_FOUND = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1)


class Observed:
    """The member anna, whose requests and responses are a millisecond apart."""

    def __init__(self) -> None:
        clock = count()
        self.waited_ms = 0
        self.paused: set[str] = set()
        self.retries = Retries(lambda: next(clock) + self.waited_ms, self.paused)
        self.sentences: list[str] = []

    def send(self, message: Message) -> Message:
        if violation := self.retries.on_request("anna", message):
            self.sentences.append(violation.sentence)
        return message

    def call(self, message: Message, response: Any) -> None:
        self.retries.on_response("anna", self.send(message), response)

    def find(self, response: Any = FOUND) -> None:
        self.call(FindCoordinatorRequest(key="payments"), response)

    def beat(self, response: Any) -> None:
        self.call(heartbeat(), response)


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna-1")


@pytest.mark.parametrize(
    "response",
    [
        None,
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_member_that_has_lost_its_coordinator_and_does_not_look_for_it_is_found(response: Any) -> None:
    anna = Observed()
    anna.find()
    anna.beat(response)
    anna.beat(HeartbeatResponse())
    assert anna.sentences == [LOOKS_AGAIN]


def test_a_member_that_has_found_a_coordinator_again_may_go_on() -> None:
    anna = Observed()
    anna.find()
    anna.beat(None)
    anna.find()
    anna.beat(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    anna.beat(HeartbeatResponse())
    assert anna.sentences == []


def test_a_search_without_a_result_finds_no_coordinator() -> None:
    anna = Observed()
    anna.find()
    anna.beat(None)
    anna.find(NOT_FOUND)
    anna.beat(HeartbeatResponse())
    assert anna.sentences == [LOOKS_AGAIN]


def test_an_older_request_that_fails_after_the_search_loses_no_coordinator() -> None:
    anna = Observed()
    anna.find()
    older = anna.send(heartbeat())
    anna.find()
    anna.retries.on_response("anna", older, None)
    anna.beat(HeartbeatResponse())
    assert anna.sentences == []


def test_a_member_may_leave_without_looking_for_its_coordinator() -> None:
    anna = Observed()
    anna.find()
    anna.beat(None)
    anna.send(LeaveGroupRequest(group_id="payments", member_id="anna-1"))
    assert anna.sentences == []


@pytest.mark.parametrize("failure", [None, NOT_FOUND])
def test_a_search_that_is_repeated_at_once_is_found(failure: Any) -> None:
    anna = Observed()
    anna.find(failure)
    anna.find()
    assert anna.sentences == [WAITS_BEFORE_REPEATING]
    anna.find(failure)
    anna.waited_ms += SHORTEST_BACKOFF_MS
    anna.find()
    assert anna.sentences == [WAITS_BEFORE_REPEATING]


def test_a_failed_metadata_request_has_a_backoff_of_its_own() -> None:
    anna = Observed()
    anna.call(MetadataRequest(topics=[]), None)
    anna.find()
    assert anna.sentences == []
    anna.call(MetadataRequest(topics=[]), None)
    assert anna.sentences == [WAITS_BEFORE_REPEATING]


def test_a_consumer_and_its_fetcher_wait_for_backoffs_of_their_own() -> None:
    anna = Observed()
    anna.find()
    anna.call(OffsetFetchRequest(group_id="payments"), OffsetFetchResponse())
    anna.call(MetadataRequest(topics=[]), None)
    anna.waited_ms += 40
    anna.call(MetadataRequest(topics=[]), None)
    assert anna.sentences == []
    anna.send(MetadataRequest(topics=[]))
    assert anna.sentences == [WAITS_BEFORE_REPEATING]


def test_a_new_process_has_lost_no_coordinator() -> None:
    anna = Observed()
    anna.beat(None)
    anna.retries.on_new_life("anna")
    anna.beat(HeartbeatResponse())
    assert anna.sentences == []


def test_a_zombie_commits_and_a_slow_member_syncs_by_plan_whatever_they_have_lost() -> None:
    for fault, message in (("zombie", COMMIT), ("slow-sync:20s", SYNC)):
        anna = Observed()
        anna.beat(None)
        anna.retries.on_note("anna", FaultBegan(parse_fault(fault)))
        anna.send(message)
        assert anna.sentences == []
        anna.beat(HeartbeatResponse())
        assert anna.sentences == ([] if fault == "zombie" else [LOOKS_AGAIN])


def test_the_late_response_to_a_sync_that_was_sent_late_by_plan_loses_no_coordinator() -> None:
    anna = Observed()
    anna.retries.on_note("anna", FaultBegan(parse_fault("slow-sync:20s")))
    anna.find()
    anna.call(SYNC, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    anna.beat(HeartbeatResponse())
    assert anna.sentences == []


def test_what_fails_in_a_pause_is_known_after_it() -> None:
    anna = Observed()
    anna.find()
    anna.paused.add("anna")
    anna.beat(None)
    anna.paused.clear()
    anna.beat(None)
    assert anna.sentences == []
    anna.beat(HeartbeatResponse())
    assert anna.sentences == [LOOKS_AGAIN]


LOADING = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
CONSUMER_HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=3)


def test_a_last_heartbeat_that_is_refused_by_a_coordinator_that_loads_delays_nothing() -> None:
    anna = Observed()
    anna.find()
    leaving = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=-1)
    anna.call(leaving, LOADING)
    anna.find()
    assert anna.sentences == []


def test_a_member_of_the_consumer_protocol_waits_for_a_coordinator_that_loads() -> None:
    hasty, patient = Observed(), Observed()
    for anna in (hasty, patient):
        anna.find()
        anna.call(CONSUMER_HEARTBEAT, LOADING)
    hasty.find()
    patient.waited_ms = SHORTEST_BACKOFF_MS
    patient.find()
    assert (hasty.sentences, patient.sentences) == ([WAITS_BEFORE_REPEATING], [])


def test_a_member_that_has_lost_its_coordinator_meanwhile_may_look_for_it_at_once() -> None:
    anna = Observed()
    anna.find()
    pending = anna.send(COMMIT)
    anna.call(CONSUMER_HEARTBEAT, LOADING)
    anna.retries.on_response("anna", pending, None)
    anna.find()
    assert anna.sentences == []


def test_a_member_that_subscribes_may_ask_for_metadata_at_once() -> None:
    anna = Observed()
    anna.call(MetadataRequest(topics=None), None)
    anna.retries.on_subscribe("anna")
    anna.call(MetadataRequest(topics=None), None)
    assert anna.sentences == []
    anna.send(MetadataRequest(topics=None))
    assert anna.sentences == [WAITS_BEFORE_REPEATING]
