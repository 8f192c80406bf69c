"""Every control, format and bidirectional character of Unicode, through every command.

None reaches the terminal, and parsed JSON has the same text.
"""

import asyncio
import json
import unicodedata
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import structlog
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regroup.cli.main import COMMANDS
from regroup.cli.members.table import describe_change, members_table
from regroup.cli.serve.log import configure_log
from regroup.cli.terminal.consoles import PlainConsole
from regroup.cli.terminal.text import printable, printable_json, printable_lines
from regroup.cli.watch.command import FeedWatcher
from regroup.cli.watch.table import groups_table
from regroup.coordinator.settings import CoordinatorSettings
from regroup.members.consumer.effects import JoinedGroup
from regroup.mqtt.address import MqttAddress
from regroup.mqtt.topics import MqttTopics
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.sqlite.threaded import open_store
from tests.cli.conftest import CommandResult, RunCommand
from tests.server.wire_client import WireClient

HOSTILE_CATEGORIES = {"Cc", "Cf", "Zl", "Zp"}
BIDIRECTIONAL = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
PLANES = chain(range(0x40000), range(0xE0000, 0xF0000))
"""Those that have characters; the ones behind are for private use."""
CHARACTERS = "".join(
    each
    for each in map(chr, PLANES)
    if unicodedata.category(each) in HOSTILE_CATEGORIES or unicodedata.bidirectional(each) in BIDIRECTIONAL
)
NAME = f"name{CHARACTERS}end"
LINE_BREAK = "\n"


def is_clean(text: str) -> bool:
    return not set(CHARACTERS) - {LINE_BREAK} & set(text)


class HostileClient(WireClient):
    """A client whose id is hostile, too."""

    def send(self, request: Message, version: int | None = None) -> int:
        version = request.versions.last if version is None else version
        correlation_id = next(self._correlation_ids)
        self.writer.write(encode_request(RequestHeader(request.api_key, version, correlation_id, NAME), request))
        return correlation_id


async def write_hostile_store(path: Path) -> None:
    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    async with await BrokerCluster.start(partial(open_store, path), options) as cluster:
        await cluster.ensure_topic("orders", 1)
        client = await HostileClient.connect(*cluster.address)
        joined: Any = await client.call(
            g.JoinGroupRequest(
                group_id=NAME,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                group_instance_id=NAME,
                protocol_type="consumer",
                protocols=[g.JoinGroupRequestProtocol(name=NAME, metadata=b"")],
                reason=NAME,
            ),
            8,
        )
        assert joined.error_code == 0
        assignment = [g.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x1b")]
        await client.call(
            g.SyncGroupRequest(
                group_id=NAME,
                generation_id=1,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name=NAME,
                assignments=assignment,
            )
        )
        partitions = [o.OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=NAME)]
        commit = o.OffsetCommitRequest(
            group_id=NAME,
            generation_id_or_member_epoch=1,
            member_id=joined.member_id,
            topics=[o.OffsetCommitRequestTopic(name="orders", partitions=partitions)],
        )
        await client.call(commit, 8)
        leaving = g.MemberIdentity(member_id=joined.member_id, group_instance_id=NAME, reason=NAME)
        await client.call(g.LeaveGroupRequest(group_id=NAME, members=[leaving]))
        await client.close()


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "groups.db"
    asyncio.run(write_hostile_store(path))
    return path


def texts_of(value: Any) -> Iterator[str]:
    """Every text in decoded JSON, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)


def assert_clean(result: CommandResult) -> None:
    assert is_clean(result.out), ascii(result.out[:500])
    assert is_clean(result.err), ascii(result.err[:500])


def test_there_are_many_hostile_characters() -> None:
    assert len(CHARACTERS) > 200
    assert {"\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200f", "\u2028", "\U000e0001"} <= set(CHARACTERS)
    assert not is_clean(NAME)


def test_the_filters_leave_no_hostile_character() -> None:
    assert is_clean(printable(NAME))
    assert is_clean(printable_lines(NAME))
    assert is_clean(printable_json(json.dumps(NAME, ensure_ascii=False)))
    assert json.loads(printable_json(json.dumps({NAME: [NAME]}, ensure_ascii=False))) == {NAME: [NAME]}
    assert printable("größe 東京 🎉") == printable_json("größe 東京 🎉") == "größe 東京 🎉"


@pytest.mark.parametrize("words", [(), ("--group", NAME)], ids=["all", "one group"])
def test_events_as_text(words: tuple[str, ...], hostile_store: Path, run_command: RunCommand) -> None:
    result = run_command("events", hostile_store, *words)
    assert "member-joined" in result.out
    assert_clean(result)


def test_events_as_json(hostile_store: Path, run_command: RunCommand) -> None:
    result = run_command("events", hostile_store, "--format", "jsonl")
    assert_clean(result)
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert sum(row["group"] == NAME for row in rows) > 5
    assert sum(NAME in text for row in rows for text in texts_of(row["payload"])) > 5
    assert any(NAME in texts_of(row["cause"]) for row in rows)


def test_replay(hostile_store: Path, run_command: RunCommand) -> None:
    result = run_command("replay", hostile_store, "--at", "8")
    assert_clean(result)
    assert NAME in json.loads(result.out)["groups"]


@pytest.mark.parametrize("form", ["--svg", "--mermaid", "--text"])
def test_export(form: str, hostile_store: Path, run_command: RunCommand, tmp_path: Path) -> None:
    result = run_command("export", hostile_store, "--group", NAME, form)
    assert result.code == 0
    assert_clean(result)
    file = tmp_path / "picture"
    assert run_command("export", hostile_store, "--group", NAME, form, "--output", file).code == 0
    assert is_clean(file.read_text(encoding="utf-8"))


def test_story(hostile_store: Path, run_command: RunCommand) -> None:
    result = run_command("story", hostile_store)
    assert " committed once, up to orders-0 at 7." in " ".join(result.out.split())
    assert_clean(result)


def test_verify_and_trim(hostile_store: Path, tmp_path: Path, run_command: RunCommand) -> None:
    assert_clean(run_command("verify", hostile_store))
    copy = tmp_path / "copy.db"
    copy.write_bytes(hostile_store.read_bytes())
    assert_clean(run_command("trim", copy, "--before", "2"))


@pytest.mark.parametrize("command", ["events", "replay"])
def test_an_unknown_group(command: str, hostile_store: Path, run_command: RunCommand) -> None:
    result = run_command(command, hostile_store, "--group", f"?{NAME}")
    assert result.code == 2
    assert_clean(result)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("word", [f"--{NAME}", NAME], ids=["option", "argument"])
def test_an_unknown_word_of_every_command(command: str, word: str, run_command: RunCommand, tmp_path: Path) -> None:
    if command in ("campaign", "report", "pipeline") and word == NAME:
        pytest.skip("it takes a while to start Spark before it looks at the file")
    if command == "demo":
        word = f"--{NAME}"
    result = run_command(command, word, "--no-such-option")
    assert result.code == 2
    assert result.err
    assert_clean(result)


def test_an_unknown_command(run_command: RunCommand) -> None:
    result = run_command(NAME)
    assert result.code == 2
    assert_clean(result)


@pytest.mark.parametrize("words", [(), ("--explain",)], ids=["json", "text"])
def test_assign_cases(words: tuple[str, ...], tmp_path: Path, run_command: RunCommand) -> None:
    file = tmp_path / "cases.jsonl"
    case = {
        "id": NAME,
        "assignor": "range",
        "partitionsPerTopic": {NAME: 2},
        "members": [{"id": NAME, "topics": [NAME]}, {"id": "other", "topics": [NAME]}],
    }
    file.write_text(json.dumps(case) + "\n" + json.dumps({**case, "assignor": NAME}) + "\n")
    result = run_command("assign", file, *words)
    assert result.out
    assert_clean(result)
    if not words:
        assert [json.loads(line)["id"] for line in result.out.splitlines()] == [NAME, NAME]


@pytest.mark.parametrize("words", [("--json",), ()], ids=["json", "text"])
def test_assign_records(words: tuple[str, ...], tmp_path: Path, run_command: RunCommand) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps({"key": NAME, "size": 5}) + "\n")
    result = run_command("assign", "--records", file, "--partitions", "3", *words)
    assert result.code == 0, result.err
    assert_clean(result)
    if words:
        assert json.loads(result.out)["key"] == NAME


def test_members() -> None:
    class View:
        name = member_id = condition = last_error = NAME
        generation_id = processed_count = duplicate_count = 1
        is_leader = True
        partitions = ((NAME, 0),)

    class Counts:
        processed = duplicates = late = skipped = 0

    shown = StringIO()
    console = PlainConsole()
    console.file = shown
    console.print(members_table([View()], Counts()))  # type: ignore[list-item, arg-type]
    console.print(describe_change(JoinedGroup(1, NAME, True, NAME)))
    assert "name" in shown.getvalue()
    assert is_clean(shown.getvalue())


async def test_watch(capsys: pytest.CaptureFixture[str]) -> None:
    shown = StringIO()
    console = PlainConsole()
    console.file = shown
    args = Namespace(mqtt=MqttAddress("broker", 1883), group=None, from_start=True)
    watcher, topics = FeedWatcher(args, console), MqttTopics("main")
    member = {"member_id": NAME, "client_id": NAME, "client_host": NAME, "session_timeout_ms": 1, "awaiting": NAME}
    state = {"group": NAME, "state": NAME, "state_since_ms": 1, "generation_id": 1, "event_number": 1}
    state |= {"leader_id": NAME, "members": [member], "member_count": 1, "protocol_name": NAME, "protocol_type": NAME}
    loss = {"group": NAME, "member_id": NAME, "client_name": NAME, "lost_at_ms": 1, "session_timeout_ms": 1}
    event = {"position": 1, "event_number": 1, "coordinator_epoch": 1, "at_ms": 1, "type": NAME, "version": 1}
    event |= {"payload": {"member_id": NAME, "leader_id": NAME, "reason": NAME}}
    for kind, message in (
        ("state", state),
        ("connection-losses", {**loss, "is_removed": False}),
        ("events", {"group": NAME, "events": [event]}),
        ("events", {"group": NAME, "events": [{**event, "type": 1}]}),
    ):
        watcher.handle_message(topics.group(NAME, kind), json.dumps(message).encode())
    watcher.handle_message(f"{topics.root}/groups/{NAME}/events", b"?")
    console.print(groups_table(watcher.cluster, 5))
    assert shown.getvalue().count("name") > 3
    assert is_clean(shown.getvalue())
    assert is_clean(capsys.readouterr().err)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_of_serve(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_log("info", form)
    try:
        structlog.get_logger().info("member-left", group=NAME, member_id=NAME, others=[NAME], reason=NAME)
        try:
            raise ValueError(NAME)
        except ValueError:
            structlog.get_logger().exception("request failed", client=NAME)
    finally:
        structlog.reset_defaults()
    said = capsys.readouterr().err
    assert "member-left" in said
    assert is_clean(said)
    if form == "json":
        assert json.loads(said.splitlines()[0])["group"] == NAME


def test_whatever_a_rich_console_of_a_command_shows_is_filtered() -> None:
    """Also where a cell was forgotten."""
    shown = StringIO()
    console = PlainConsole()
    console.file = shown
    table = Table(title=Text(NAME))
    table.add_column(NAME)
    table.add_row(NAME)
    console.print(table, NAME, Text(NAME))
    assert is_clean(shown.getvalue())
    assert isinstance(console, Console)
