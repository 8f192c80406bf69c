"""Fault rules and exchanges over HTTP."""

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.server.faults import gate
from regroup.testing import Emulator
from tests.control.conftest import Control
from tests.testing.conftest import stable_pair


def test_a_rule_is_added_listed_hit_and_removed(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    added = control.act("/fault/add", on="Heartbeat", client_id="first", answer="NOT_COORDINATOR", times=1)
    assert (added["fault"], added["rule"]["answer"], added["hits"]) == (1, ErrorCode.NOT_COORDINATOR, 0)
    waiting = control.in_background("/fault/wait-hits", fault=1, hits=1, timeout_s=20)
    assert [first.heartbeat(), first.heartbeat()] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    assert (waiting.result().json["hits"], waiting.result().json["spent"]) == (1, True)
    assert [each["fault"] for each in control.look("/faults")] == [1]
    assert control.act("/fault/remove", fault=1)["hits"] == 1
    assert control.look("/faults") == []
    answer = control.post("/fault/remove", fault=1)
    assert (answer.status, answer.error) == (404, "no rule 1 is in force; in force: none")


def test_an_error_may_be_a_number(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    control.act("/fault/add", on=["Heartbeat", "SyncGroup"], answer=int(ErrorCode.UNKNOWN_MEMBER_ID))
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_held_request_goes_on_after_its_release(kafka: Emulator, control: Control) -> None:
    number = control.act("/fault/add", on="ApiVersions", client_id="anna", hold=True)["fault"]
    with kafka.connect("anna") as connection:
        response = connection.post(ApiVersionsRequest(), 0)
        assert control.look("/fault/wait-hits", fault=number)["holding"] == 1
        assert not response.done()
        assert control.act("/fault/release", fault=number)["holding"] == 0
        assert response.result(10).error_code == 0


def test_a_late_wait_for_hits_says_how_many_there_were(control: Control) -> None:
    number = control.act("/fault/add", on="SyncGroup", drop="answer")["fault"]
    answer = control.get("/fault/wait-hits", fault=number, hits=2, timeout_s=0.05)
    assert (answer.status, answer.error[:25]) == (409, "0 hits in 0.05 s, not 2; ")
    assert control.get("/fault/wait-hits", fault=99).status == 404


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"on": "OfsetCommit", "drop": "answer"}, "did you mean OffsetCommit"),
        ({"on": "OffsetCommit"}, "does nothing"),
        ({"on": "OffsetCommit", "answer": "NOT_A_CODE"}, "NOT_A_CODE"),
        ({"on": "OffsetCommit", "drop": "sometimes"}, "drop"),
        ({"on": "OffsetCommit", "drop": "answer", "unknown": 1}, "unknown"),
        ({"on": 7, "drop": "answer"}, "on"),
    ],
)
def test_a_rule_that_cannot_be_is_invalid(control: Control, rule: dict[str, object], text: str) -> None:
    answer = control.post("/fault/add", **rule)
    assert (answer.status, text in answer.error) == (422, True), answer


def test_the_number_of_rules_is_bounded(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_RULES", 1)
    control.act("/fault/add", on="SyncGroup", drop="answer")
    answer = control.post("/fault/add", on="SyncGroup", drop="answer")
    assert (answer.status, "1 rules are in force" in answer.error) == (422, True)


def test_exchanges_are_listed_with_their_fields(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    joins = control.look("/exchanges", api="JoinGroup", client_id="second")
    assert [each["answer"] for each in joins] == ["NONE"]
    assert joins[0]["request"]["group_id"] == "billing"
    assert joins[0]["response"]["generation_id"] == 2
    both = control.look("/exchanges", api=["JoinGroup", "SyncGroup"], group="billing")
    assert {each["api"] for each in both} == {"JoinGroup", "SyncGroup"}
    assert control.look("/exchanges", limit=1, group="billing") == both[-1:]


def test_exchanges_are_compared_with_what_a_test_expects(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    expected = {"client_id": "second", "api": ["JoinGroup", "SyncGroup"]}
    control.act("/exchanges/assert", expected=["JoinGroup", "SyncGroup: NONE"], **expected)
    answer = control.post("/exchanges/assert", expected=["JoinGroup: NOT_COORDINATOR"], **expected)
    assert answer.status == 409
    assert answer.error == "expected JoinGroup: NOT_COORDINATOR; recorded:"
    assert "SyncGroup" in answer.json["story"]
