"""`regroup members`: what is typed, what is shown, and how it ends."""

import argparse
import asyncio
import re
import socket
from collections.abc import Sequence
from io import StringIO
from uuid import uuid4

import pytest
from rich.console import Console

from regroup.cli.members import command
from regroup.cli.members.table import table
from regroup.cli.terminal.text import partitions_text
from regroup.coordinator.settings import Settings
from regroup.members.consumer.state import Phase
from regroup.members.faults import Habit, Kind
from regroup.members.runtime.application import Application, MemberView
from regroup.members.runtime.fetcher import Fetched
from regroup.members.runtime.workload import Tally
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore

NEEDED = ["--bootstrap", "localhost:9092", "--group", "payments", "--topic", "orders"]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="regroup members")
    command.add_arguments(parser)
    return parser.parse_args([*NEEDED, *words])


def test_habits_are_for_one_member_or_for_all() -> None:
    habits = parsed("--habit", "2:pause:20s", "--habit", "all:crash").habits
    assert habits == [(2, Habit(Kind.PAUSE, 20_000)), (None, Habit(Kind.CRASH))]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--habit", "pause:20s"], "write for example 2:pause:20s or all:slow-join:5s"),
        (["--habit", "2:sleep"], "there is no habit 'sleep'"),
        (["--assignor", "cleverest"], "there is no assignor cleverest"),
        (["--bootstrap", "localhost"], "write host:port"),
        (["--for", "long"], "is no duration"),
        (["--count", "0"], "is not a whole number above 0"),
        (["--topic-pattern", "x"], "not allowed with argument"),
    ],
)
def test_a_word_that_cannot_be_understood_is_explained(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--habit", "9:crash"], "is for member 9, and there are 3"),
        (["--heartbeat-interval", "1m"], "heartbeat_interval_ms (60000) must be below session_timeout_ms"),
        (["--records-per-s", "-1"], "counts nothing below zero"),
    ],
)
def test_what_does_not_fit_together_ends_with_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(parsed(*words)) == 2
    assert says in capsys.readouterr().err


def test_runs_of_partitions_are_drawn_together() -> None:
    partitions = [TopicPartition("orders", number) for number in (7, 0, 1, 2)] + [TopicPartition("clicks", 4)]
    assert partitions_text(partitions) == "orders 0-2,7; clicks 4"


def test_the_table_has_a_row_for_each_member_and_counts_the_records() -> None:
    held = (TopicPartition("orders", 0),)
    well = MemberView("1", "regroup-1-abcdefgh", 3, Phase.STABLE, True, held, "", "", 40, 2)
    gone = MemberView("2", "", -1, Phase.UNJOINED, False, (), "crashed", "no answer in time", 0, 0)
    console = Console(width=120, file=StringIO())
    console.print(table([well, gone], Tally(40, 2, 1, 0)))
    text = str(console.file.getvalue())  # type: ignore[attr-defined]  # it is the StringIO above
    for expected in ("abcdefgh", "stable (leader)", "orders 0", "crashed", "no answer in time", "2 twice, 1 late"):
        assert expected in text


def test_no_name_from_elsewhere_gives_the_terminal_orders() -> None:
    held = (TopicPartition("\x1b[2J", 0),)
    view = MemberView("1", "c-\x1b[31m", 3, Phase.STABLE, True, held, "", "[red]hung\x07 up", 0, 0)
    console = Console(width=160, file=StringIO())
    console.print(table([view], Tally()))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert text.replace("\n", "").isprintable()
    for expected in (r"\x1b[31m", r"\x1b[2J 0", r"[red]hung\x07 up"):
        assert expected in text


def test_members_that_reach_nobody_end_with_1_and_say_where_they_knocked(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert command.run(parsed("--bootstrap", f"127.0.0.1:{port}", "--for", "2s", "--count", "1")) == 1
    assert f"nobody joined the group: 127.0.0.1:{port} cannot be reached" in capsys.readouterr().err


def test_members_join_work_and_leave(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An eager assignor, because whoever goes on reading during a cooperative rebalance may well read things twice."""
    shown, batches = "", []

    def counted(application: Application, records: Sequence[Fetched], now_ms: int) -> None:
        batches.append(len(records))
        worked(application, records, now_ms)

    worked = Application.worked
    monkeypatch.setattr(Application, "worked", counted)

    async def stop_once_both_work(stop: asyncio.Event) -> None:
        nonlocal shown
        while "member 2 was assigned orders" not in shown or not batches:
            await asyncio.sleep(0.05)
            shown += capsys.readouterr().out
        stop.set()

    async def story() -> int:
        clock = Clock(started_at_ms=0, monotonic_s=asyncio.get_running_loop().time)
        settings = Settings(group_initial_rebalance_delay_ms=0)
        emulator = Emulator(MemoryStore().open, clock=clock, new_uuid=uuid4, settings=settings)
        await emulator.start()
        await emulator.ensure_topic("orders", 4)
        host, port = emulator.address
        words = ["--bootstrap", f"{host}:{port}", "--count", "2", "--every", "300ms", "--records-per-s", "100"]
        words += ["--heartbeat-interval", "100ms", "--assignor", "range", "--from", "earliest"]
        stop = asyncio.Event()
        code, _ = await asyncio.gather(
            command.run_members(command.plan_of(parsed(*words)), stop), stop_once_both_work(stop)
        )
        await emulator.close()
        return code

    assert asyncio.run(story()) == 0
    shown += capsys.readouterr().out
    assert "member 1 joined generation" in shown
    assert "records written, 0 refused" in shown
    assert re.search(rf"{sum(batches)} records processed: 0 twice, \d+ late, 0 skipped", shown)
