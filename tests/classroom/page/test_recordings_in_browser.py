"""What was recorded beside the events, in a real browser: requests, sessions, and what members believed."""

from asyncio import to_thread

import pytest
from playwright.async_api import expect

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.page.recordings import session_spans
from regroup.protocol.consumer.subscription import TopicPartition
from tests.classroom.histories import scenario_history
from tests.classroom.page.conftest import IN_BROWSER, OpenPage, WritePage, go_to, table_of, until_requests_are_drawn
from tests.classroom.page.reading import running_sessions
from tests.classroom.recorded.recordings import timeline

pytestmark = IN_BROWSER
RED_PIXELS = """
() => {
  const { canvas } = regroupPage.views.ownership.picture, copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(stage.axis.origin, 0, canvas.width - stage.axis.origin, canvas.height);
  let count = 0;
  for (let place = 0; place < data.length; place += 4) {
    if (data[place] === 0xb3 && data[place + 1] === 0x26 && data[place + 2] === 0x1e) count++;
  }
  return count;
}
"""


@pytest.mark.slow
async def test_two_members_that_believe_to_own_a_partition_are_marked_red(
    open_page: OpenPage, write_page: WritePage
) -> None:
    zombie = await to_thread(timeline, "zombie-commits-after-removal")
    page = await open_page(write_page(zombie))
    await page.keyboard.press("2")
    believed = {}
    for moment in zombie.moments[::3]:
        await go_to(page, moment.position)
        expected: dict[str, set[str]] = {}
        for view in zombie.views_at(moment.position):
            for each in view.partitions:
                expected.setdefault(f"{each.topic}-{each.partition}", set()).add(zombie.names[view.member_id])
        rows = {row[0]: {*row[3].split(", ")} - {"none"} for row in await table_of(page, "ownership")}
        assert {label: members for label, members in rows.items() if members} == {
            label: members for label, members in expected.items() if label in rows
        }
        believed |= {label: members for label, members in rows.items() if len(members) > 1}
    assert set(believed) == {"orders-2", "orders-3"}
    assert await page.evaluate(RED_PIXELS) > 100
    await page.goto(write_page(await to_thread(timeline, "first-join")))
    await page.wait_for_selector("html[data-ready=true]")
    await page.keyboard.press("2")
    await go_to(page, 10)
    assert await page.evaluate(RED_PIXELS) == 0


@pytest.mark.slow
async def test_a_refused_request_shows_its_error_and_its_messages(open_page: OpenPage, write_page: WritePage) -> None:
    zombie = await to_thread(timeline, "zombie-commits-after-removal")
    refused = next(each for each in zombie.exchanges if each.is_refused and each.error == "UNKNOWN_MEMBER_ID")
    page = await open_page(write_page(zombie))
    await until_requests_are_drawn(page)
    place = await page.evaluate(
        """(at) => {
          const { picture } = regroupPage.views.sequence, sequence = picture.picture;
          const exchange = stage.history.exchanges.find((each) => each.at === at && each.isRefused);
          const lane = sequence.lanes.findIndex((each) => each.member === exchange.member);
          const box = picture.canvas.getBoundingClientRect();
          return [box.left + stage.axis.x(at), box.top + sequence.top(lane) + sequence.row / 2];
        }""",
        refused.at_ms,
    )
    await page.mouse.click(*place)
    await expect(page.locator(".exchange .wrong")).to_contain_text(f"{refused.api}: refused · UNKNOWN_MEMBER_ID")
    rows = await table_of(page, "sequence")
    assert rows
    shown = await page.evaluate(
        "[...regroupPage.requests.table.tBodies[0].rows].map((row) => row.cells[2].textContent)"
    )
    assert f"{refused.api}: refused · UNKNOWN_MEMBER_ID" in shown


@pytest.mark.slow
async def test_the_clocks_show_the_sessions_of_members(open_page: OpenPage, write_page: WritePage) -> None:
    shown = await to_thread(timeline, "partition-of-one-member")
    spans = session_spans(shown)
    assert spans is not None
    page = await open_page(write_page(shown))
    await page.keyboard.press("4")
    for moment in shown.moments[::5]:
        await go_to(page, moment.position)
        expected = {shown.names[member_id] for member_id in running_sessions(spans, moment)}
        rows = await table_of(page, "clocks")
        assert {row[1] for row in rows if row[0] in ("session", "new-member-join")} == expected


@pytest.mark.slow
async def test_lag_and_records_read_twice_are_those_of_the_recording(
    open_page: OpenPage, write_page: WritePage
) -> None:
    shown = await to_thread(timeline, "zombie-commits-after-removal")
    page = await open_page(write_page(shown))
    await page.keyboard.press("5")
    lags, twice = set(), set()
    for moment in shown.moments[::5]:
        await go_to(page, moment.position)
        for row in await table_of(page, "offsets"):
            topic, _, index = row[0].rpartition("-")
            partition = TopicPartition(topic, int(index))
            ends = [each.offset for each in shown.log_ends[partition] if each.at_ms <= moment.at_ms]
            steps = [each.offset for each in shown.offsets[partition] if each.began.position <= moment.position]
            reads = [
                each.record_count for each in shown.repeated_reads.get(partition, ()) if each.at_ms <= moment.at_ms
            ]
            lag = str(ends[-1] - (steps[-1] or 0)) if steps else ""
            assert row[3:] == [str(ends[-1]), lag, str(sum(reads))]
            lags.add(lag)
            twice.add(sum(reads))
    assert len(lags) > 3
    assert max(twice) > 0


@pytest.mark.slow
async def test_lag_that_was_not_recorded_is_said_to_be_so(open_page: OpenPage, write_page: WritePage) -> None:
    bare = timeline_of("lab", await to_thread(scenario_history, "zombie-commits-after-removal"))
    page = await open_page(write_page(bare))
    await page.keyboard.press("5")
    await go_to(page, bare.last.position)
    await expect(page.locator(".twin:visible")).to_contain_text("Log ends and lag: not recorded.")
    rows = await table_of(page, "offsets")
    assert rows
    assert {tuple(row[3:]) for row in rows} == {("Not recorded",) * 3}
