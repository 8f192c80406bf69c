"""The scrubber, the keys and the address of the page, in a real browser."""

import re
from asyncio import to_thread

import pytest
from playwright.async_api import Page, expect

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e
from tests.classroom.histories import drawn_history, groups_of
from tests.classroom.page.conftest import IN_BROWSER, OpenPage, WritePage, go_to, until, until_requests_are_drawn

pytestmark = IN_BROWSER


async def position_of(page: Page) -> int:
    found = await page.evaluate("stage.history.positions[stage.cursor.index]")
    assert isinstance(found, int)
    return found


async def test_buttons_keys_and_the_address_move_the_present_moment(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    positions = [moment.position for moment in lesson.moments]
    page = await open_page(write_page(lesson) + f"#event-{positions[5]}")
    assert await position_of(page) == positions[5]
    await page.get_by_role("button", name="Step", exact=True).click()
    assert await position_of(page) == positions[6]
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    assert await position_of(page) == positions[4]
    await expect(page).to_have_url(re.compile(f"#event-{positions[4]}$"))
    await page.keyboard.press("End")
    assert await position_of(page) == positions[-1]
    await page.evaluate("(to) => { location.hash = to }", f"#event-{positions[20]}")
    await until(page, f"stage.history.positions[stage.cursor.index] === {positions[20]}")


@pytest.mark.slow
async def test_an_address_is_followed_although_the_moment_before_settles_first(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    position = lesson.moments[20].position
    page = await open_page(write_page(lesson))
    await page.evaluate("(to) => { location.hash = to; stage.settle(); }", f"#event-{position}")
    await until(page, f"stage.history.positions[stage.cursor.index] === {position}")


@pytest.mark.slow
async def test_an_address_of_another_group_is_not_shown_as_if_it_were_of_this_one(
    open_page: OpenPage, write_page: WritePage
) -> None:
    records = await to_thread(drawn_history, 11, minutes=3)
    one, *others = groups_of(records)
    shown = timeline_of(one, records)
    known = {moment.position for moment in shown.moments}
    positions = [each.position for each in records if each.group in others and each.position > shown.began.position]
    other = next(each for each in positions if each not in known)
    before = shown.moment_at(other)
    assert before is not None
    page = await open_page(f"{write_page(shown)}#event-{other}")
    said = page.locator(".address")
    await expect(said).to_have_text(f"#event-{other} is no event of this group. Shown is event-{before.position}.")
    await page.keyboard.press("ArrowRight")
    await expect(said).to_be_empty()
    await page.evaluate(f"location.hash = '#event-{other}'")
    await expect(said).to_contain_text("is no event of this group")


@pytest.mark.slow
async def test_the_next_rebalance_and_the_next_deadline(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    starts = [moment.position for moment in lesson.moments if isinstance(moment.event, e.RebalanceStarted)]
    for start in starts:
        await page.keyboard.press("r")
        assert await position_of(page) == start
    await page.keyboard.press("Shift+R")
    assert await position_of(page) == starts[-2]
    await page.keyboard.press("Home")
    ended = []
    for before, moment in zip((None, *lesson.moments), lesson.moments, strict=False):
        is_same = before is not None and (before.cause, before.at_ms) == (moment.cause, moment.at_ms)
        if moment.cause is not None and moment.cause.deadline and not is_same:
            ended.append(moment.position)
    assert len(ended) > 1
    for position in ended:
        await page.get_by_role("button", name="Next deadline").click()
        assert await position_of(page) == position


@pytest.mark.slow
async def test_playing_moves_on_until_it_is_paused(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    await page.keyboard.press("]")
    await page.keyboard.press("Space")
    await until(page, "stage.cursor.index > 3")
    await page.get_by_role("button", name="Pause").click()
    stopped = await position_of(page)
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert await position_of(page) == stopped


@pytest.mark.slow
async def test_a_click_on_a_held_request_shows_the_event_that_began_it(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    held = next(each for each in lesson.held_requests if each.ended and each.ended.at_ms - each.began.at_ms > 10_000)
    await until_requests_are_drawn(page)
    place = await page.evaluate(
        """(began) => {
          const { picture } = regroupPage.views.sequence, sequence = picture.picture;
          const span = stage.history.held.find((held) => held.began === began);
          const lane = sequence.lanes.findIndex((each) => each.member === span.member);
          const box = picture.canvas.getBoundingClientRect();
          return [box.left + stage.axis.x(span.beganAt) + 15, box.top + sequence.top(lane) + sequence.row / 2];
        }""",
        held.began.position,
    )
    await page.mouse.click(*place)
    assert await position_of(page) == held.began.position
    await expect(page.get_by_label("Event", exact=True)).to_contain_text(f'"position": {held.began.position}')


@pytest.mark.slow
async def test_everything_can_be_done_with_the_keyboard_alone(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    """Tab reaches every button, and what has the focus can be seen."""
    page = await open_page(write_page(lesson))
    reached = set()
    for _ in range(60):
        await page.keyboard.press("Tab")
        name, outline = await page.evaluate(
            "[document.activeElement.getAttribute('aria-label') || document.activeElement.textContent,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        if await page.evaluate("document.activeElement !== document.body"):
            assert outline != "none", name
        reached.add(name)
    names = await page.evaluate(
        "[...document.querySelectorAll('button')].filter((each) => each.checkVisibility() && each.tabIndex >= 0)"
        ".map((each) => each.getAttribute('aria-label') || each.textContent)"
    )
    assert len(names) > 15
    assert set(names) <= reached
    await page.get_by_role("tab", name="Sequence").focus()
    for view in ("Ownership", "State machine", "Clocks", "Offsets", "Compare", "Sequence"):
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.slow
async def test_what_is_read_out_is_the_present_moment(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    started = next(moment for moment in lesson.moments if isinstance(moment.event, e.GenerationStarted))
    await go_to(page, started.position)
    said = await page.get_by_role("status").text_content()
    assert said is not None
    assert "Generation 1 started with ben (leader), anna and carla" in said
    assert "no owner: orders 0-5" in said
