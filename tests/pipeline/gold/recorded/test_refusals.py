"""The facts about refused requests, from single exchanges. No test needs Spark."""

from regroup.pipeline.gold.recorded.exchange_facts import refusals_of
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.describe import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tests.server.recording.test_exchange import recorded

DELETE = DeleteGroupsRequest(groups_names=["kip848", "nowhere"])


def test_only_the_groups_with_an_error_in_their_entries_are_refused() -> None:
    results = [
        DeletableGroupResult(group_id="kip848"),
        DeletableGroupResult(group_id="nowhere", error_code=69, error_message="There is none."),
    ]
    facts = list(refusals_of(recorded(DELETE, DeleteGroupsResponse(results=results), 3)))
    assert [(each["group"], each["error"], each["error_message"], each["parts"]) for each in facts] == [
        ("nowhere", "GROUP_ID_NOT_FOUND", "There is none.", 1)
    ]


def test_an_error_of_the_whole_response_counts_for_each_group() -> None:
    request = FindCoordinatorRequest(key="g", key_type=0)
    facts = list(refusals_of(recorded(request, FindCoordinatorResponse(error_code=15), 3)))
    assert [(each["group"], each["error"]) for each in facts] == [("g", "COORDINATOR_NOT_AVAILABLE")]


def test_an_error_about_no_group_has_no_group() -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["a transaction"])
    coordinator = Coordinator(key="a transaction", node_id=-1, host="", port=-1, error_code=15)
    [fact] = refusals_of(recorded(request, FindCoordinatorResponse(coordinators=[coordinator]), 4))
    assert (fact["group"], fact["error"]) == (None, "COORDINATOR_NOT_AVAILABLE")
    unnamed = DeleteGroupsRequest(groups_names=["", "g"])
    results = [DeletableGroupResult(group_id="", error_code=24), DeletableGroupResult(group_id="g")]
    [fact] = refusals_of(recorded(unnamed, DeleteGroupsResponse(results=results), 2))
    assert (fact["group"], fact["error"]) == (None, "INVALID_GROUP_ID")
