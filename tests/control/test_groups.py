"""Groups over HTTP: what is shown is what the kit shows, and each act does what the kit's does."""

import pytest

from regroup.testing import Emulator
from tests.control.conftest import Control
from tests.testing.conftest import ManualMember, commit, stable_pair

ODD_NAMES = ["a/b?c=d&e#f", "null", "1", "true", "日本 <b>x</b>", "..", "%2F", '"', "x" * 300]


def test_a_group_is_shown_with_members_partitions_offsets_and_lag(kafka: Emulator, control: Control) -> None:
    first, second = stable_pair(kafka)
    kafka.produce("orders", "one")
    kafka.produce("orders", "two")
    commit(first, {0: 1})
    shown = control.look("/group", group="billing")
    assert (shown["state"], shown["generation"], shown["protocol"]) == ("Stable", 2, "range")
    assert shown["leader"] == first.member_id
    assert shown["offsets"] == [{"topic": "orders", "partition": 0, "offset": 1, "lag": 1}]
    assert [(each["client_id"], each["partitions"], each["is_leader"]) for each in shown["members"]] == [
        ("first", [{"topic": "orders", "partition": 0}], True),
        ("second", [{"topic": "orders", "partition": 1}], False),
    ]
    assert control.look("/group/committed", group="billing") == shown["offsets"]
    assert control.look("/groups") == [
        {"group": "billing", "kind": "classic", "state": "Stable", "generation": 2, "members": 2}
    ]
    assert {each["member_id"]: each["group"] for each in control.look("/members")} == dict.fromkeys(
        [first.member_id, second.member_id], "billing"
    )


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_may_hold_any_character(kafka: Emulator, control: Control, name: str) -> None:
    member = ManualMember(kafka, name, name)
    member.join()
    member.sync({member.member_id: [0, 1]}).result(10)
    shown = control.look("/group/wait-stable", group=name, members=1)
    assert (shown["group"], shown["members"][0]["client_id"]) == (name, name)
    assert control.act("/group/expire", group=name, member=name)["state"] == "Empty"


def test_a_wait_ends_with_the_change_that_it_waits_for(kafka: Emulator, control: Control) -> None:
    waiting = control.in_background("/group/wait-stable", group="billing", members=2, timeout_s=20)
    stable_pair(kafka)
    assert waiting.result().json["state"] == "Stable"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"state": "Stable"}, True),
        ({"state": "Empty"}, False),
        ({"members": 2}, True),
        ({"members": 1}, False),
        ({"member": "second"}, True),
        ({"member": "third"}, False),
        ({"generation": 2}, True),
        ({"generation": 3}, False),
        ({"max_lag": 0}, True),
        ({"after_event": 1}, True),
        ({"after_event": 1000}, False),
        ({"state": "Stable", "members": 3}, False),
        ({}, True),
    ],
)
def test_all_conditions_of_a_wait_must_hold(
    kafka: Emulator, control: Control, condition: dict[str, object], holds: bool
) -> None:
    stable_pair(kafka)
    assert (control.get("/group/wait", group="billing", timeout_s=0.05, **condition).status == 200) == holds


def test_a_lag_is_waited_for(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    kafka.produce("orders", "one")
    commit(first, {0: 0})
    assert control.get("/group/wait", group="billing", max_lag=0, timeout_s=0.05).status == 409
    waiting = control.in_background("/group/wait", group="billing", max_lag=0, timeout_s=20)
    commit(first, {0: 1})
    assert waiting.result().json["total_lag"] == 0


def test_a_wait_without_conditions_is_for_a_group_that_exists(kafka: Emulator, control: Control) -> None:
    assert control.get("/group/wait", group="billing", timeout_s=0.05).status == 409
    assert control.look("/group/wait", group="billing", state="Dead", timeout_s=0.05)["members"] == []


def test_a_wait_that_is_given_up_has_the_story_of_the_group(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    answer = control.get("/group/wait-stable", group="billing", members=3, timeout_s=0.05)
    assert answer.status == 409
    assert answer.error.startswith("group 'billing' did not reach Stable with 3 members within 0.05 s. It is Stable")
    assert "member-joined" in answer.json["story"]


def test_an_ended_session_is_one_member_less(kafka: Emulator, control: Control) -> None:
    _, second = stable_pair(kafka)
    shown = control.act("/group/expire", group="billing", member="second")
    assert [each["client_id"] for each in shown["members"]] == ["first"]
    assert second.heartbeat() == 25
    event = control.look("/group/events", group="billing")[-1]
    assert (event["type"], event["cause"]["test"]) == ("rebalance-started", "expire")


def test_a_member_is_removed_as_an_administrator_does(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    assert len(control.act("/group/remove", group="billing", member=first.member_id)["members"]) == 1


def test_a_rebalance_is_forced_and_its_join_phase_ended(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    assert control.act("/group/rebalance", group="billing")["state"] == "PreparingRebalance"
    assert control.act("/group/complete-join-phase", group="billing")["state"] == "Empty"
    answer = control.post("/group/complete-join-phase", group="billing")
    assert (answer.status, "cannot complete a join phase" in answer.error) == (409, True)


def test_a_generation_is_bumped_and_the_event_is_marked(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    assert control.act("/group/bump-generation", group="billing")["generation"] == 3
    assert first.heartbeat() == 22
    assert control.look("/group/events", group="billing")[-1]["cause"]["beyond_kafka"] is True


def test_offsets_are_forgotten(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 1, 1: 2})
    one = control.act("/group/forget-offsets", group="billing", partitions=[{"topic": "orders", "partition": 0}])
    assert [each["partition"] for each in one["offsets"]] == [1]
    assert control.act("/group/forget-offsets", group="billing")["offsets"] == []


def test_a_group_is_deleted_with_its_members(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    assert control.act("/group/delete", group="billing") == {"done": True}
    assert kafka.groups() == []


def test_events_are_read_from_a_position_on_and_bounded(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    every = control.look("/group/events", group="billing")
    assert [each["position"] for each in every] == [each.position for each in kafka.group("billing").events()]
    some = control.look("/group/events", group="billing", after=every[0]["position"], limit=2)
    assert some == every[1:3]


def test_lists_are_bounded(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    stable_pair(kafka, "other")
    assert [len(control.look(path, limit=1)) for path in ("/groups", "/members")] == [1, 1]
    kafka.create_topic("payments")
    assert [len(control.look("/topics", limit=limit)) for limit in (1, 2)] == [1, 2]
    assert control.get("/groups", limit=10_001).status == 422


def test_a_story_is_text(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    assert control.look("/group/story", group="billing")["text"] == kafka.group("billing").story()
    assert control.look("/story")["text"] == kafka.story()


@pytest.mark.parametrize(
    "path",
    [
        "/group/rebalance",
        "/group/complete-join-phase",
        "/group/bump-generation",
        "/group/forget-offsets",
        "/group/delete",
    ],
)
def test_an_act_on_an_unknown_group_is_not_found(kafka: Emulator, control: Control, path: str) -> None:
    stable_pair(kafka, "other")
    answer = control.post(path, group="billing")
    assert (answer.status, answer.error) == (404, "there is no group 'billing'; groups: 'other'")


def test_unknown_groups_and_members_are_not_found(kafka: Emulator, control: Control) -> None:
    assert control.get("/group", group="billing").status == 404
    assert control.post("/group/expire", group="billing", member="x").status == 404
    stable_pair(kafka)
    answer = control.post("/group/expire", group="billing", member="third")
    assert answer.status == 404
    assert answer.error == "no member of group 'billing' is called 'third'; members: first, second"
