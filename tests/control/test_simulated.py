"""Simulated members over HTTP: they join real groups over TCP, and each act does to them what it says."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from regroup.control import simulated
from regroup.testing import Emulator
from tests.control.conftest import TIMEOUT_S, Control, StartControl

QUICK = {"session_timeout_ms": 600, "heartbeat_interval_ms": 50, "max_poll_interval_ms": 3_000}


def add(control: Control, *clients: str, **plan: Any) -> None:
    """Start members, and wait until the group is Stable with them."""
    for client in clients:
        control.act(
            "/simulated-member/add", **{"group": "billing", "topics": ["orders"], **QUICK, **plan}, client_id=client
        )
    stable(control, len(control.look("/simulated-members")))


def stable(control: Control, members: int) -> Any:
    return control.look("/group/wait-stable", group="billing", members=members, timeout_s=TIMEOUT_S)


def shown(control: Control, client: str) -> Any:
    (found,) = [each for each in control.look("/simulated-members") if each["client_id"] == client]
    return found


def until(condition: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    return found


def open_connections(control: Control) -> int:
    return sum(each["connections"] for each in control.look("/brokers"))


def clients_of(group: Any) -> list[str]:
    return sorted(each["client_id"] for each in group["members"])


def test_a_member_joins_and_shows_what_it_believes_to_own(control: Control) -> None:
    add(control, "anna", "ben")
    group = stable(control, 2)
    until(lambda: all(each["partitions"] for each in control.look("/simulated-members")))
    believed = control.look("/simulated-members")
    for row in believed:
        (member,) = [each for each in group["members"] if each["client_id"] == row["client_id"]]
        assert (row["member_id"], row["condition"], row["state"]) == (member["member_id"], "running", "stable")
        assert row["partitions"] == member["partitions"]
    assert sum(each["is_leader"] for each in believed) == 1


def test_without_a_client_id_members_are_counted(control: Control) -> None:
    names = [control.act("/simulated-member/add", group="billing", topics=["orders"])["client_id"] for _ in range(3)]
    assert names == ["member-1", "member-2", "member-3"]


def test_a_crash_is_noticed_when_the_session_ends(kafka: Emulator, control: Control) -> None:
    add(control, "anna", "ben")
    assert control.act("/simulated-member/crash", client="ben")["condition"] == "crashed"
    assert clients_of(control.look("/group", group="billing")) == ["anna", "ben"]
    assert clients_of(stable(control, 1)) == ["anna"]
    removed = [each for each in kafka.group("billing").events() if each.type == "member-removed"]
    assert [each.cause.deadline for each in removed if each.cause] == ["session"]
    assert control.post("/simulated-member/crash", client="ben").status == 409


def test_the_clock_of_a_crashed_member_runs_down(control: Control) -> None:
    add(control, "anna", "ben", session_timeout_ms=5_000)
    control.act("/simulated-member/crash", client="ben")
    ids = {each["client_id"]: each["member_id"] for each in control.look("/group", group="billing")["members"]}

    def ends() -> dict[str, int]:
        return {each["member_id"]: each["at_ms"] for each in control.look("/group/deadlines", group="billing")}

    first = ends()
    assert set(first) == set(ids.values())
    until(lambda: ends()[ids["anna"]] > first[ids["anna"]])
    assert ends()[ids["ben"]] == first[ids["ben"]]


def test_one_that_leaves_is_gone_at_once(kafka: Emulator, control: Control) -> None:
    add(control, "anna", "ben", session_timeout_ms=30_000)
    assert control.act("/simulated-member/leave", client="ben")["condition"] == "left"
    assert clients_of(stable(control, 1)) == ["anna"]
    assert "member-left" in [each.type for each in kafka.group("billing").events()]


def test_a_static_member_that_leaves_keeps_its_place(control: Control) -> None:
    add(control, "anna", instance_id="a", session_timeout_ms=30_000)
    control.act("/simulated-member/leave", client="anna")
    (member,) = control.look("/group", group="billing")["members"]
    assert member["instance_id"] == "a"


def test_a_pause_lasts_until_it_is_ended(control: Control) -> None:
    add(control, "anna", "ben")
    assert control.act("/simulated-member/pause", client="ben")["condition"] == "paused"
    assert clients_of(stable(control, 1)) == ["anna"]
    assert control.act("/simulated-member/resume", client="ben")["condition"] == "running"
    assert clients_of(stable(control, 2)) == ["anna", "ben"]


def test_a_slow_member_delays_a_rebalance(control: Control) -> None:
    add(control, "anna", "ben")
    assert control.act("/simulated-member/slow", client="ben", seconds=1)["slow_s"] == 1
    before_s = time.monotonic()
    add(control, "carla")
    assert time.monotonic() - before_s >= 0.9
    assert control.act("/simulated-member/slow", client="ben", seconds=0)["slow_s"] == 0
    add(control, "dora")
    assert len(clients_of(stable(control, 4))) == 4


def test_a_crashed_member_starts_again_with_another_member_id(control: Control) -> None:
    add(control, "anna")
    first = shown(control, "anna")["member_id"]
    assert control.post("/simulated-member/start", client="anna").status == 409
    control.act("/simulated-member/crash", client="anna")
    control.act("/simulated-member/start", client="anna")
    stable(control, 1)
    assert until(lambda: shown(control, "anna")["member_id"]) != first


def test_a_restart_of_a_static_member_starts_no_rebalance(control: Control) -> None:
    add(control, "anna", instance_id="a", session_timeout_ms=30_000)
    generation = control.look("/group", group="billing")["generation"]
    assert control.act("/simulated-member/restart", client="anna", seconds=0.1)["condition"] == "restarting"
    until(lambda: shown(control, "anna")["condition"] == "running" and shown(control, "anna")["state"] == "stable")
    assert control.look("/group", group="billing")["generation"] == generation


def test_the_next_sync_group_of_a_client_is_held_and_released(control: Control) -> None:
    rule = control.act("/fault/add", on="SyncGroup", client_id="anna", hold=True, times=1)["fault"]
    control.act("/simulated-member/add", group="billing", topics=["orders"], client_id="anna", **QUICK)
    assert control.look("/fault/wait-hits", fault=rule)["holding"] == 1
    assert control.look("/group", group="billing")["state"] == "CompletingRebalance"
    control.act("/fault/remove", fault=rule)
    stable(control, 1)


def test_a_member_reads_records_and_commits(control: Control) -> None:
    for number in range(5):
        control.act("/topic/produce", topic="orders", value=str(number))
    add(control, "anna", process_ms=0)
    until(lambda: shown(control, "anna")["processed"] == 5)
    control.act("/simulated-member/leave", client="anna")
    assert control.look("/group/committed", group="billing")[0]["offset"] == 5


def test_a_member_of_the_consumer_protocol_is_paused_and_leaves_and_a_second_one_speaks_what_its_group_does(
    control: Control,
) -> None:
    control.act("/simulated-member/add", group="billing", topics=["orders"], client_id="anna", protocol="consumer")
    until(lambda: len(shown(control, "anna")["partitions"]) == 2)
    control.act("/simulated-member/add", group="billing", topics=["orders"], client_id="ben")
    assert shown(control, "ben")["protocol"] == "consumer"
    until(lambda: len(control.look("/group", group="billing")["members"]) == 2)
    group = control.look("/group", group="billing")
    assert (group["kind"], group["generation"] - group["assignment_epoch"] in (0, 1)) == ("consumer", True)
    assert {each["reconciliation"] for each in group["members"]} <= {"stable", "unreleased-partitions"}
    assert [each["revoking"] for each in group["members"]] == [[], []], "anna has not sent a heartbeat since ben joined"
    control.act("/simulated-member/pause", client="anna")
    control.act("/simulated-member/resume", client="anna")
    assert control.post("/simulated-member/fault", client="anna", fault="never-sync").status == 409
    control.act("/simulated-member/leave", client="anna")
    until(lambda: shown(control, "anna")["condition"] == "left")
    until(lambda: len(control.look("/group", group="billing")["members"]) == 1)


def test_a_group_that_migrates_says_which_protocol_each_member_speaks(control: Control) -> None:
    add(control, "anna")
    [member] = control.look("/group", group="billing")["members"]
    assert member["group_protocol"] == "classic"
    add(control, "ben", protocol="consumer")
    group = control.look("/group", group="billing")
    assert group["kind"] == "consumer"
    assert {each["client_id"]: each["group_protocol"] for each in group["members"]} == {
        "anna": "classic",
        "ben": "consumer",
    }


def test_a_member_of_the_consumer_protocol_subscribes_by_a_pattern_and_votes_for_an_assignor(control: Control) -> None:
    new = {"group": "billing", "client_id": "anna", "protocol": "consumer", "pattern": "ord.*"}
    added = control.act("/simulated-member/add", **new, remote_assignor="range")
    assert (added["pattern"], added["topics"], added["remote_assignor"]) == ("ord.*", [], "range")
    until(lambda: len(shown(control, "anna")["partitions"]) == 2)
    group = control.look("/group", group="billing")
    assert (group["protocol"], group["members"][0]["subscription"]) == ("range", ["orders"])


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({}, "either to topics or to a pattern"),
        ({"topics": ["orders"], "pattern": "o", "protocol": "consumer"}, "either to topics or to a pattern"),
        ({"pattern": "o"}, "a pattern speaks the consumer protocol"),
        ({"pattern": "(", "protocol": "consumer"}, "missing )"),
        ({"topics": ["orders"], "remote_assignor": "range"}, "a remote assignor is for the consumer protocol"),
    ],
)
def test_a_subscription_that_no_member_can_have_is_refused(plan: Any, says: str, control: Control) -> None:
    refused = control.post("/simulated-member/add", group="billing", client_id="anna", **plan)
    assert (refused.status, says in str(refused.body)) == (422, True)
    assert control.look("/simulated-members") == []


def test_members_follow_a_broker_that_stops_and_brokers_that_are_killed(control: Control) -> None:
    add(control, "anna", "ben", session_timeout_ms=30_000)
    control.act("/broker/stop", broker=control.look("/coordinator", group="billing")["broker"])
    control.act("/group/rebalance", group="billing")
    stable(control, 2)
    control.act("/emulator/kill")
    control.act("/emulator/restart")
    control.act("/group/rebalance", group="billing")
    stable(control, 2)


def test_partitions_that_are_added_are_found(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "METADATA_MAX_AGE_MS", 200)
    add(control, "anna")
    control.act("/topic/add-partitions", topic="orders", partitions=3)
    until(lambda: len(shown(control, "anna")["partitions"]) == 3)


def test_a_removed_member_is_no_longer_listed(control: Control) -> None:
    add(control, "anna")
    control.act("/simulated-member/remove", client="anna")
    assert control.look("/simulated-members") == []
    assert control.post("/simulated-member/remove", client="anna").status == 404


def test_the_number_of_members_is_bounded(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "MAX_MEMBERS", 2)
    add(control, "anna", "ben")
    answer = control.post("/simulated-member/add", group="billing", topics=["orders"], client_id="carla")
    assert (answer.status, "no more are possible" in answer.error) == (409, True)
    control.act("/simulated-member/crash", client="ben")
    control.act("/simulated-member/add", group="billing", topics=["orders"], client_id="ben", **QUICK)


@pytest.mark.parametrize(
    ("plan", "status", "text"),
    [
        ({"client_id": "anna"}, 409, "runs already"),
        ({"assignor": "nearest"}, 422, "unknown assignor 'nearest'"),
        ({"instance_id": "a b"}, 422, "group_instance_id 'a b'"),
        ({"heartbeat_interval_ms": 20_000}, 422, "must be below session_timeout_ms"),
        ({"topics": []}, 422, "topics"),
        ({"process_ms": -1}, 422, "process_ms"),
        ({"group": ""}, 422, "group"),
        ({"client_id": "x" * 1_001}, 422, "client_id"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(
    control: Control, plan: dict[str, Any], status: int, text: str
) -> None:
    add(control, "anna")
    answer = control.post("/simulated-member/add", **{"group": "billing", "topics": ["orders"], **plan})
    assert (answer.status, text in answer.error) == (status, True), answer.error
    assert len(control.look("/simulated-members")) == 1


@pytest.mark.parametrize(
    ("fault", "status"), [("zombie", 200), ("never-sync", 200), ("crash@3s", 422), ("sleep", 422), ("pause", 422)]
)
def test_a_fault_is_written_as_for_members(control: Control, fault: str, status: int) -> None:
    add(control, "anna")
    assert control.post("/simulated-member/fault", client="anna", fault=fault).status == status
    assert control.post("/simulated-member/fault", client="ben", fault="zombie").status == 404


@pytest.mark.parametrize(
    ("plan", "fault", "condition"),
    [
        ({}, "crash", "crashed"),
        ({}, "leave", "left"),
        ({"protocol": "consumer"}, "crash", "crashed"),
        ({"protocol": "consumer"}, "leave", "left"),
    ],
)
def test_a_member_that_ends_by_a_fault_closes_its_connections(
    control: Control, plan: dict[str, Any], fault: str, condition: str
) -> None:
    add(control, "anna", **plan)
    assert open_connections(control) > 0
    control.act("/simulated-member/fault", client="anna", fault=fault)
    until(lambda: shown(control, "anna")["condition"] == condition)
    until(lambda: open_connections(control) == 0)


def test_a_member_that_fails_closes_its_connections(control: Control) -> None:
    plan = {"group": "billing", "topics": ["orders"], "protocol": "consumer", "remote_assignor": "unknown"}
    control.act("/simulated-member/add", client_id="anna", **plan)
    until(lambda: shown(control, "anna")["condition"] == "failed")
    until(lambda: open_connections(control) == 0)


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "日本", "a/b?c", "'"])
def test_a_client_id_may_hold_any_character(control: Control, name: str) -> None:
    add(control, name)
    assert clients_of(control.look("/group", group="billing")) == [name]


def test_members_end_with_the_port(kafka: Emulator, start_control: StartControl) -> None:
    """The emulator is closed after this: a member that went on would be reported as a task that was never awaited."""
    add(start_control(), "anna")
