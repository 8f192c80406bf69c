"""`regroup serve` as a process: how it begins, how it ends, and what it says when it cannot."""

import asyncio
import gc
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from regroup.cli.main import build_parser, main
from regroup.cli.serve.command import loop_factory, serve_brokers, serve_plan
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.settings import INTERNAL_SETTINGS, BrokerSettings
from tests.cli.conftest import RunCommand
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S, run_regroup
from tests.clients.libraries import PRODUCERS
from tests.clients.processes import Serve


def error_of(*words: str | Path) -> str:
    """Standard error of a `regroup serve` in a process of its own that ends with 2, without a traceback."""
    done = run_regroup("serve", *map(str, words))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def error_here(run_command: RunCommand) -> Callable[..., str]:
    """The same in this process, which is quicker."""

    def run(*words: str | Path) -> str:
        code, out, err = run_command("serve", *words)
        assert (code, out) == (2, "")
        return err

    return run


def one_line(said: str) -> str:
    assert len(said.splitlines()) == 1, said
    return said


@pytest.mark.quick("[15]")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    words = [REGROUP_COMMAND, "serve", "--port", "0", "--store", tmp_path / "groups.db", "--topic", "orders:3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {"groups.db", "groups.db.lock"}, "nothing is left in the log"
    assert run_regroup("verify", str(tmp_path / "groups.db")).returncode == 0


async def test_the_garbage_collector_leaves_out_what_the_start_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed_before: list[str] = []
    is_done = asyncio.Event()
    monkeypatch.setattr(gc, "freeze", lambda: printed_before.append(capsys.readouterr().out))
    monkeypatch.setattr(gc, "set_threshold", lambda *_: is_done.set())
    words = ["serve", "--port", "0", "--store", str(tmp_path / "groups.db")]
    args = build_parser(words).parse_args(words)
    serving = asyncio.create_task(serve_brokers(args, serve_plan(args)))
    await asyncio.wait_for(is_done.wait(), TIMEOUT_S)
    assert printed_before == [""]
    assert capsys.readouterr().out.startswith("listening")
    serving.cancel()
    await asyncio.wait([serving])


def test_a_loop_that_is_not_installed_is_named(
    error_here: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    said = error_here("--port", "0", "--store", tmp_path / "groups.db", "--loop", "uvloop")
    assert one_line(said) == "regroup serve: uvloop is not installed: pip install uvloop\n"
    assert not (tmp_path / "groups.db").exists()


@pytest.mark.parametrize(("installed", "expected"), [(True, "uvloop"), (False, "asyncio")])
def test_uvloop_is_taken_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool, expected: str
) -> None:
    monkeypatch.setattr("regroup.cli.serve.command.find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr("regroup.cli.serve.command.load", lambda place: lambda: place)
    assert loop_factory("auto")() == f"{expected}:new_event_loop"
    assert loop_factory("asyncio")() == "asyncio:new_event_loop"


@pytest.mark.slow
def test_a_topic_that_is_there_is_left_as_it_is(serve: Serve) -> None:
    emulator = serve("--topic", "orders:3")
    PRODUCERS["confluent-kafka"](emulator.address, [("orders", 2, "in the last partition")])
    emulator.kill()
    emulator.start()
    (created,) = emulator.events(kind="topic-created")
    assert (created["name"], created["partitions"]) == ("orders", 3)


@pytest.mark.slow
def test_a_second_writer_is_refused(serve: Serve) -> None:
    emulator = serve("--topic", "orders:3")
    said = one_line(error_of("--port", "0", "--store", emulator.store))
    assert f"{emulator.store} is being written by another process (number " in said
    assert "Stop that process" in said
    PRODUCERS["confluent-kafka"](emulator.address, [("orders", 0, "the first goes on")])
    emulator.kill()
    emulator.start()


def test_a_port_that_is_taken_is_named(tmp_path: Path, error_here: Callable[..., str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        said = one_line(error_here("--port", str(port), "--store", tmp_path / "groups.db"))
    assert f"cannot listen on 127.0.0.1:{port}: " in said
    assert "Try --port 0." in said


def a_text(path: Path) -> str:
    path.write_text("Dear diary, " * 100)
    return "is not a store of this program"


def another_program_s_database(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (position INTEGER)")
    return "is not a store of this program"


def a_newer_store(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    return "use a newer release"


def a_store_without_its_end(path: Path) -> str:
    os.truncate(path, path.stat().st_size // 2)
    return "is damaged"


def a_store_with_pages_overwritten(path: Path) -> str:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    return "is damaged"


def a_folder(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "is a folder"


SPOILT = [
    a_text,
    another_program_s_database,
    a_newer_store,
    a_store_without_its_end,
    a_store_with_pages_overwritten,
    a_folder,
]


@pytest.mark.quick("[a_text]")
@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_is_no_good_store_is_refused_and_left_alone(
    spoil: Callable[[Path], str], written_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "groups.db"
    if spoil not in (a_text, another_program_s_database):
        path.write_bytes(written_store.read_bytes())
    expected = spoil(path)
    before = path.read_bytes() if path.is_file() else None
    assert expected in one_line(error_of("--port", "0", "--store", path))
    for command in ("events", "replay", "verify"):
        assert main([command, str(path)]) == 2
        assert expected in one_line(capsys.readouterr().err)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, error_here: Callable[..., str]) -> None:
    said = one_line(error_here("--port", "0", "--store", tmp_path / "nowhere" / "groups.db"))
    assert f"{tmp_path / 'nowhere'}: no such folder" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_store_that_may_only_be_read_is_read_but_not_served(written_store: Path, tmp_path: Path) -> None:
    path = tmp_path / "groups.db"
    path.write_bytes(written_store.read_bytes())
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert "cannot be written" in one_line(error_of("--port", "0", "--store", path))
        assert run_regroup("verify", str(path)).returncode == 0
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--topic", ":3"), "orders:7"),
        (("--topic", "orders:0"), "orders:7"),
        (("--topic", "orders:many"), "orders:7"),
        (("--topic", "orders:10001"), "at most 10000"),
        (("--topic", "two words:3"), "other than ASCII alphanumerics"),
        (("--topic", "..:3"), ".."),
        (("--set", "group.max.size"), "write NAME=VALUE"),
        (("--set", "=5"), "write NAME=VALUE"),
        (("--set", "group.max.size=many"), "group.max.size takes a whole number, not 'many'"),
        (("--set", "group.max.size=0"), "group.max.size must be at least 1"),
        (("--set", "group.inital.rebalance.delay.ms=0"), "did you mean group.initial.rebalance.delay.ms?"),
        (("--set", "num.partition=3"), "did you mean num.partitions?"),
        (("--set", "auto.create.topics.enable=perhaps"), "either true or false"),
        (("--port", "70000"), "from 0 to 65535"),
        (("--port", "http"), "from 0 to 65535"),
        (("--advertise", "kafka.local"), "HOST:PORT"),
        (("--advertise", "kafka.local:0"), "HOST:PORT"),
    ],
)
def test_a_bad_option_is_explained(
    words: tuple[str, str], expected: str, tmp_path: Path, error_here: Callable[..., str]
) -> None:
    said = error_here("--store", tmp_path / "groups.db", *(("--port", "0") if "--port" not in words else ()), *words)
    assert expected in said
    assert len(said.splitlines()) <= 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("group.max.size = ", "cannot be read as TOML"),
        ("group.max.size = 2.5", "group.max.size takes a whole number, not '2.5'"),
        ("[group.max]\nsise = 5", "did you mean group.max.size?"),
        ("group.max.size = [1, 2]", "group.max.size takes a whole number"),
        (None, "regroup.toml cannot be read: No such file or directory."),
    ],
)
def test_a_bad_configuration_is_explained(
    text: str | None, expected: str, tmp_path: Path, error_here: Callable[..., str]
) -> None:
    config = tmp_path / "regroup.toml"
    if text is not None:
        config.write_text(text)
    said = one_line(error_here("--port", "0", "--store", tmp_path / "groups.db", "--config", config))
    assert expected in said


@pytest.mark.slow
def test_what_is_typed_goes_before_what_is_written(serve: Serve, tmp_path: Path) -> None:
    """`--set` outdoes the file, and both are what DescribeConfigs then shows."""
    config = tmp_path / "regroup.toml"
    config.write_text("num.partitions = 5\n[group]\nmax.size = 7\n[auto.create.topics]\nenable = false\n")
    emulator = serve("--config", str(config), "--set", "num.partitions=6")
    broker = ConfigResource(ConfigResource.Type.BROKER, "0")
    admin = AdminClient({"bootstrap.servers": emulator.address})
    (future,) = admin.describe_configs([broker]).values()
    shown = {name: entry.value for name, entry in future.result(TIMEOUT_S).items()}
    assert shown["num.partitions"] == "6"
    assert shown["group.max.size"] == "7"
    assert shown["auto.create.topics.enable"] == "false"
    assert {*CoordinatorSettings.names(), *BrokerSettings.names()} - INTERNAL_SETTINGS == shown.keys()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--port", "PORT"], "another program uses the port. Try --port 0."),
        (["--host", "192.0.2.1", "--port", "0"], "Cannot assign requested address."),
        (["--port", "0", "--topic", "a b:1"], "a b"),
    ],
)
def test_a_refused_start_says_why_in_one_line_and_leaves_no_file(
    words: list[str], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        typed = [word.replace("PORT", str(taken.getsockname()[1])) for word in words]
        assert main(["serve", "--store", str(tmp_path / "new.db"), *typed]) == 2
    (line,) = [each for each in capfd.readouterr().err.splitlines() if not each.startswith("Try `")]
    assert reason in line
    assert "Errno" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--host", "a..b", "--port", "0"],
        ["members", "--bootstrap", "a..b:1", "--group", "g", "--topic", "t"],
        ["conformance", "--bootstrap", f"{'a' * 64}:1"],
    ],
)
def test_a_host_that_cannot_be_looked_up_is_refused_in_one_line(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "invalid" in capfd.readouterr().err.splitlines()[0]
