"""Moments and marks of the pictures that lie outside of what the window first shows."""

from asyncio import to_thread

import pytest

from regroup.classroom.fold.build import timeline_of
from tests.classroom.histories import drawn_history
from tests.classroom.page.conftest import IN_BROWSER, OpenPage, WritePage, go_to, table_of, until
from tests.classroom.recorded.recordings import timeline

pytestmark = [*IN_BROWSER, pytest.mark.slow]

CURSOR_IS_SHOWN = """(({ axis, cursor }) => {
  const x = axis.x(cursor.at);
  return axis.width > 100 && x >= axis.origin && x <= axis.origin + axis.width;
})(stage)"""
MARKS_BELOW_ZOOM = """() => {
  const found = [], draw = drawIncident;
  drawIncident = (...given) => { found.push(given[2].api); draw(...given); };
  for (let times = 0; times < 4; times++) stage.zoom(1.6);
  const end = (done) => () => { drawIncident = draw; done(found); };
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(end(done))));
}"""
RED_FRAMES = """() => [...stage.history.views.values()].flat().filter(({ members }) => members.length > 1)
  .map(({ endedAt }) => endedAt)"""


async def test_the_moment_of_the_address_is_in_the_picture(open_page: OpenPage, write_page: WritePage) -> None:
    history = timeline_of("lab", await to_thread(drawn_history, 77, minutes=20))
    position = history.moments[-20].position
    page = await open_page(f"{write_page(history)}#event-{position}", viewport={"width": 1400, "height": 900})
    await until(page, "stage.axis.width > 100")
    assert await page.evaluate(f"stage.position === {position} && stage.axis.left > 0"), await page.evaluate(
        "[stage.position, stage.axis.left, stage.axis.end]"
    )
    assert await page.evaluate(CURSOR_IS_SHOWN)


async def test_requests_after_the_end_of_a_member_stay_when_the_picture_is_zoomed(
    open_page: OpenPage, write_page: WritePage
) -> None:
    shown = await to_thread(timeline, "partition-of-one-member")
    page = await open_page(write_page(shown))
    await until(page, "stage.axis.width > 100")
    learned = next(each.ended for each in shown.views if each.client_id == "ben" and each.ended)
    await go_to(page, next(each.position for each in shown.moments if each.position > learned.position))
    assert await page.evaluate(MARKS_BELOW_ZOOM)
    end = await page.evaluate("stage.history.lanes.find(({ name }) => name.startsWith('ben')).endedAt")
    assert await page.evaluate("stage.axis.visible()[0]") > end


async def test_red_frames_and_the_table_end_when_a_member_learns_better(
    open_page: OpenPage, write_page: WritePage
) -> None:
    shown = await to_thread(timeline, "partition-of-one-member")
    view = next(each for each in shown.views if each.client_id == "ben" and each.ended)
    assert view.ended is not None
    page = await open_page(write_page(shown))
    assert set(await page.evaluate(RED_FRAMES)) == {view.ended.at_ms}
    await go_to(page, view.ended.position)
    believed = {row[0]: row[3] for row in await table_of(page, "ownership")}
    assert [believed[f"{topic}-{index}"].count(",") for topic, index in view.partitions] == [1, 1]


async def test_requests_of_a_member_that_is_cut_off_are_marked_when_they_were_sent(
    open_page: OpenPage, write_page: WritePage
) -> None:
    """They arrived a minute later, all at once, when the link was there again."""
    shown = await to_thread(timeline, "partition-of-one-member")
    sent = sorted(each.sent_at_ms for each in shown.exchanges if each.sent_at_ms is not None)
    assert len(sent) > 5
    page = await open_page(write_page(shown))
    marked = "stage.history.exchanges.filter(({ fate }) => ['response lost', 'late'].includes(fate)).map(markedAt)"
    assert await page.evaluate(marked) == sent


@pytest.mark.parametrize(
    ("exchange", "marked_at"),
    [
        ({"at": 5, "arrivedAt": 5, "fate": "closed", "closedAt": 40, "answeredAt": None}, 40),
        ({"at": 5, "arrivedAt": 5, "fate": "response lost", "closedAt": None, "answeredAt": 30}, 30),
        ({"at": 5, "arrivedAt": None, "fate": "request lost", "closedAt": None, "answeredAt": None}, 5),
        ({"at": 5, "arrivedAt": 5, "fate": "answered", "closedAt": None, "answeredAt": 30}, 5),
    ],
)
async def test_an_answer_that_never_came_is_marked_where_it_was_lost(
    open_page: OpenPage, write_page: WritePage, exchange: dict[str, object], marked_at: int
) -> None:
    page = await open_page(write_page(await to_thread(timeline, "partition-of-one-member")))
    assert await page.evaluate("(exchange) => markedAt(exchange)", exchange) == marked_at


async def test_what_followed_is_told_from_times_since_the_begin(open_page: OpenPage, write_page: WritePage) -> None:
    shown = await to_thread(timeline, "partition-of-one-member")
    address = write_page(shown)
    page = await open_page(address)
    await until(page, "document.querySelector('.followed a') !== null")
    first = await page.locator(".followed a").first.inner_text()
    assert first.startswith("after ")
    assert first.endswith(" s")
    page = await open_page(f"{address}?language=zh")
    await until(page, "document.querySelector('.followed a') !== null")
    assert (await page.locator(".followed a").first.inner_text()).endswith(" s 后")


async def test_the_handle_stands_below_the_moment_of_the_strip(open_page: OpenPage, write_page: WritePage) -> None:
    shown = await to_thread(timeline, "partition-of-one-member")
    page = await open_page(write_page(shown))
    await until(page, "regroupPage.scrubber.strip.picture.axis.width > 100")
    for moment in shown.moments[3::17]:
        await go_to(page, moment.position)
        distance = await page.evaluate(
            """(() => {
              const { slider, strip } = regroupPage.scrubber, { left, width } = slider.getBoundingClientRect();
              const handle = left + 8 + (width - 16) * slider.value / slider.max;
              return handle - strip.canvas.getBoundingClientRect().left - strip.picture.axis.x(stage.cursor.at);
            })()"""
        )
        assert abs(distance) < 2
    await page.evaluate(
        "(() => { const { slider } = regroupPage.scrubber; slider.value = slider.max;"
        " slider.dispatchEvent(new Event('input')); })()"
    )
    assert await page.evaluate("stage.isAtEnd")
