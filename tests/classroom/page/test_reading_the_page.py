"""Who can read the page: hostile names, screen readers, small and large screens, Chinese, and no network."""

from asyncio import to_thread
from pathlib import Path

import pytest
from playwright.async_api import Page

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.fold.deadlines import INITIAL_JOIN_PHASE, WHAT_FOLLOWS
from regroup.classroom.languages import Language
from regroup.classroom.phrases.chinese import CHINESE
from regroup.classroom.phrases.known_texts import FOLLOWS, known_text
from regroup.classroom.phrases.phrase import in_language
from regroup.classroom.sentences import cause_phrase, moment_sentence
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import MemberNames
from regroup.coordinator.consumer_group import ConsumerGroupState
from tests.classroom.consumer_histories import GROUP_ID, RecordedGroup
from tests.classroom.histories import scenario_history
from tests.classroom.made_histories import generation_of, records_of
from tests.classroom.page.conftest import IN_BROWSER, OpenPage, WritePage, go_to, table_of

pytestmark = IN_BROWSER
PHONE = {"width": 390, "height": 844}
VIEWS = "123456"
HOSTILE = "<img src=x onerror=alert(1)></script><b>\u202egnp.x\x1b[31m"
MISSING_GLYPHS = """
(texts) => {
  const pen = new OffscreenCanvas(40, 40).getContext("2d", { willReadFrequently: true });
  pen.font = `24px ${FONT}`;
  const drawn = (text) => {
    pen.clearRect(0, 0, 40, 40);
    pen.fillText(text, 4, 30);
    return pen.getImageData(0, 0, 40, 40).data.join();
  };
  const missing = new Set(["\\u{10fffd}", "\\u{e123}", "\\u0378"].map(drawn));
  return [...new Set(texts.join(""))].filter((each) => each.trim() && missing.has(drawn(each)));
}
"""


@pytest.mark.slow
async def test_hostile_names_are_shown_as_text(open_page: OpenPage, write_page: WritePage) -> None:
    records = records_of(generation_of(HOSTILE, "ben", assignments={}))
    timeline = timeline_of("made", records)
    page = await open_page(write_page(timeline))
    for view in VIEWS:
        await page.keyboard.press(view)
        await go_to(page, timeline.last.position)
        assert await page.locator("img, b").count() == 0
    await page.keyboard.press("1")
    await go_to(page, timeline.last.position)
    name = (await table_of(page, "sequence"))[0][0]
    assert name.startswith("<img src=x onerror=alert(1)></script><b>\\u{202e}gnp.x\\u{1b}[31m")
    assert "\u202e" not in await page.evaluate("document.body.textContent")


def axe_source() -> str:
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    return (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


async def faults(page: Page) -> list[str]:
    """What axe-core finds serious or critical."""
    found = await page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 15
    return [
        f"{each['id']}: {node['html']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage, scheme: str
) -> None:
    page = await open_page(write_page(lesson, lesson), color_scheme=scheme)
    await page.evaluate(axe_source())
    for view in VIEWS:
        await page.keyboard.press(view)
        await go_to(page, lesson.moments[22].position)
        assert await faults(page) == []
    await page.keyboard.press("?")
    assert await faults(page) == []


@pytest.mark.slow
async def test_axe_finds_nothing_serious_in_the_first_view(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    await page.evaluate(axe_source())
    assert await faults(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_phone_needs_no_scrolling_to_the_side(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage, language: str
) -> None:
    page = await open_page(f"{write_page(lesson)}?language={language}", viewport=PHONE, has_touch=True)
    for view in VIEWS:
        await page.keyboard.press(view)
        assert await page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


@pytest.mark.slow
async def test_every_tab_can_be_seen_on_a_phone(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson), viewport={"width": 360, "height": 740})
    ends = await page.evaluate(
        "[...document.querySelectorAll('[role=tab]')].map((each) => each.getBoundingClientRect().right)"
    )
    assert len(ends) == 6
    assert max(ends) <= 360


@pytest.mark.slow
async def test_the_large_mode_and_the_theme_change_the_pictures(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson), color_scheme="light")
    before = await page.evaluate("[look.colors.back, look.size(10)]")
    await page.get_by_role("button", name="Dark or light").click()
    await page.keyboard.press("l")
    after = await page.evaluate("[look.colors.back, look.size(10)]")
    assert after[0] != before[0]
    assert after[1] > before[1]


@pytest.mark.slow
async def test_chinese_labels_and_names_have_glyphs(open_page: OpenPage, write_page: WritePage) -> None:
    """A font without a character draws the same box for each such character."""
    records = records_of(generation_of("消费者甲", "订单服务", assignments={}))
    page = await open_page(f"{write_page(timeline_of('made', records))}?language=zh")
    assert await page.evaluate("document.documentElement.lang") == "zh-Hans"
    texts = await page.evaluate("[...Object.values(WORDS.zh), ...stage.history.lanes.map((each) => each.name)]")
    assert any("消费者甲" in each for each in texts)
    texts += CHINESE.values()
    assert await page.evaluate(MISSING_GLYPHS, texts) == []
    assert await page.evaluate(MISSING_GLYPHS, ["\ue456"]) == ["\ue456"]


@pytest.mark.slow
async def test_the_page_says_each_moment_and_its_cause_in_its_language(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    names, file = MemberNames(lesson.names), write_page(lesson)
    for language in Language:
        page = await open_page(f"{file}?language={language.value}")
        said = await page.evaluate("stage.history.sentences.map((_, index) => stage.history.sentenceOf(index))")
        assert said == [moment_sentence(moment, names, language) for moment in lesson.moments]
        causes = await page.evaluate("stage.history.causeTexts")
        expected = [in_language(cause_phrase(moment.cause), language) for moment in lesson.moments if moment.cause]
        assert causes == expected
        follows = await page.evaluate("stage.history.deadlines.map((each) => each.follows)")
        english = (*WHAT_FOLLOWS.values(), INITIAL_JOIN_PHASE)
        known = {in_language(known_text(each, FOLLOWS), language) for each in english}
        assert follows
        assert set(follows) <= known


@pytest.mark.slow
async def test_a_group_of_the_consumer_protocol_has_its_states_epochs_and_revocations(
    open_page: OpenPage, write_page: WritePage
) -> None:
    group = RecordedGroup().one()
    for step in (lambda: group.join("m2"), lambda: group.beat("m1", 2)):
        group.advance(1_000)
        step()
    timeline = timeline_of(GROUP_ID, group.records())
    page = await open_page(f"{write_page(timeline)}#event-{timeline.last.position}")
    assert await page.evaluate("stage.history.stateMachine.states") == [*ConsumerGroupState, "Dead"]
    phases = await page.evaluate("['m1', 'm2'].map((each) => stage.history.phaseOf(each, stage.cursor.index))")
    assert phases == ["UNREVOKED_PARTITIONS · epoch 2", "UNRELEASED_PARTITIONS · epoch 3"]
    revoked = await page.evaluate(
        "stage.history.rows.filter((row) => row.spans.at(-1).isRevoked).map((row) => row.label)"
    )
    assert revoked == ["foo-3", "foo-4", "foo-5"]
    assert await page.locator(".facts").inner_text() == "State\nReconciling\nGroup epoch\n3\nLeader\nnone"
    for view in VIEWS:
        await page.keyboard.press(view)
    await page.keyboard.press("3")
    assert await page.locator(".states-host .node").count() == 5


@pytest.mark.slow
async def test_every_label_has_both_languages(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson))
    english, chinese = await page.evaluate("[Object.keys(WORDS.en), Object.keys(WORDS.zh)]")
    assert sorted(english) == sorted(chinese)


@pytest.mark.slow
async def test_the_file_opens_without_network(
    lesson: GroupTimeline, open_page: OpenPage, write_page: WritePage
) -> None:
    page = await open_page(write_page(lesson), offline=True)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    await page.reload()
    await page.wait_for_selector("html[data-ready=true]")
    assert [url.partition("#")[0] for url in requests] == [page.url.partition("#")[0]]
    assert await page.evaluate("stage.history.length") == len(lesson.moments)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "rebalance-storm",
        "kafkas-log-refuses-the-assignment",
        "coordinator-fails-over-mid-rebalance",
        "zombie-commits-after-removal",
    ],
)
@pytest.mark.slow
async def test_unusual_histories_are_shown_in_every_view(open_page: OpenPage, write_page: WritePage, name: str) -> None:
    records = await to_thread(scenario_history, name)
    timeline = timeline_of("lab", records)
    page = await open_page(write_page(timeline))
    for view in VIEWS:
        await page.keyboard.press(view)
        for moment in timeline.moments[:: max(1, len(timeline.moments) // 12)]:
            await go_to(page, moment.position)
