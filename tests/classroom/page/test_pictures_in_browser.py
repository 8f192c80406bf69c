"""What the pictures show, against the events: colours of owners, text twins, and two histories side by side."""

import random
from asyncio import to_thread
from collections.abc import Sequence
from itertools import pairwise

import pytest
from playwright.async_api import Page

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.moment_view import MomentViews
from regroup.classroom.page.document import encoded_document
from regroup.classroom.page.totals import totals_of
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import partitions_text
from tests.classroom.histories import drawn_history, scenario_history
from tests.classroom.page.conftest import IN_BROWSER, OpenPage, WritePage, go_to, table_of
from tests.classroom.page.recount import owners_at
from tests.classroom.test_timeline import assigned_in, load_until

pytestmark = IN_BROWSER

OWNER_COLORS = ["#56b4e9", "#e69f00", "#33b58e", "#f0e442", "#dd92b9", "#e8824a", "#9daedb", "#bdbdbd"]
MOST_COMMON_COLOR = """
([label]) => {
  const { picture: surface } = regroupPage.views.ownership, ownership = surface.picture;
  const { history, axis, cursor } = stage;
  const index = history.rows.findIndex((row) => row.label === label);
  const top = look.size(20) + index * ownership.row - surface.host.scrollTop, ratio = window.devicePixelRatio;
  const left = Math.round(axis.x(cursor.at)) + 4;
  const height = (ownership.row - 8) * ratio, copy = new OffscreenCanvas(5 * ratio, height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(surface.canvas, left * ratio, (top + 4) * ratio, 5 * ratio, height, 0, 0, 5 * ratio, height);
  const { data } = pen.getImageData(0, 0, 5 * ratio, height);
  const counts = new Map();
  for (let place = 0; place < data.length; place += 4) {
    const color = "#" + [...data.slice(place, place + 3)].map((each) => each.toString(16).padStart(2, "0")).join("");
    if (data[place + 3] === 255) counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? "";
}
"""


def last_positions_of_times(timeline: GroupTimeline) -> Sequence[int]:
    """Positions of the last event of each time: earlier ones of the same time have no width."""
    pairs = pairwise(timeline.moments)
    return [before.position for before, after in pairs if before.at_ms != after.at_ms]


@pytest.mark.slow
async def test_colours_of_owners_equal_a_replay_and_a_recount(open_page: OpenPage, write_page: WritePage) -> None:
    """At fifty points drawn by a seed. A full colour is an owner's; hatching lies over what has none."""
    records = await to_thread(drawn_history, 35, minutes=5)
    timeline = timeline_of("lab", records)
    chance = random.Random(16)
    page = await open_page(write_page(timeline))
    await page.keyboard.press("2")
    numbers = {lane.member_id: number for number, lane in reversed(list(enumerate(timeline.lanes)))}
    seen_owned = seen_gap = 0
    for position in chance.choices(last_positions_of_times(timeline), k=50):
        spans = list(timeline.ownership_at(position))
        if not spans:
            continue
        span = chance.choice(spans)
        topic, index = span.partition.topic, span.partition.partition
        owners = owners_at(records, position).get((topic, index), set())
        group = (await to_thread(load_until, records, position))["lab"]
        assigned = {member for at, number, member in assigned_in(group) if (at, number) == (topic, index)}
        assert owners <= assigned
        await go_to(page, position)
        await page.evaluate("() => { stage.axis.zoom(1000); stage.axis.center(stage.cursor.at); stage.invalidate(); }")
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        color = await page.evaluate(MOST_COMMON_COLOR, [f"{topic}-{index}"])
        if owners:
            [owner] = owners
            assert color == OWNER_COLORS[numbers[owner] % 8], (position, span)
            seen_owned += 1
        else:
            assert color not in OWNER_COLORS, (position, span)
            seen_gap += 1
    assert seen_owned > 10
    assert seen_gap > 3


async def compare_twins(page: Page, timeline: GroupTimeline, position: int) -> None:
    """Compare the tables of a moment with the events. Members stand in the order of their lanes: one that a load brings
    back has a new lane, behind those that are there already."""
    await go_to(page, position)
    view = next(each for each in MomentViews(timeline) if each.moment.position == position)
    names = timeline.names
    members = sorted(view.members, key=lambda each: timeline.lanes.index(each.lane))
    rows = await table_of(page, "sequence")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (
            each.lane.name + " (Leader)" * each.is_leader,
            each.phase.value,
            partitions_text(each.owned).replace("nothing", ""),
        )
        for each in members
    ]
    assert [bool(row[2]) for row in rows] == [each.since is not None for each in members]
    assert await table_of(page, "ownership") == [
        [
            f"{span.partition.topic}-{span.partition.partition}",
            ", ".join(names[each] for each in span.owners) or "no owner",
            ", ".join(names[each] for each in span.assigned_to) or "none",
        ]
        for span in timeline.ownership_at(position)
    ]


@pytest.mark.slow
async def test_the_tables_say_what_the_events_say(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    for moment in lesson.moments[::6]:
        await compare_twins(page, lesson, moment.position)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 9, 31, 391])
async def test_the_tables_say_what_the_events_of_drawn_histories_say(
    open_page: OpenPage, write_page: WritePage, seed: int
) -> None:
    timeline = timeline_of("lab", await to_thread(drawn_history, seed, minutes=3))
    page = await open_page(write_page(timeline))
    for moment in timeline.moments[::5]:
        await compare_twins(page, timeline, moment.position)


@pytest.mark.slow
async def test_clocks_offsets_and_states_have_tables(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    for view in ("3", "4", "5"):
        await page.keyboard.press(view)
        for moment in lesson.moments[::5]:
            await go_to(page, moment.position)
            if view == "3":
                present = [row[0] for row in await table_of(page, "states") if row[1]]
                assert present == [moment.state]
                assert await page.locator(".node.present text").all_text_contents() == [moment.state]
            elif view == "4":
                rows = await table_of(page, "clocks")
                assert [(row[0], row[3]) for row in rows] == [(each.kind, each.follows) for each in moment.deadlines]
                assert await page.locator(".clocks .fill").count() == len(moment.deadlines)
            else:
                assert await table_of(page, "offsets") == []


@pytest.mark.slow
async def test_committed_offsets_equal_those_of_a_replay(open_page: OpenPage, write_page: WritePage) -> None:
    records = await to_thread(scenario_history, "zombie-commits-after-removal")
    timeline = timeline_of("lab", records)
    assert timeline.offsets
    page = await open_page(write_page(timeline))
    await page.keyboard.press("5")
    for moment in timeline.moments[::7]:
        await go_to(page, moment.position)
        group = (await to_thread(load_until, records, moment.position))["lab"]
        assert {row[0]: row[1].split(" ")[0] for row in await table_of(page, "offsets")} == {
            f"{topic}-{index}": str(value.offset)
            for topic, offsets in group.committed_offsets.items()
            for index, value in offsets.items()
        }


@pytest.mark.slow
async def test_two_histories_stand_beside_each_other_with_their_totals(
    open_page: OpenPage, write_page: WritePage
) -> None:
    timelines = [
        timeline_of("lab", await to_thread(scenario_history, name)) for name in ("eager-pause", "cooperative-pause")
    ]
    page = await open_page(write_page(*timelines))
    await page.keyboard.press("6")
    rows = {row[0]: row[1:] for row in await table_of(page, "compare")}
    eager, cooperative = map(totals_of, timelines)
    assert rows["Rebalances"][:2] == [str(eager.rebalances), str(cooperative.rebalances)]
    assert rows["Events"][:2] == [str(eager.events), str(cooperative.events)]
    assert rows["Partition time without an owner"][2].startswith("−")


@pytest.mark.slow
async def test_a_page_that_takes_in_changes_equals_one_that_was_opened_later(
    open_page: OpenPage, write_page: WritePage
) -> None:
    """The seam of a live page: a document up to some position, and then what has changed."""
    records = await to_thread(drawn_history, 9, minutes=3)
    timeline = timeline_of("lab", records)
    ended = [each.ended.position for each in timeline.states if each.ended]
    cut = ended[len(ended) // 2]
    early = timeline_of("lab", [each for each in records if each.position <= cut])
    page = await open_page(write_page(early))
    later = [json_of(timeline, after=cut), json_of(timeline, after=0)]
    grown, whole = await page.evaluate(
        """([rest, complete]) => {
          const names = ["positions", "times", "lanes", "held", "stateSpans", "generations", "rebalances", "rows",
            "offsets", "totals"];
          const shape = (history) => JSON.stringify(names.map((name) => history[name]));
          stage.extend(JSON.parse(rest));
          return [shape(stage.history), shape(new GroupHistory(JSON.parse(complete), ""))];
        }""",
        later,
    )
    assert grown == whole


def json_of(timeline: GroupTimeline, *, after: int) -> str:
    return encoded_document(timeline, after=after).decode()


DRAWN_AGAIN = """async () => {
  const frame = () => new Promise(requestAnimationFrame), { picture } = regroupPage.views.sequence.picture;
  const drawStill = picture.drawStill.bind(picture);
  let count = 0;
  picture.drawStill = (surface) => { count++; drawStill(surface); };
  stage.fit();
  for (let index = 0; index < stage.history.length; index++) { stage.goTo(index); await frame(); await frame(); }
  const inOneWindow = count;
  stage.zoom(1.6);
  await frame();
  await frame();
  return [inOneWindow, count - inOneWindow];
}"""
"""How often what the moment does not change is drawn on a way through the history, and when the window changes."""


@pytest.mark.slow
async def test_a_moment_draws_again_only_what_it_changes(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    in_one_window, in_another = await page.evaluate(DRAWN_AGAIN)
    assert in_one_window <= len(lesson.moments) // 10
    assert in_another == 1
