"""The keys of `regroup step` in an emulated terminal of 80 columns and 24 rows."""

import asyncio
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input, Static

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.languages import Language
from regroup.classroom.recorded_values import Recorded
from regroup.classroom.wording import since_text
from regroup.cli.classroom.selection import parse_place
from regroup.cli.classroom.step import prepared
from regroup.cli.classroom.step_view.app import StepApp
from regroup.cli.classroom.step_view.dialogs import TextDialog
from regroup.cli.classroom.step_view.groups import SteppedGroup
from regroup.cli.store.history import groups_at
from regroup.coordinator import events as e
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of
from tests.cli.classroom.step_view.screens import lines_of_widget, text_of

SIZE = (80, 24)


async def app_of(store: Path, group: str | None = None, at: str | None = None) -> StepApp:
    return await prepared(
        Namespace(store=store, group=group, at=parse_place(at) if at else None, language=Language.ENGLISH)
    )


def made_app(*more: e.Event, names: tuple[str, ...] = ("anna", "ben"), groups: tuple[str, ...] = ("made",)) -> StepApp:
    events = [*generation_of(*names, assignments={names[0]: assignment(*ORDERS)}), *more]
    return StepApp([SteppedGroup(timeline_of(each, records_of(events, each))) for each in groups])


async def wait_until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await pilot.pause(0.01)


async def test_keys_move_through_the_events(lesson_store: Path) -> None:
    app = await app_of(lesson_store)
    async with app.run_test(size=SIZE) as pilot:
        timeline = app.group.timeline
        last = len(timeline.moments) - 1
        assert "event 1 of" in text_of(app)[0]
        for keys, index in (
            (["right"], 1),
            (["n", "l"], 3),
            (["left"], 2),
            (["p", "p", "p"], 0),
            (["end"], last),
            (["right"], last),
            (["home"], 0),
            (["pagedown"], 10),
            (["pageup"], 0),
        ):
            await pilot.press(*keys)
            assert app.group.index == index
            assert f"event {index + 1} of {last + 1}" in text_of(app)[0]
        await pilot.press("g")
        assert app.group.moment.position == timeline.rebalances[0].began.position
        await pilot.press("g", "g", "G")
        assert app.group.moment.position == timeline.rebalances[1].began.position
        await pilot.press("home", "d")
        assert app.group.moment.cause is not None
        assert app.group.moment.cause.deadline == "join-phase"
        await pilot.press("D")
        assert "no previous deadline that ran out" in text_of(app)[-1]
        await pilot.press("right")
        assert "no previous deadline" not in text_of(app)[-1]


@pytest.mark.slow
async def test_m_stops_at_requests_and_responses_between_events(recorded_lesson_store: Path) -> None:
    app = await app_of(recorded_lesson_store)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end")
        seen, clocks = [], set()
        while {each.is_response for each in seen} != {False, True} or len(clocks) < 4:
            await pilot.press("M")
            assert app.shown.stop is not None
            seen.append(app.shown.stop)
            clocks |= {found for line in text_of(app)[2:7] for found in re.findall(r"carla +([\d.]+) s left", line)}
        assert [each.at_ms for each in seen] == sorted((each.at_ms for each in seen), reverse=True)
        lines, stop = text_of(app), app.shown.stop
        assert since_text(stop.at_ms - app.group.timeline.began.at_ms) in lines[0]
        assert any(re.match(r"── (Request|Response) ──", line) for line in lines)
        assert any(f"{stop.exchange.api} of {stop.exchange.client_id}" in line for line in lines)
        index = app.group.index
        await pilot.press("left")
        assert (app.group.index, app.shown.stop) == (index, None), "back at the event before the message"
        await pilot.press("m", "m", "right")
        assert (app.group.index, app.shown.stop) == (index + 1, None)


async def test_m_says_where_nothing_was_recorded(lesson_store: Path) -> None:
    app = await app_of(lesson_store)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("m")
        assert "were not recorded" in text_of(app)[-1]
        assert app.group.index == 0


async def test_every_clock_can_be_scrolled_to_in_a_small_terminal() -> None:
    """In 24 rows there is room for five lines of clocks, and 7 members have a session each."""
    names = tuple(f"member-{number}" for number in range(7))
    timeline = timeline_of("made", records_of(generation_of(*names, assignments={names[0]: assignment(*ORDERS)})))
    app = StepApp([SteppedGroup(replace(timeline, recorded=Recorded(exchanges=True, processes=((1, 0),))))])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end")
        shown = set()
        for _ in range(len(names) + 3):
            shown |= {found for line in text_of(app)[2:7] for found in re.findall(r"(member-\d+) .* left", line[41:])}
            assert len(shown) == len(names) or "below: ↑ ↓" in text_of(app)[6]
            await pilot.press("down")
        assert shown == set(names)


@pytest.mark.slow
async def test_the_guide_shows_the_screen_as_it_is(recorded_lesson_store: Path) -> None:
    guide = (Path(__file__).parents[4] / "docs" / "classroom.md").read_text(encoding="utf-8")
    captured = guide.partition("$ regroup step slow.db --at 23\n")[2].partition("\n```")[0]
    app = await app_of(recorded_lesson_store, at="23")
    async with app.run_test(size=SIZE):
        assert captured.splitlines() == [line.rstrip() for line in text_of(app)]


async def test_the_shown_state_equals_a_replay(lesson_store: Path) -> None:
    app = await app_of(lesson_store)
    async with app.run_test(size=SIZE) as pilot:
        last = len(app.group.timeline.moments) - 1
        for _ in range(last + 1):
            moment = app.group.moment
            _, _, (group,), _ = await groups_at(Namespace(store=lesson_store, at=moment.position, group="lab"))
            text = "\n".join(text_of(app))
            assert f"▶ {group.state} " in text
            assert f"gen {group.generation_id}" in text
            assert re.search(rf"── {len(group.members)} members? ", text)
            for member in group.members.values():
                assert member.profile.client_id in text
                if member.awaiting:
                    assert f"{member.awaiting.capitalize()}Group held" in text
            if group.leader_id:
                assert f"★{group.members[group.leader_id].profile.client_id}" in text
            await pilot.press("right")
        assert app.group.index == last


@pytest.mark.slow
async def test_a_place_is_typed_and_a_bad_one_is_named(lesson_store: Path) -> None:
    app = await app_of(lesson_store)
    async with app.run_test(size=SIZE) as pilot:

        async def type_place(text: str) -> None:
            await pilot.press("colon", *text, "enter")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)

        async def paste_place(text: str) -> None:
            await pilot.press("colon")
            app.screen.query_one(Input).value = text
            await pilot.press("enter")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)

        await type_place("20")
        assert app.group.moment.position == 20
        for place, position in (("event-23", 23), ("#event-9", 9), ("22:14:10.026", 31), ("3", 3)):
            await paste_place(place)
            assert app.group.moment.position == position
        await type_place("soon")
        assert app.group.moment.position == 3
        assert "'soon' is no position" in text_of(app)[-1]
        await paste_place("5000")
        assert "the events of this group are at positions 3 to " in text_of(app)[-1]
        await pilot.press("slash", *"20")
        assert app.screen.query_one(Input).value == "20"
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        await pilot.press("home")
        await paste_place("30s")
        assert app.group.index > 0
        assert app.group.moment.at_ms <= app.group.timeline.began.at_ms + 30_000


@pytest.mark.slow
async def test_events_about_offsets_are_passed_over_and_come_back() -> None:
    app = made_app(commit(5_000, 1), commit(6_000, 2), e.MemberLeft(at_ms=7_000, member_id="ben"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end", "left")
        assert app.group.moment.type == "offsets-committed"
        await pilot.press("o")
        assert app.group.moment.type == "assignment-committed"
        assert "commits hidden" in text_of(app)[-2]
        await pilot.press("right")
        assert app.group.moment.type == "member-left"
        assert not any("offsets-committed" in line for line in text_of(app))
        await pilot.press("o", "left")
        assert app.group.moment.type == "offsets-committed"
        assert sum(" committed orders-" in line for line in text_of(app)) > 1


@pytest.mark.slow
async def test_it_plays_to_the_end_and_pauses() -> None:
    app = made_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*["plus"] * 9)
        assert "50 events a second" in text_of(app)[-1]
        await pilot.press("space")
        await wait_until(pilot, lambda: app.group.index == len(app.group.timeline.moments) - 1)
        await wait_until(pilot, lambda: "events/s" not in text_of(app)[-2])
        await pilot.press("space")
        assert "this is the last event" in text_of(app)[-1]
        await pilot.press("home", *["minus"] * 9, "space")
        assert "▶ 0.5 events/s" in text_of(app)[-2]
        await pilot.press("space")
        assert app.group.index == 0
        assert "events/s" not in text_of(app)[-2]


@pytest.mark.slow
async def test_tab_changes_the_group_at_the_same_position() -> None:
    app = made_app(groups=("first", "second"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("right", "right", "tab")
        assert text_of(app)[0].startswith(" second group 2 of 2")
        assert app.group.index == 2
        await pilot.press("shift+tab", "tab", "tab")
        assert text_of(app)[0].startswith(" first group 1 of 2")


async def test_the_event_the_help_and_what_is_missing_are_shown() -> None:
    app = made_app(names=("[bold red]anna[/]\x1b[2J", "ben"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("right", "e")
        assert isinstance(app.screen, TextDialog)
        shown = "\n".join(lines_of_widget(app.screen.query_one(Static)))
        assert '"type": "member-joined"' in shown
        assert "[bold red]anna[/]\\u001b[2J" in shown
        await pilot.press("e")
        assert len(app.screen_stack) == 1
        await pilot.press("question_mark")
        assert isinstance(app.screen, TextDialog)
        await pilot.press("escape", "x")
        assert "no recorded exchange led to this event" in text_of(app)[-1]
        await pilot.press("tab")
        assert "the store has no other group" in text_of(app)[-1]
        await pilot.press("q")
    assert app.return_code == 0


@pytest.mark.slow
async def test_a_resized_terminal_is_filled_again() -> None:
    app = made_app()
    async with app.run_test(size=SIZE) as pilot:
        for width, height in ((120, 40), (60, 16), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            lines = text_of(app)
            assert (len(lines), {len(line) for line in lines}) == (height, {width})
            assert "q quit" in lines[-1] or width < 80


@pytest.mark.slow
async def test_lists_scroll_by_hand() -> None:
    app = made_app(names=tuple(f"member-{number:03}" for number in range(100)))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end")
        assert any("member-000" in line for line in text_of(app)[:14])
        await pilot.press(*["down"] * 5)
        assert not any(" ★member-000" in line for line in text_of(app)[:14])
        await pilot.press(*["up"] * 9)
        assert any(" ★member-000" in line for line in text_of(app)[:14])


async def test_no_color_takes_the_colours_away_and_leaves_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = made_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end")
        assert app.no_color
        assert "▶ Stable" in "\n".join(text_of(app))
