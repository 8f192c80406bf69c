"""The lessons in a real browser: taken by keyboard alone, in both languages, and readable by everyone."""

from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn")

from tests.classroom.lessons.files import small_text
from tests.classroom.page.conftest import CHROMIUM, IN_BROWSER, OpenPage, until
from tests.classroom.page.test_reading_the_page import MISSING_GLYPHS, PHONE, axe_source, faults
from tests.cli.classroom.served import ServedPage, served_page

pytestmark = IN_BROWSER
LESSON_READY = "document.documentElement.dataset.lesson === 'replay'"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    if not CHROMIUM:
        pytest.skip("there is no chromium on the PATH: apt-get install chromium fonts-noto-cjk")
    folder = tmp_path_factory.mktemp("lessons")
    own = folder / "own.yaml"
    own.write_text(small_text(("title: {en: Small, zh: 小}", f"title: '{HOSTILE}'")), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        with served_page("lessons", "lesson", own, "--page") as lessons:
            yield lessons


def address(served: ServedPage, query: str) -> str:
    return f"{served.address.partition('?')[0]}?{query}"


async def focused(page: Page) -> str:
    found = await page.evaluate("document.activeElement.id || document.activeElement.className")
    assert isinstance(found, str)
    return found


async def tab_to(page: Page, selector: str, key: str = "Tab") -> None:
    """Press a key until the focus is on the element; a page has a few dozen places for it."""
    for _ in range(120):
        if await page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        await page.keyboard.press(key)
    pytest.fail(f"the keyboard does not reach {selector}; the focus is on {await focused(page)!r}")


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_whole_lesson_is_taken_by_keyboard(served: ServedPage, open_page: OpenPage, language: str) -> None:
    page = await open_page(address(served, f"language={language}"))
    await tab_to(page, ".lessons li:nth-child(9) a")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#question")
    assert await page.locator("canvas, .moments").count() == 0

    await tab_to(page, "input[name=answer]")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await until(page, LESSON_READY)
    assert await focused(page) == "verdict-box"
    await expect(page.locator("#question .verdict")).to_have_class("verdict good")

    moments = page.locator(".side .moment")
    assert await moments.count() == 4
    for index in range(4):
        await tab_to(page, f".side li:nth-child({index + 1}) .moment")
        await page.keyboard.press("Enter")
        present = page.locator(".side [aria-current=true]")
        assert await present.count() == 1
        assert await moments.nth(index).get_attribute("aria-current") == "true"
        since = await page.evaluate("sinceText(stage.cursor.at - stage.history.beganAt)")
        assert await present.locator(".when").text_content() == since
        place = await page.evaluate("Math.round(10_000 * stage.axis.unitOf(stage.cursor.at) / stage.axis.lastUnit)")
        assert await page.locator("input[type=range]").input_value() == str(place)

    for name, value in (("max-poll-interval", "10s"), ("session-timeout", "35s"), ("heartbeat-interval", "3s")):
        await tab_to(page, f"#lesson-{name}")
        await page.keyboard.type(value)
    await page.keyboard.press("Enter")
    await expect(page.locator(".result .verdict")).to_have_class("verdict bad")
    await expect(page.locator(".conditions li").first.locator(".mark")).to_have_class("mark bad")
    await tab_to(page, "#lesson-max-poll-interval", "Shift+Tab")
    await page.keyboard.press("Control+A")
    await page.keyboard.type("70s")
    await page.keyboard.press("Enter")
    await expect(page.locator(".result .verdict")).to_have_class("verdict good")

    await tab_to(page, ".home", "Shift+Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".lessons")
    assert await page.locator(".lessons li:nth-child(9) .mark.good").count() == 2


@pytest.mark.slow
async def test_the_other_language_keeps_the_answer_and_the_moment(served: ServedPage, open_page: OpenPage) -> None:
    page = await open_page(address(served, "lesson=1"))
    await page.get_by_label("Your answer").fill("6")
    await page.get_by_role("button", name="Answer", exact=True).click()
    await until(page, LESSON_READY)
    await page.locator(".side .moment").last.click()
    position = await page.evaluate("stage.history.positions[stage.cursor.index]")
    await page.get_by_text("中文").click()
    await page.wait_for_selector("html[lang=zh-Hans][data-lesson=replay]")
    await expect(page.locator("#question .verdict")).to_have_text("✗ 不对")
    assert await page.evaluate("stage.history.positions[stage.cursor.index]") == position
    await page.get_by_role("button", name="重新回答").click()
    await page.wait_for_selector("input[name=answer]:enabled")


@pytest.mark.slow
async def test_a_refusal_is_said_and_the_form_stays(served: ServedPage, open_page: OpenPage) -> None:
    page = await open_page(address(served, "lesson=own"))
    await page.get_by_role("button", name="Skip").click()
    await until(page, LESSON_READY)
    await page.get_by_role("button", name="Run it").click()
    await expect(page.locator("#task [role=status]")).to_have_text("Fill in every field.")
    await page.get_by_role("button", name="Show a solution").click()
    await expect(page.locator(".solution")).to_contain_text("timeout: 8s")
    await expect(page.locator("#question")).not_to_contain_text("Right")


@pytest.mark.slow
async def test_a_slip_is_answered_with_the_form_that_is_expected_and_no_error(
    served: ServedPage, open_page: OpenPage
) -> None:
    """`open_page` fails a test in which the console has an error, as it has for any answer of 400."""
    page = await open_page(address(served, "lesson=1"))
    answer = page.get_by_role("button", name="Answer", exact=True)
    for text in ("many", ""):
        await page.get_by_label("Your answer").fill(text)
        await answer.click()
        await expect(page.locator("#question [role=status]")).to_have_text("Please answer with a number.")
    await page.get_by_role("button", name="Skip").click()
    await until(page, LESSON_READY)
    await expect(page.locator("#question .verdict-box")).to_contain_text("anna is the only one")
    await page.locator("#lesson-partitions").fill("-3")
    await page.get_by_role("button", name="Run it").click()
    await expect(page.locator("#task [role=status]")).to_contain_text("a whole number")


@pytest.mark.slow
async def test_a_hostile_title_is_shown_as_text(served: ServedPage, open_page: OpenPage) -> None:
    page = await open_page(address(served, "lesson=own"))
    await expect(page.locator("h1")).to_have_text(HOSTILE)
    await page.goto(address(served, ""))
    await expect(page.locator(".lessons li").last).to_contain_text(HOSTILE)
    assert await page.locator("img").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_a_lesson(served: ServedPage, open_page: OpenPage, scheme: str) -> None:
    page = await open_page(address(served, ""), color_scheme=scheme)
    await page.evaluate(axe_source())
    assert await faults(page) == []
    for query in ("lesson=9", "lesson=8&language=zh", "lesson=1"):
        await page.goto(address(served, query))
        await page.wait_for_selector("#question")
        await page.evaluate(axe_source())
        assert await faults(page) == []
        await page.locator("#question .row button").last.click()
        await until(page, LESSON_READY)
        await page.locator("#task .row button").last.click()
        await page.wait_for_selector(".solution")
        assert await faults(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_lesson_needs_no_scrolling_to_the_side_on_a_phone(
    served: ServedPage, open_page: OpenPage, language: str
) -> None:
    page = await open_page(address(served, f"language={language}"), viewport=PHONE, has_touch=True)
    for number in (1, 5, 8, 9):
        await page.goto(address(served, f"lesson={number}&language={language}"))
        await page.wait_for_selector("#question")
        await page.locator("#question .row button").last.click()
        await until(page, LESSON_READY)
        assert await page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], number


@pytest.mark.slow
async def test_every_label_of_lessons_has_both_languages_and_its_glyphs(
    served: ServedPage, open_page: OpenPage
) -> None:
    page = await open_page(address(served, "language=zh"))
    english, chinese = await page.evaluate("[Object.keys(WORDS.en), Object.keys(WORDS.zh)]")
    assert sorted(english) == sorted(chinese)
    texts = await page.evaluate("Object.values(WORDS.zh)")
    assert await page.evaluate(MISSING_GLYPHS, texts) == []
