"""Exchanges and session clocks of a recorded store, against what members sent and the emulator's next deadline."""

import asyncio
import random
from argparse import Namespace
from pathlib import Path

import pytest

from regroup.classroom.languages import Language
from regroup.cli.classroom.step import prepared
from regroup.cli.classroom.step_view.app import StepApp
from regroup.cli.classroom.step_view.dialogs import TextDialog
from regroup.testing import Emulator
from tests.cli.classroom.step_view.screens import text_of
from tests.testing.conftest import commit, stable_pair

SESSION_TIMEOUT_MS = 9_000
"""That of `stable_pair`."""


def opened(store: Path) -> StepApp:
    return asyncio.run(prepared(Namespace(store=store, group=None, at=None, language=Language.ENGLISH)))


@pytest.mark.quick("[0]")
@pytest.mark.parametrize("seed", range(4))
def test_session_clocks_equal_what_was_sent_and_the_next_deadline(seed: int, tmp_path: Path) -> None:
    store, draw = tmp_path / "groups.db", random.Random(seed)
    expected: list[tuple[int, dict[str, int]]] = []
    with Emulator(topics={"orders": 2}, store=store, clock="manual") as kafka:
        first, second = stable_pair(kafka)
        last = dict.fromkeys((first.member_id, second.member_id), kafka.now_ms())
        for _ in range(40):
            kafka.advance(draw.uniform(0.1, 1.5))
            for member in draw.sample((first, second), draw.randint(1, 2)):
                is_late = kafka.now_ms() - last[member.member_id] > 5_000
                if is_late or draw.random() < 0.7:
                    assert member.heartbeat() == 0
                    last[member.member_id] = kafka.now_ms()
            late = [each for each in (first, second) if kafka.now_ms() - last[each.member_id] > 5_000]
            for member in late:
                assert member.heartbeat() == 0
                last[member.member_id] = kafka.now_ms()
            if draw.random() < 0.4:
                commit(first, {0: 1})
                last[first.member_id] = kafka.now_ms()
                expected.append((kafka.now_ms(), dict(last)))
        kafka.advance(0.5)
        commit(first, {0: 2})
        last[first.member_id] = kafka.now_ms()
        expected.append((kafka.now_ms(), dict(last)))
        passed = kafka.advance_to_next_deadline()
    app = opened(store)
    shown = {}
    for index, moment in enumerate(app.group.timeline.moments):
        if moment.type == "offsets-committed":
            app.group.index = index
            shown[moment.at_ms] = app.group.shown().sessions
    assert len(expected) > 5
    for at_ms, seen in expected:
        assert not shown[at_ms].not_recorded
        for deadline in shown[at_ms].deadlines:
            late_ms = seen[deadline.member_id] + SESSION_TIMEOUT_MS - deadline.at_ms
            assert 0 <= late_ms <= deadline.uncertain_ms
    next_to_end = shown[expected[-1][0]].deadlines[0]
    assert (passed.kind, passed.member_id) == ("session", next_to_end.member_id)
    assert 0 <= passed.at_ms - next_to_end.at_ms <= next_to_end.uncertain_ms


def test_the_request_that_led_to_an_event_is_shown_with_its_response(tmp_path: Path) -> None:
    store = tmp_path / "groups.db"
    with Emulator(topics={"orders": 2}, store=store) as kafka:
        first, _ = stable_pair(kafka)
        commit(first, {0: 7})
        kafka.crash_client("second")
    app = opened(store)

    async def look() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("home")
            types = [each.type for each in app.group.timeline.moments]
            await pilot.press(
                "colon", *str(app.group.timeline.moments[types.index("offsets-committed")].position), "enter"
            )
            while len(app.screen_stack) > 1:
                await pilot.pause(0.01)
            text = "\n".join(text_of(app))
            assert "Exchange: OffsetCommit v7 of first, NONE after " in text
            assert "{partition_index=0 committed_offset=7}" in text
            await pilot.press("x")
            assert isinstance(app.screen, TextDialog)
            await pilot.press("escape")
            await pilot.press("end")
            assert "No request led to this event" in "\n".join(text_of(app))

    asyncio.run(look())
