"""`regroup serve --control` and `--faults` as a process: how it begins, what it refuses, how it ends."""

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn")

from tests.cli.conftest import RunCommand
from tests.cli.serve.conftest import Served, Start, started, typed
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S, eventually
from tests.control.conftest import TOKEN, Control

RULES = "- on: OffsetCommit\n  group: billing\n  answer: COORDINATOR_NOT_AVAILABLE\n  times: 2\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Three brokers with a rule from a file, which no test removes."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "rules.yaml").write_text(RULES)
    words = ("--brokers", "3", "--topic", "orders:6", "--faults", str(folder / "rules.yaml"))
    with started(folder, "--control", "127.0.0.1:0", *words) as served:
        yield served


def test_the_addresses_come_first(shared: Served) -> None:
    assert shared.lines[0].count("127.0.0.1:") == 3
    assert shared.lines[0].startswith("listening on ")
    assert shared.control.look("/emulator")["bootstrap_servers"] == shared.servers
    assert shared.control.look("/topics") == [{"topic": "orders", "partitions": 6}]


@pytest.mark.slow
def test_a_dead_consumer_is_replaced(start: Start) -> None:
    settings = ["--set", "group.initial.rebalance.delay.ms=0", "--topic", "orders:6"]
    with start("--control", "127.0.0.1:0", *settings) as served:
        consumers = [
            confluent_kafka.Consumer(
                {
                    "bootstrap.servers": served.servers,
                    "group.id": "billing",
                    "client.id": name,
                    "heartbeat.interval.ms": 100,
                    "log_level": 0,
                }
            )
            for name in ("first", "second")
        ]
        for consumer in consumers:
            consumer.subscribe(["orders"])
        waiting = served.control.in_background("/group/wait-stable", group="billing", members=2, timeout_s=30)
        while waiting._thread.is_alive():
            for consumer in consumers:
                consumer.poll(0.05)
        assert waiting.result().status == 200
        served.control.act("/client/crash", client="second")
        waiting = served.control.in_background("/group/wait-stable", group="billing", members=1, timeout_s=30)
        while waiting._thread.is_alive():
            consumers[0].poll(0.05)
        (member,) = waiting.result().json["members"]
        assert (member["client_id"], len(member["partitions"])) == ("first", 6)
        served.control.act("/client/revive", client="second")
        for consumer in consumers:
            consumer.close()


@pytest.mark.slow
def test_a_killed_server_comes_back_on_its_store(start: Start, tmp_path: Path) -> None:
    with start("--control", "127.0.0.1:0") as served:
        served.control.act("/topic/create", topic="orders", partitions=3)
        served.control.act("/emulator/kill")
        served.control.act("/emulator/restart")
        assert served.control.look("/emulator")["bootstrap_servers"] == served.servers
        assert served.control.look("/topics") == [{"topic": "orders", "partitions": 3}]


@pytest.mark.slow
def test_an_end_does_not_wait_for_waits(start: Start) -> None:
    with start("--control", "127.0.0.1:0") as served:
        waiting = served.control.in_background("/group/wait-stable", group="billing", timeout_s=600)
        eventually(lambda: served.control.look("/emulator")["waiting_requests"] == 1, "the wait")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(TIMEOUT_S) == 0
        assert (waiting.result().status, waiting.result().error) == (503, "regroup is stopping")


@pytest.mark.slow
def test_a_killed_server_ends_in_good_order(start: Start) -> None:
    with start("--control", "127.0.0.1:0") as served:
        served.control.act("/emulator/kill")


@pytest.mark.quick("[file]")
@pytest.mark.parametrize("how", ["file", "environment"])
def test_other_machines_may_ask_with_the_token(start: Start, tmp_path: Path, how: str) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    words = ["--control-token", str(tmp_path / "token")] if how == "file" else []
    environment = {} if how == "file" else {"REGROUP_CONTROL_TOKEN": TOKEN}
    with start("--control", "0.0.0.0:0", *words, **environment) as served:
        control = Control("127.0.0.1", served.control.port)
        assert control.get("/groups").status == 401
        assert control.get("/groups", {"authorization": f"Bearer {TOKEN}"}).status == 200
        assert control.get("/groups", {"authorization": f"Bearer {TOKEN}", "host": socket.gethostname()}).status == 200
        assert control.get("/groups", {"authorization": f"Bearer {TOKEN}", "host": "evil.example"}).status == 403


@pytest.mark.slow
def test_the_embedded_mqtt_broker_runs_beside_it(start: Start, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as drawn:
        port = drawn.getsockname()[1]
    with start("--control", "127.0.0.1:0", "--mqtt", f"embedded:{port}", lines=3) as served:
        assert [line.split()[0] for line in served.lines] == ["listening", "control", "feed"]
        served.control.act("/emulator/kill")
        served.control.act("/emulator/restart")
        assert served.control.look("/emulator")["running"]


def refused(run_command: RunCommand, tmp_path: Path, *words: object) -> str:
    """The line of a `serve` that is refused before its store is opened."""
    code, out, error = run_command("serve", "--port", "0", "--store", tmp_path / "groups.db", *words)
    assert (code, out, len(error.splitlines())) == (2, "", 1), error
    assert not (tmp_path / "groups.db").exists()
    return error


def test_a_missing_package_is_named(run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.cli.serve.control.find_spec", lambda name: None)
    said = refused(run_command, tmp_path, "--control", "127.0.0.1:0")
    assert said == "regroup serve: --control needs starlette and uvicorn: pip install starlette uvicorn\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--control", "0.0.0.0:0"], "needs a token: name a file with --control-token FILE"),
        (["--control", "[::]:0"], "needs a token"),
        (["--control-token", "token"], "--control-token needs --control HOST:PORT."),
        (["--control", "127.0.0.1:0", "--control-token", "missing"], "missing cannot be read: No such file"),
    ],
)
def test_what_cannot_be_served_is_refused(
    run_command: RunCommand, tmp_path: Path, words: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert text in refused(run_command, tmp_path, *words)


def test_an_empty_token_is_refused(run_command: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    said = refused(run_command, tmp_path, "--control", "0.0.0.0:0", "--control-token", tmp_path / "token")
    assert "holds no token" in said


@pytest.mark.parametrize("address", ["9080", "localhost", ":9080", "127.0.0.1:x", "127.0.0.1:65536"])
def test_an_address_that_is_none_is_refused(run_command: RunCommand, address: str) -> None:
    code, _, error = run_command("serve", "--control", address)
    assert (code, "write HOST:PORT, for example 127.0.0.1:9080" in error) == (2, True)


def test_a_control_port_that_is_taken_is_named(run_command: RunCommand, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, errors = run_command("serve", "--port", "0", "--store", tmp_path / "groups.db", "--control", address)
    assert (code, out) == (2, "")
    assert f"regroup serve: cannot listen on {address}: " in errors
    assert "Traceback" not in errors


LOADED = """
import sys
from regroup.cli.main import main
import regroup.cli.serve.command
LIBRARIES = {"starlette", "uvicorn", "anyio", "h11", "aiomqtt", "paho"}
print(sorted({name.split(".")[0] for name in sys.modules} & LIBRARIES))
KIT = ("regroup.testing", "regroup.control", "regroup.server.faults")
print([name for name in sys.modules if name.startswith(KIT)])
"""


def test_without_the_option_nothing_of_it_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n[]\n"


# Fault rules


def test_rules_from_a_file_are_in_force_from_the_start(shared: Served) -> None:
    (rule,) = shared.control.look("/faults")
    assert (rule["fault"], rule["rule"]["group"], rule["rule"]["times"]) == (1, "billing", 2)


@pytest.mark.slow
def test_rules_from_a_file_need_no_control_port(start: Start, run_command: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("- on: ApiVersions\n  client_id: anna\n  close: before\n  times: 1\n")
    recorded = ("--record", "--store", str(tmp_path / "recorded.db"))
    with start("--faults", str(tmp_path / "rules.yaml"), "--brokers", "2", *recorded, lines=1) as served:
        assert typed(served, "faults") == "1  on=ApiVersions client_id=anna times=1  close=before  matched 0, hit 0"
        confluent_kafka.Consumer(
            {"bootstrap.servers": served.servers, "group.id": "g", "client.id": "anna", "log_level": 0}
        ).list_topics(timeout=TIMEOUT_S)
        assert "matched 1, hit 1, spent" in typed(served, "faults")
    shown = run_command("exchanges", tmp_path / "recorded.db", "--client", "anna").out
    assert "fault: close before" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- on: OfsetCommit\n  drop: answer\n", "rule 1: unknown API 'OfsetCommit': did you mean OffsetCommit?"),
        ("- on: OffsetCommit\n", "rule 1: the rule does nothing"),
        ("on: OffsetCommit\n", "a list of rules is expected"),
        ("- {", "line 1"),
    ],
)
def test_a_wrong_file_of_rules_is_one_line(run_command: RunCommand, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    error = refused(run_command, tmp_path, "--faults", tmp_path / "rules.yaml")
    assert f"{tmp_path / 'rules.yaml'}: {said}" in error


def test_a_missing_file_of_rules_is_one_line(run_command: RunCommand, tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refused(run_command, tmp_path, "--faults", tmp_path / "rules.yaml")


def test_rules_are_typed_at_the_prompt(shared: Served) -> None:
    assert typed(shared, "fault on=SyncGroup client_id=first hold").startswith("2  on=SyncGroup client_id=first  hold")
    assert [rule["effect"] for rule in shared.control.look("/faults")][1:] == ["hold"]
    assert typed(shared, "release 2") == "rule 2: 0 requests released"
    assert typed(shared, "remove 2") == "rule 2 removed after 0 hits"
    assert len(shared.control.look("/faults")) == 1
    assert typed(shared, "faults").startswith("1  on=OffsetCommit group=billing times=2")


@pytest.mark.slow
def test_a_wrong_line_is_answered_on_standard_error(start: Start) -> None:
    with start("--brokers", "2", lines=1) as served:
        assert served.process.stdin
        assert served.process.stderr
        for line, said in (
            ("fault on=SyncGroup", "the rule does nothing"),
            ("fault on=Sync hold", "unknown API 'Sync'"),
            ("remove 7", "no rule 7 is in force; in force: none"),
            ("release x", "invalid command: 'release x'"),
        ):
            served.process.stdin.write(line + "\n")
            served.process.stdin.flush()
            assert served.process.stderr.readline().startswith(f"regroup serve: {said}")
            assert typed(served, "faults") == "no rule is in force"


@pytest.mark.slow
def test_a_stopped_broker_of_killed_brokers_is_reported(start: Start) -> None:
    with start("--brokers", "2", "--control", "127.0.0.1:0") as served:
        served.control.act("/emulator/kill")
        assert served.process.stdin
        assert served.process.stderr
        served.process.stdin.write("stop 1\n")
        served.process.stdin.flush()
        line = next(each for each in served.process.stderr if each.startswith("regroup serve: "))
        assert line.startswith("regroup serve: broker 1 could not be stopped: the emulator is not running")
        served.control.act("/emulator/restart")


@pytest.mark.slow
def test_a_terminal_gets_a_prompt_with_one_broker_too(tmp_path: Path) -> None:
    command = [REGROUP_COMMAND, "serve", "--port", "0", "--store", tmp_path / "groups.db"]
    master, terminal = pty.openpty()
    with (
        os.fdopen(master, "wb", buffering=0) as keyboard,
        subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        os.close(terminal)
        assert process.stdout
        assert process.stdout.readline().startswith("listening on ")
        assert process.stdout.readline().startswith("type stop N or start N (N is 0), fault FIELD=VALUE …, faults")
        keyboard.write(b"fault on=SyncGroup drop=answer\n")
        assert process.stdout.readline().startswith("1  on=SyncGroup  drop=answer")
        keyboard.write(b"help\n")
        assert process.stdout.readline().startswith("stop 1 ")
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
