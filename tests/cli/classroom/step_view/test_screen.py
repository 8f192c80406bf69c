"""The lines of the screen: their size, what they say, and names that would do harm."""

import pytest
from rich.cells import cell_len

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.incidents import incidents_of
from regroup.classroom.languages import Language
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import MemberNames
from regroup.cli.classroom.step_view.cells import fit, wrap
from regroup.cli.classroom.step_view.event import sentence
from regroup.cli.classroom.step_view.groups import SteppedGroup
from regroup.cli.classroom.step_view.screen import screen_lines
from regroup.cli.store.events_text import clock_time
from regroup.coordinator import events as e
from tests.classroom.histories import drawn_history, groups_of, scenario_history
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of
from tests.classroom.recorded.recordings import timeline as recorded_timeline

HOSTILE = [
    "[bold red]anna[/]",
    "\x1b[2Jben\x07",
    "carla\u202egnp.exe",
    "[@click=app.quit]dora[/]",
    "王小明" * 20,
    "e\nf\tg",
]
SIZES = [(80, 24), (60, 16), (20, 12), (100, 30), (200, 70)]


def lines_of(timeline: GroupTimeline, index: int, width: int = 80, height: int = 24) -> list[str]:
    group = SteppedGroup(timeline)
    group.index = index
    return [line.plain for line in screen_lines(group.shown(), width, height)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("seed", [3, 11, 57])
def test_every_moment_fills_the_screen_and_nothing_more(seed: int, width: int, height: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        for index in range(0, len(timeline.moments), 7):
            lines = lines_of(timeline, index, width, height)
            assert len(lines) == height
            assert {cell_len(line) for line in lines} == {width}


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_hostile_names_are_shown_as_text(width: int, height: int) -> None:
    events = generation_of(*HOSTILE, assignments={HOSTILE[0]: assignment(*ORDERS)})
    group = "[red]group\x1b]0;title\x07"
    timeline = timeline_of(group, records_of([*events, e.MemberLeft(at_ms=5_000, member_id=HOSTILE[0])], group))
    for index in range(len(timeline.moments)):
        lines = lines_of(timeline, index, width, height)
        assert all(line.isprintable() for line in lines)
        assert {cell_len(line) for line in lines} == {width}
    if width >= 80:
        assert "[red]group\\x" in lines_of(timeline, 3, width, height)[0]
        last = lines_of(timeline, len(timeline.moments) - 1, width, height)
        assert any("[bold red]anna[/] left" in line for line in last)


def test_the_screen_says_what_runs_who_owns_what_and_what_was_not_recorded() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    waiting = next(
        index
        for index, each in enumerate(timeline.moments)
        if isinstance(each.event, e.MemberRejoined) and each.event.member_id.startswith("anna")
    )
    text = "\n".join(lines_of(timeline, waiting))
    for part in (
        "Stable → Preparing",
        "▶ PreparingRebalance",
        "join phase",
        "left ████████",
        "session clocks: not recorded",
        "carla      no JoinGroup yet orders 4-5",
        "orders 2-3  none, assigned ben",
        "4 without owner",
        "anna sent JoinGroup again: group is already rebalancing.",
        "cause: JoinGroup of anna came",
        "Not recorded: `regroup serve --record`",
    ):
        assert part in text


def test_who_believes_to_own_a_partition_beside_its_owner_is_named() -> None:
    timeline = recorded_timeline("zombie-commits-after-removal")
    removed = next(index for index, each in enumerate(timeline.moments) if isinstance(each.event, e.MemberRemoved))
    named = MemberNames(timeline.names_of_ids)[timeline.moments[removed].event.member_id]  # type: ignore[attr-defined]
    assert any(f"none, believed by {named}" in line for line in lines_of(timeline, removed))


@pytest.mark.parametrize("name", ["zombie-commits-after-removal", "lost-syncgroup-response"])
def test_every_request_that_went_wrong_stands_beside_one_event(name: str) -> None:
    timeline = recorded_timeline(name)
    incidents = incidents_of(timeline)
    assert incidents
    group = SteppedGroup(timeline)
    found = []
    for index, moment in enumerate(timeline.moments):
        after = group.shown().incidents_after(index)
        found += after
        if after:
            assert any(after[0].text[:40] in line for line in lines_of(timeline, index))
            assert all(each.at_ms >= moment.at_ms for each in after) or index == 0
            tall = "\n".join(lines_of(timeline, index, 120, 60))
            assert all(each.text[:60] in tall for each in after[:3])
    assert tuple(found) == incidents


def test_sentences_causes_and_what_follows_are_in_chinese() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    group = SteppedGroup(timeline, language=Language.CHINESE)
    group.index = next(
        index for index, each in enumerate(timeline.moments) if isinstance(each.event, e.RebalanceStarted)
    )
    lines = [line.plain for line in screen_lines(group.shown(), 80, 30)]
    assert {cell_len(line) for line in lines} == {80}
    screen = "\n".join(lines)
    assert "rebalance 开始" in screen
    assert "起因：收到 " in screen
    assert "到期后：join 阶段结束" in screen


def test_an_event_without_a_sentence_shows_its_fields() -> None:
    events = generation_of("anna", assignments={"anna": assignment(*ORDERS)})
    timeline = timeline_of("made", records_of([*events, commit(5_000, 7, "anna")]))
    assert any(" committed " in line and "orders-0 at 7" in line for line in lines_of(timeline, -1))


def test_a_long_list_is_a_window_around_the_members_that_the_event_names() -> None:
    names = [f"member-{number:03}" for number in range(200)]
    timeline = timeline_of("made", records_of(generation_of(*names, assignments={names[0]: assignment(*ORDERS)})))
    index = next(
        index
        for index, each in enumerate(timeline.moments)
        if isinstance(each.event, e.MemberSynced) and each.event.member_id == names[150]
    )
    lines = lines_of(timeline, index)
    assert any("▸ member-150" in line for line in lines)
    assert any("above, " in line and "below: ↑ ↓" in line for line in lines)


def test_text_is_cut_and_wrapped_by_columns() -> None:
    assert fit("王小明", 5) == "王小…"
    assert fit("王小明", 4) == "王… "
    assert fit("anna", 6) == "anna  "
    assert fit("anna", 0) == ""
    assert wrap("one two three", 7, 2) == ["one two", "three"]
    assert wrap("one two three four", 7, 2) == ["one two", "three…"]
    assert wrap("王" * 5, 4, 9) == ["王王", "王王", "王"]
    assert wrap("a\x1b[0mb", 80, 1) == ["a\\x1b[0mb"]
    assert wrap("", 10, 3) == []


@pytest.mark.parametrize("recorded", [False, True])
def test_nothing_of_the_screen_is_english_in_chinese_but_kafkas_own_words(recorded: bool) -> None:
    timeline = (
        recorded_timeline("zombie-commits-after-removal")
        if recorded
        else timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    )
    group = SteppedGroup(timeline, language=Language.CHINESE)
    for index in range(0, len(timeline.moments), 9):
        group.index = index
        text = "\n".join(line.plain for line in screen_lines(group.shown(), 150, 50))
        for english in (
            " of ",
            " the ",
            "State",
            "Clocks",
            "may follow",
            "without owner",
            "cause",
            "Exchange",
            " left ",
        ):
            assert english not in text, (index, english)


def test_a_commit_is_a_sentence_in_both_languages() -> None:
    timeline = timeline_of("made", records_of([*generation_of("anna", assignments={}), commit(5_000, 7, "anna")]))
    moment, names = timeline.moments[-1], MemberNames(timeline.names_of_ids)
    english, chinese = (sentence(moment, names, language) for language in Language)
    assert english == "anna committed orders-0 at 7."
    assert chinese == "anna 提交 offset：orders-0 到 7。"


def test_a_request_of_a_run_of_heartbeats_has_its_own_time() -> None:
    timeline = recorded_timeline("zombie-commits-after-removal")
    group = SteppedGroup(timeline)
    walk = group.walk(hides_commits=False)
    stop, number = None, None
    while (number := walk.next_message(0, number)) is not None:
        stop = walk.message(number)
        if stop.exchange.count > 1 and stop.at_ms > stop.exchange.at_ms:
            break
    assert stop is not None
    assert number is not None
    group.index, group.message = stop.moment_index, number
    (line,) = (each.plain for each in screen_lines(group.shown(), 120, 40) if each.plain.startswith(" → "))
    assert clock_time(stop.at_ms) in line
