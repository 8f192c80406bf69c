"""A follower that gets a generation sends SyncGroup, and does not join again in its place."""

from collections.abc import Callable
from typing import Any

import pytest

from regroup.lab.checker.members.membership.completed_joins import SYNCS_AFTER_JOINING, CompletedJoins
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan, FaultEnded, RequestRefused
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

Exchange = tuple[Message, Any]


def join_request() -> JoinGroupRequest:
    return JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="m", protocol_type="consumer", protocols=[])


def joined(generation_id: int = 1, leader: str = "other", error_code: int = 0) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation_id, leader=leader, member_id="m", error_code=error_code, members=[]
    )


def sync(generation_id: int = 1) -> SyncGroupRequest:
    return SyncGroupRequest(group_id="g", generation_id=generation_id, member_id="m")


def heartbeat(error_code: int) -> Exchange:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), HeartbeatResponse(error_code=error_code)


def commit(generation_id: int, error_code: int) -> Exchange:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=error_code)
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation_id, member_id="m", topics=[])
    return request, OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])


class Ben:
    """What a checker knows of ben, who is in generation 1 and joins again."""

    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.joins = CompletedJoins(self.paused)
        self.exchange(join_request(), joined(1))
        self.exchange(sync(), SyncGroupResponse())
        self.request = join_request()
        self.joins.on_request("ben", self.request)

    def exchange(self, message: Message, response: Any) -> None:
        assert self.joins.on_request("ben", message) is None
        self.joins.on_response("ben", message, response)

    def joins_twice(self, response: Any = None) -> bool:
        """Whether it is a violation that ben joins once more after this response, by default a generation."""
        self.joins.on_response("ben", self.request, response or joined(2))
        found = self.joins.on_request("ben", join_request())
        assert found is None or found.sentence == SYNCS_AFTER_JOINING
        return found is not None


def test_a_follower_that_joins_again_in_place_of_sync_group_is_found() -> None:
    assert Ben().joins_twice()


@pytest.mark.parametrize("response", [joined(2, leader="m"), joined(2, error_code=E.MEMBER_ID_REQUIRED)])
def test_a_leader_and_a_member_that_is_refused_may_join_again(response: JoinGroupResponse) -> None:
    assert not Ben().joins_twice(response)


def test_a_follower_that_has_sent_sync_group_may_join_again() -> None:
    ben = Ben()
    ben.joins.on_response("ben", ben.request, joined(2))
    ben.exchange(sync(2), SyncGroupResponse(error_code=E.REBALANCE_IN_PROGRESS))
    assert ben.joins.on_request("ben", join_request()) is None


INTERRUPTIONS: dict[str, Callable[[Ben], object]] = {
    "it leaves": lambda ben: ben.joins.on_request("ben", LeaveGroupRequest(group_id="g", member_id="m")),
    "it looks for its coordinator": lambda ben: ben.joins.on_request("ben", FindCoordinatorRequest(key="g")),
    "its heartbeat is refused": lambda ben: ben.exchange(*heartbeat(E.UNKNOWN_MEMBER_ID)),
    "its commit is refused": lambda ben: ben.exchange(*commit(1, E.ILLEGAL_GENERATION)),
    "a broker is no coordinator": lambda ben: ben.exchange(*commit(0, E.NOT_COORDINATOR)),
    "a request fails": lambda ben: ben.exchange(heartbeat(0)[0], None),
    "it unsubscribes": lambda ben: ben.joins.on_interruption("ben"),
    "it pauses": lambda ben: ben.joins.on_note("ben", FaultBegan(parse_fault("pause:5s"))),
    "it goes on": lambda ben: ben.joins.on_note("ben", FaultEnded(parse_fault("pause:5s"))),
    "it has a new process": lambda ben: ben.joins.on_new_life("ben"),
    "it withholds SyncGroup": lambda ben: ben.joins.on_note("ben", FaultBegan(parse_fault("never-sync"))),
}


@pytest.mark.parametrize("interrupt", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_what_ends_a_membership_while_it_joins_lets_it_join_again(interrupt: Callable[[Ben], object]) -> None:
    ben = Ben()
    interrupt(ben)
    assert not ben.joins_twice()


def test_a_member_that_handles_no_response_may_join_again() -> None:
    ben = Ben()
    ben.paused.add("ben")
    assert not ben.joins_twice()


def test_a_member_that_withholds_sync_group_is_not_judged_later_either() -> None:
    ben = Ben()
    ben.joins.on_note("ben", FaultBegan(parse_fault("slow-sync:5s")))
    ben.request = join_request()
    ben.joins.on_request("ben", ben.request)
    assert not ben.joins_twice()


KEPT: dict[str, Callable[[Ben], object]] = {
    "a commit of an older generation is refused": lambda ben: ben.exchange(*commit(0, E.UNKNOWN_MEMBER_ID)),
    "a heartbeat is accepted": lambda ben: ben.exchange(*heartbeat(E.REBALANCE_IN_PROGRESS)),
    "a commit is too early": lambda ben: ben.exchange(*commit(1, E.REBALANCE_IN_PROGRESS)),
    "a refusal is noted": lambda ben: ben.joins.on_note("ben", RequestRefused("OffsetCommit", "ILLEGAL_GENERATION")),
}


@pytest.mark.parametrize("event", KEPT.values(), ids=KEPT)
def test_what_leaves_the_join_alone_excuses_no_second_one(event: Callable[[Ben], object]) -> None:
    ben = Ben()
    event(ben)
    assert ben.joins_twice()


def test_the_refusal_of_a_generation_that_was_refused_before_changes_nothing() -> None:
    ben = Ben()
    ben.joins.on_response("ben", ben.request, joined(2))
    ben.exchange(sync(2), SyncGroupResponse())
    ben.exchange(*heartbeat(E.UNKNOWN_MEMBER_ID))
    ben.request = join_request()
    assert ben.joins.on_request("ben", ben.request) is None
    ben.exchange(*commit(2, E.UNKNOWN_MEMBER_ID))
    assert ben.joins_twice(joined(3))
