"""`regroup story`, `export`, `view` and `step` on a store with a group of the consumer protocol (KIP-848)."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from regroup.classroom.languages import Language
from regroup.cli.classroom.step import prepared
from regroup.cli.classroom.step_view.screen import screen_lines
from regroup.cli.classroom.view_runs import StoreRuns
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.testing import Emulator
from tests.cli.conftest import RunCommand


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members of one group; the first is asked to give up two of four partitions. One heartbeat is refused."""
    path = tmp_path_factory.mktemp("kip-848") / "run.db"
    settings = {"group.consumer.assignment.interval.ms": "0"}
    with Emulator(topics={"orders": 4}, store=path, settings=settings) as kafka:
        for name in ("anna", "ben"):
            beat(kafka, name, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[])
        beat(kafka, "anna", 2)
        assert beat(kafka, "anna", 77).error_code
    return path


def beat(kafka: Emulator, name: str, epoch: int, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id="billing", member_id=f"{name}-id", member_epoch=epoch, **fields)
    with kafka.connect(name, group="billing") as connection:
        return connection.send(request)


def test_the_story_names_epochs_partitions_and_refused_heartbeats(store: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("story", store)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "anna has to give up orders 2-3 within 60 s; it stays at epoch 2 and keeps orders 0-1." in text
    message = "The member's epoch 77 is greater than the one of the group coordinator (2)"
    assert f"anna's ConsumerGroupHeartbeat was refused with FENCED_MEMBER_EPOCH: {message}." in text
    assert "At the end the group is Reconciling in group epoch 3." in text
    chinese = run_command("story", store, "--language", "zh").out
    assert f"anna 的 ConsumerGroupHeartbeat 被拒绝：FENCED_MEMBER_EPOCH（{message}）。" in " ".join(chinese.split())


@pytest.mark.parametrize(("form", "words"), [("--text", "epoch"), ("--svg", "UNREVOKED"), ("--mermaid", "epoch 3")])
def test_every_picture_can_be_exported(store: Path, run_command: RunCommand, form: str, words: str) -> None:
    code, out, err = run_command("export", store, "--group", "billing", form)
    assert (code, err) == (0, "")
    assert words in out


def test_the_page_is_served_and_written(store: Path, tmp_path: Path, run_command: RunCommand) -> None:
    assert run_command("export", store, "--group", "billing", "--html", tmp_path / "page.html") == (0, "", "")
    document = asyncio.run(StoreRuns([store], None).document(0, "billing", 0))
    assert b'"kind":"consumer"' in document


def test_the_screen_of_step_shows_states_epochs_and_sessions(store: Path) -> None:
    app = asyncio.run(prepared(Namespace(store=store, group=None, at=None, language=Language.ENGLISH)))
    group = app._groups[0]
    group.index = len(group.timeline.moments) - 1
    screen = "\n".join(line.plain for line in screen_lines(group.shown(), 80, 30))
    for words in ("Reconciling", "epoch 3", "UNREVOKED", "revocation a", "sessions by member"):
        assert words in screen
