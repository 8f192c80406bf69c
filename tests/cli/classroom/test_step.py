"""`regroup step`: what it refuses, where it begins, and a long history."""

import asyncio
import importlib.util
from argparse import Namespace
from pathlib import Path

import pytest

from regroup.classroom.languages import Language
from regroup.cli.classroom.selection import parse_place
from regroup.cli.classroom.step import prepared
from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.arguments import load
from regroup.storage.sqlite.threaded import open_store
from tests.cli.classroom.long_store import write_long_store
from tests.cli.classroom.step_view.screens import text_of
from tests.cli.conftest import RunCommand


def arguments(store: Path, group: str | None = None, at: str | None = None) -> Namespace:
    return Namespace(store=store, group=group, at=parse_place(at) if at else None, language=Language.ENGLISH)


def test_without_the_package_the_command_to_install_it_is_named(
    lesson_store: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("regroup.cli.jobs.find_spec", lambda name: None if name == "textual" else found(name))
    code, out, err = run_command("step", lesson_store)
    assert (code, out) == (2, "")
    assert err == "regroup step: textual not installed: pip install textual\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "it needs a terminal; `regroup story` writes the same history as text"),
        (["--group", "other"], "unknown group 'other'; groups in this store: lab"),
        (["--at", "5000"], "unknown position 5000; the store holds 0 to "),
        (["--at", "1"], "no event of a group up to there: the first one is at position 3"),
        (["--at", "soon"], "invalid place: 'soon'"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    lesson_store: Path, run_command: RunCommand, words: list[str], message: str
) -> None:
    code, out, err = run_command("step", lesson_store, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_it_begins_at_the_place_that_is_named(lesson_store: Path) -> None:
    for place, position in (("23", 23), ("1ms", 5), ("22:14:10.025", 25), (None, 3)):
        app = asyncio.run(prepared(arguments(lesson_store, at=place)))
        assert app.group.moment.position == position, place


def test_a_store_without_a_group_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "empty.db"

    async def create() -> None:
        await (await open_store(store)).close()

    asyncio.run(create())
    with pytest.raises(CannotRun, match="no event of a group"):
        asyncio.run(prepared(arguments(store)))


@pytest.mark.parametrize("least_events", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_step_in_a_long_history_reads_none_of_it_again(
    least_events: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "long.db"
    events = write_long_store(store, least_events)
    app = asyncio.run(prepared(arguments(store)))

    for name in ("regroup.classroom.fold.build:TimelineBuilder", "regroup.cli.classroom.step_view.groups:MomentViews"):
        monkeypatch.setattr(load(name), "__init__", None)  # a step that made another one would fail

    async def step() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("end", *["left"] * 20)
            assert f"event {events - 20} of {events}" in text_of(app)[0]

    asyncio.run(step())
