"""`regroup exchanges` and `regroup why`, on the store of a real client and on stores of emulators."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from regroup.cli.store.times import parse_moment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.testing import Emulator
from tests.cli.conftest import RunCommand
from tests.clients.emulator import FAST_SETTINGS, eventually
from tests.clients.libraries import ConsumerOptions
from tests.clients.processes import Consume, Serve
from tests.testing.conftest import ManualMember, stable_pair

LINE_LENGTH = 80


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A group of two members by hand; `second` crashes, and one heartbeat of it is dropped before."""
    path = tmp_path / "groups.db"
    with Emulator(topics={"orders": 2}, store=path) as kafka:
        first, second = stable_pair(kafka)
        for _ in range(3):
            first.heartbeat()
            second.heartbeat()
        with kafka.fault(on="Heartbeat", client_id="second", throttle_ms=1):
            second.heartbeat()
        kafka.crash_client("second")
    return path


@pytest.mark.slow
def test_the_exchanges_of_a_real_client_are_shown(serve: Serve, consume: Consume, run_command: RunCommand) -> None:
    settings = [word for each in FAST_SETTINGS for word in ("--set", each)]
    emulator = serve("--record", "--topic", "orders:2", *settings)
    consumer = consume("confluent-kafka", ConsumerOptions(emulator.address, "payments", ["orders"]))
    eventually(lambda: len(consumer.owned_partitions) == 2, "the assignment")
    consumer.leave()
    assert emulator.terminate() == 0
    shown = run_command("exchanges", emulator.store, "--group", "payments", "--json")
    rows = [json.loads(line) for line in shown.out.splitlines()]
    apis = [row["api"] for row in rows if row["answer"] == "NONE"]
    assert {"FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup"} <= {*apis}
    assert apis.index("JoinGroup") < apis.index("SyncGroup") < apis.index("LeaveGroup")
    joined = next(row for row in rows if row["api"] == "JoinGroup" and row["answer"] == "NONE")
    assert joined["request"]["protocols"][0]["name"]
    assert joined["response"]["member_id"] in joined["members"]
    linked = {event["position"] for row in rows for event in row["events"] if event["group"] == "payments"}
    events = [json.loads(line) for line in run_command("events", emulator.store, "--format", "jsonl").out.splitlines()]
    assert linked == {
        each["position"]
        for each in events
        if each["group"] == "payments" and (each["cause"] or {}).get("correlation_id")
    }
    why = run_command("why", emulator.store, "--group", "payments")
    assert (why.code, why.err) == (0, "")
    assert "because it sent LeaveGroup" in " ".join(why.out.split())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_has_time_client_api_answer_fault_and_events(
    is_terminal: bool, recorded: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    shown = run_command("exchanges", recorded, "--client", "second")
    day, *lines = shown.out.splitlines()
    assert day.endswith(", times in UTC")
    assert [line[13:].split("  ")[0] for line in lines] == ["second"] * 4
    assert [line.split("  ")[1].strip() for line in lines] == [
        "JoinGroup v3", "SyncGroup v3", "Heartbeat v3 x3", "Heartbeat v3",
    ]  # fmt: skip
    assert "events 11-12, billing" in lines[0]
    assert "fault: throttle" in lines[3]
    assert all(len(line) <= LINE_LENGTH for line in lines) == is_terminal


def test_a_request_that_was_held_and_then_refused_says_how_long_it_was_held(
    tmp_path: Path, run_command: RunCommand
) -> None:
    path = tmp_path / "groups.db"
    with Emulator(topics={"orders": 2}, store=path, clock="manual") as kafka:
        first, second = stable_pair(kafka)
        group = kafka.group("billing")
        joining = first.post_join()
        group.wait_until(lambda seen: seen.state == "PreparingRebalance")
        second.join()
        first.joined(joining.result(10))
        held = second.sync()
        group.wait_until(lambda seen: any(each.awaiting == "sync" for each in seen.members))
        kafka.advance(5)
        ManualMember(kafka, "third").post_join()
        assert held.result(10).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    shown = run_command("exchanges", path, "--api", "SyncGroup", "--client", "second", "--json").out.splitlines()
    refused = json.loads(shown[-1])
    assert refused["answered_at_ms"] - refused["at_ms"] == 5_000
    *others, last = run_command("exchanges", path, "--api", "SyncGroup", "--client", "second").out.splitlines()
    assert "REBALANCE_IN_PROGRESS  held 5.0 s, event" in last
    assert "held" not in " ".join(others)


def test_exchanges_are_selected_by_group_member_api_and_time(recorded: Path, run_command: RunCommand) -> None:
    def count(*options: str) -> int:
        return len(run_command("exchanges", recorded, "--json", *options).out.splitlines())

    total = count()
    assert (count("--group", "billing"), count("--group", "other"), count("--client", "nobody")) == (total, 0, 0)
    assert count("--api", "joingroup") == 3
    assert count("--api", "JoinGroup", "--api", "SyncGroup") == 6
    assert count("--member", "first") + count("--member", "second") == total
    assert (count("--to", "1999-01-01T00:00"), count("--from", "1999-01-01T00:00")) == (0, total)
    assert count("--from", "2999-01-01T00:00") == 0
    assert "unknown API 'Join'" in run_command("exchanges", recorded, "--api", "Join").err
    assert "invalid time: 'noon'" in run_command("exchanges", recorded, "--from", "noon").err


def test_the_messages_are_shown_on_request(recorded: Path, run_command: RunCommand) -> None:
    shown = run_command("exchanges", recorded, "--api", "SyncGroup", "--client", "second", "--verbose").out
    assert '"generation_id":2' in "".join(line.strip() for line in shown.splitlines())
    assert "response of" in shown
    assert all(len(line) <= LINE_LENGTH for line in shown.splitlines() if line.startswith("    "))


def test_a_store_without_exchanges_is_told_how_to_get_them(store: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("exchanges", store)
    assert (code, out) == (2, "")
    assert "has no recorded exchanges: `regroup serve --record --store" in err


def test_an_unknown_group_is_one_clear_error(recorded: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("exchanges", recorded, "--group", "typo")
    assert (code, out) == (2, "")
    assert err.splitlines() == ["regroup exchanges: unknown group 'typo'; groups in this store: billing"]


def test_a_group_that_only_exchanges_name_is_known(tmp_path: Path, run_command: RunCommand) -> None:
    path = tmp_path / "groups.db"
    with Emulator(store=path) as kafka:
        heartbeat = HeartbeatRequest(group_id="ghost", generation_id=1, member_id="casper")
        kafka.connect("anna").send(heartbeat, 0)
    shown = run_command("exchanges", path, "--group", "ghost")
    assert (shown.code, "UNKNOWN_MEMBER_ID" in shown.out) == (0, True)
    assert run_command("exchanges", path, "--group", "ghost", "--api", "SyncGroup")[:2] == (0, "")
    assert "groups in this store: ghost" in run_command("exchanges", path, "--group", "typo").err


def test_a_heartbeat_of_the_consumer_protocol_names_an_epoch(tmp_path: Path, run_command: RunCommand) -> None:
    path = tmp_path / "groups.db"
    with Emulator(store=path) as kafka:
        leave = ConsumerGroupHeartbeatRequest(group_id="ghost", member_id="casper", member_epoch=-1)
        kafka.connect("anna").send(leave, 1)
    assert "epoch -1" in run_command("exchanges", path, "--group", "ghost").out


def test_names_of_clients_do_not_reach_the_terminal_raw(tmp_path: Path, run_command: RunCommand) -> None:
    path = tmp_path / "groups.db"
    with Emulator(store=path) as kafka:
        kafka.connect("\x1b[31mred\n").send(ApiVersionsRequest(), 0)
    for options in ((), ("--verbose",), ("--json",)):
        shown = run_command("exchanges", path, *options).out
        assert "\x1b" not in shown
        assert "\\x1b[31mred" in shown or "\\u001b[31mred" in shown


def test_why_a_member_was_removed(recorded: Path, run_command: RunCommand) -> None:
    shown = run_command("why", recorded, "--group", "billing", "--member", "second")
    (sentence,) = [" ".join(shown.out.split())]
    assert sentence.startswith("Member second was removed at ")
    assert ", because a test did this (crash-client). [event " in sentence
    assert all(len(line) <= LINE_LENGTH for line in shown.out.splitlines())
    (tree,) = json.loads(run_command("why", recorded, "--group", "billing", "--member", "second", "--json").out)
    assert tree["because"] == [{"sentence": "a test did this (crash-client)"}]


def test_why_works_on_events_alone(store: Path, run_command: RunCommand) -> None:
    shown = run_command("why", store, "--group", "payments")
    assert (shown.code, shown.err) == (0, "")
    positions = [
        json.loads(line)["position"]
        for line in run_command("events", store, "--group", "payments", "--format", "jsonl").out.splitlines()
    ]
    for position in positions:
        each = run_command("why", store, "--group", "payments", "--event", position)
        assert (each.code, each.err) == (0, "")
        assert each.out.endswith(f"[event {position}]\n") or "leads generation" in each.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--group", "other"), "unknown group 'other'"),
        (("--group", "billing", "--member", "nobody"), "no member of group 'billing' is called 'nobody'"),
        (("--group", "billing", "--event", "1"), "position 1 has no event of group 'billing'"),
        (("--group", "billing", "--event", "5", "--member", "first"), "exclude each other"),
    ],
)
def test_what_cannot_be_explained_is_one_clear_error(
    recorded: Path, run_command: RunCommand, words: tuple[str, ...], message: str
) -> None:
    code, out, err = run_command("why", recorded, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "of_day_ms"), [("12:00", 43_200_000), ("12:00:45.2", 43_245_200), ("00:00:00.001Z", 1)]
)
def test_a_time_of_day_means_the_last_recorded_day(text: str, of_day_ms: int) -> None:
    day_ms = 20_000 * 86_400_000
    assert parse_moment(text).at_ms(day_ms + 5) == day_ms + of_day_ms
    assert parse_moment(f"1970-01-02T{text}").at_ms(day_ms) == 86_400_000 + of_day_ms


@pytest.mark.parametrize("text", ["", "24:00", "12:60", "12", "12:00:61", "2026-13-01T12:00", "yesterday"])
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid time"):
        parse_moment(text)


def test_a_refused_join_is_in_the_exchanges_the_story_and_the_reasons(tmp_path: Path, run_command: RunCommand) -> None:
    path = tmp_path / "groups.db"
    settings = {"group.consumer.migration.policy": "disabled"}
    with Emulator(topics={"orders": 2}, store=path, settings=settings) as kafka:
        stable_pair(kafka)
        joining = ConsumerGroupHeartbeatRequest(
            group_id="billing", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"], topic_partitions=[],
        )  # fmt: skip
        kafka.connect("third", group="billing").send(joining, 1)
        kafka.connect("fourth", group="other").send(replace(joining, group_id="other", server_assignor="mine"), 1)
    said = "Cannot upgrade classic group billing to consumer group because online upgrade is disabled"
    assert run_command("exchanges", path, "--client", "third").out.rstrip().endswith(said)
    story = " ".join(run_command("story", path, "--group", "billing").out.split())
    assert f"third's ConsumerGroupHeartbeat was refused with GROUP_ID_NOT_FOUND: {said}." in story
    why = " ".join(run_command("why", path, "--group", "billing", "--member", "third").out.split())
    assert why.startswith("Client third did not join: ")
    assert why.endswith(f"{said}.")
    assert "Client fourth did not join: " in run_command("why", path, "--group", "other").out
    assert "unknown group 'third'" in run_command("why", path, "--group", "third").err
