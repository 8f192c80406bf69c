"""`regroup events` and `replay` on a store that a real group has written."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from regroup.cli.main import main
from regroup.cli.store.group_json import with_decoded_bytes
from regroup.cli.terminal.text import shorten_uuids
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import decode_event, group_as_json
from regroup.storage.sqlite.threaded import open_store
from tests.cli.conftest import GROUP
from tests.cli.store.rows import rows_of
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S, eventually
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.processes import Consume, Serve

COLUMNS = ["position", "group", "event_number", "coordinator_epoch", "at_ms", "type", "version", "payload", "cause"]


def test_jsonl_is_the_table_row_by_row(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(store), "--format", "jsonl"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(row) for row in printed] == [COLUMNS] * len(printed)
    assert [row["position"] for row in printed] == list(range(1, len(printed) + 1))
    assert printed == [
        dict(zip(COLUMNS, (*row[:7], json.loads(row[7]), row[8] and json.loads(row[8])), strict=True))
        for row in rows_of(store)
    ]


def test_text_has_a_line_for_each_event_with_its_reason_and_cause(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", str(store), "--group", GROUP]) == 0
    day, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, times in UTC", day)
    expected = rows_of(store, f"SELECT position, type FROM events WHERE \"group\" = '{GROUP}' ORDER BY position")
    assert [(int(line.split()[0]), line.split()[3]) for line in lines] == expected
    removed = next(line for line in lines if "member-removed" in line)
    assert "because session timeout of 3000 ms expired" in removed
    assert "(session deadline rdkafka-" in removed
    assert any("orders-0 at 1" in line and "(OffsetCommit of rdkafka)" in line for line in lines)
    written = "\n".join(line for line in lines if "assignment-written" in line)
    assert {"0", "1", "0-1"} <= {*re.findall(r"orders ([0-9-]+) to rdkafka-\w{8}…", written)}


@pytest.mark.parametrize(("form", "heading"), [("text", 1), ("jsonl", 0)])
def test_events_begin_after_a_position_and_keep_to_a_group(
    form: str, heading: int, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = rows_of(store)[-1][0]
    assert main(["events", str(store), "--format", form, "--after", str(last - 3)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == heading + 3
    assert main(["events", str(store), "--format", form, "--group", "unknown"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"regroup events: unknown group 'unknown'; groups in this store: {GROUP}\n"


@pytest.mark.usefixtures("default_sigint")
def test_follow_goes_on_until_interrupted(serve: Serve) -> None:
    emulator = serve("--topic", "orders:1")
    words = [REGROUP_COMMAND, "events", emulator.store, "--follow", "--format", "jsonl"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        assert follower.stderr
        assert json.loads(follower.stdout.readline())["payload"]["name"] == "orders"
        PRODUCERS["confluent-kafka"](emulator.address, [("invoices", 0, "makes the topic")])
        assert json.loads(follower.stdout.readline())["payload"]["name"] == "invoices"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 130
        assert follower.stderr.read() == ""


def test_replay_as_text_says_state_leader_and_who_owns_what(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(store), "--group", GROUP, "--format", "jsonl"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    at = str(next(each["position"] for each in events if each["type"] == "assignment-committed"))
    assert main(["replay", str(store), "--at", at, "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert main(["replay", str(store), "--at", at, "--format", "text"]) == 0
    text = capsys.readouterr().out
    (group,) = [each for name, each in whole["groups"].items() if name == GROUP]
    assert text.startswith(f"Position {whole['position']}, 20")
    assert f"group {GROUP}: {group['state']}" in text
    assert f"generation {group['generation_id']}" in text
    assert f"leader {shorten_uuids(group['leader_id'])}" in text
    assert "base64" not in text
    assert len(text.splitlines()) < 20


def test_replay_at_every_position_is_the_fold_up_to_there(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def folds() -> list[dict[str, Group]]:
        states: list[dict[str, Group]] = []
        async with await open_store(store, read_only=True) as opened:
            records = {record.position: record async for record in opened.read() if record.group is not None}
            for position in range(opened.last_position + 1):
                groups = dict(states[-1]) if states else {}
                if record := records.get(position):
                    before = groups.get(record.group) or Group(group_id=record.group)
                    groups[record.group] = evolve(before, decode_event(record))
                states.append(groups)
        return states

    expected = asyncio.run(folds())
    assert len({group.generation_id for groups in expected for group in groups.values()}) >= 4
    for position, groups in enumerate(expected):
        assert main(["replay", str(store), "--at", str(position)]) == 0
        shown = json.loads(capsys.readouterr().out)
        folded = {
            name: json.loads(json.dumps(with_decoded_bytes(group_as_json(group)))) for name, group in groups.items()
        }
        assert shown == {"position": position, "groups": folded}
    assert main(["replay", str(store), "--group", GROUP]) == 0
    assert json.loads(capsys.readouterr().out) == shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--at", "1000000"], "unknown position 1000000"),
        (["--at", "-1"], "unknown position -1"),
        (["--group", "unknown"], f"groups in this store: {GROUP}"),
        (["--group", GROUP, "--at", "1"], "groups in this store: none, at position 1"),
    ],
)
def test_replay_reports_an_unknown_position_or_group(
    words: list[str], complaint: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(store), *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert complaint in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.slow
def test_everything_can_be_read_while_it_is_being_written(
    serve: Serve, consume: Consume, capsys: pytest.CaptureFixture[str]
) -> None:
    emulator = serve("--topic", "orders:2")
    consumer = consume("confluent-kafka", ConsumerOptions(emulator.address, GROUP, ["orders"]))
    eventually(lambda: len(consumer.owned_partitions) == 2, "the assignment")
    for turn in range(1, 4):
        PRODUCERS["confluent-kafka"](emulator.address, [("orders", 0, f"#{turn}")])
        wanted = {("orders", 0): turn}
        eventually(lambda wanted=wanted: emulator.committed(GROUP) == wanted, "the commit")
        for command in ("events", "replay", "verify"):
            assert main([command, str(emulator.store)]) == 0
            assert capsys.readouterr().err == ""


def test_every_event_has_its_cause(store: Path) -> None:
    assert rows_of(store, "SELECT type FROM events WHERE cause IS NULL") == []
    internal = rows_of(store, "SELECT DISTINCT type, cause ->> '$.internal' FROM events ORDER BY 1, 2")
    assert [(kind, cause) for kind, cause in internal if cause] == [
        ("coordinator-loaded", "load of the group"),
        ("offsets-reserved", "records that came in"),
        ("offsets-reserved", "the end of the broker"),
        ("topic-created", "the start of the broker"),
    ]


def test_sqlite_itself_reads_a_store(store: Path) -> None:
    query = "SELECT json_extract(payload, '$.generation_id') FROM events WHERE type = 'generation-started'"
    assert [row[0] for row in rows_of(store, query)][:2] == [1, 2]
    assert rows_of(store, "SELECT json_extract(payload, '$.generation_id') FROM snapshots WHERE \"group\" IS NOT NULL")


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="no sqlite3 shell here")
def test_the_sqlite3_shell_reads_a_store(store: Path) -> None:
    query = "SELECT json_extract(payload, '$.reason') FROM events WHERE type = 'member-removed' LIMIT 1"
    done = subprocess.run(["sqlite3", str(store), query], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert done.stdout == "session timeout of 3000 ms expired\n"
