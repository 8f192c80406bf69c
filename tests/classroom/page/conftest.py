"""Pages in a headless Chromium, whose console must stay empty, and the files that they open."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from shutil import which
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.page.files import Run, html_file
from regroup.classroom.timeline import GroupTimeline
from tests.classroom.histories import scenario_history

CHROMIUM = which("chromium")
IN_BROWSER = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("chromium")]
"""The marks of a file with tests in a browser: one browser for the file, and one file at a time."""
TIMEOUT_MS = 30_000
expect.set_options(timeout=TIMEOUT_MS)  # the default of a page does not hold for it
DESKTOP = {"width": 1440, "height": 900}

OpenPage: TypeAlias = Callable[..., Awaitable[Page]]
"""`await open_page(address, **settings)` opens an address in a context of its own."""


class Opened:
    """Opens pages, and collects what goes wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    async def __call__(self, address: str, **settings: Any) -> Page:
        context = await self._browser.new_context(**{"viewport": DESKTOP} | settings)
        self._contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        await page.goto(address)
        await page.wait_for_selector("html[data-ready=true]")
        return page

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the tests of a file, which are marked `IN_BROWSER`."""
    if not CHROMIUM:
        pytest.skip("there is no chromium on the PATH: apt-get install chromium fonts-noto-cjk")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser) -> AsyncIterator[OpenPage]:
    opened = Opened(browser)
    yield opened
    await opened.close()
    assert opened.errors == []


@pytest.fixture(scope="session")
def lesson() -> GroupTimeline:
    return timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))


@pytest.fixture
def write_page(tmp_path: Path) -> Callable[..., str]:
    """`write_page(timeline, …)` writes the page as one file, and returns its address."""

    def write(*timelines: GroupTimeline) -> str:
        file = tmp_path / "page.html"
        runs = [Run(f"run {number}", each) for number, each in enumerate(timelines, start=1)]
        file.write_text(html_file(runs), encoding="utf-8")
        return file.as_uri()

    return write


WritePage: TypeAlias = Callable[..., str]


async def go_to(page: Page, position: int) -> None:
    """Show the event at a position."""
    await page.evaluate("(position) => { stage.goToPosition(position); stage.settle(); }", position)
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def until(page: Page, condition: str) -> None:
    """Wait until a condition in the page holds. The page's policy forbids what `wait_for_function` does."""
    has_come = await page.evaluate(
        f"""new Promise((done) => {{
          const end = performance.now() + {TIMEOUT_MS};
          const look = () => {{
            if ({condition}) done(true);
            else if (performance.now() > end) done(false);
            else setTimeout(look, 10);
          }};
          look();
        }})"""
    )
    assert has_come, f"{condition} did not come true within {TIMEOUT_MS} ms"


async def table_of(page: Page, view: str) -> list[list[str]]:
    """The rows of the text twin of a picture."""
    rows = await page.evaluate(
        "(view) => [...regroupPage.views[view].twin.table.tBodies[0].rows]"
        ".map((row) => [...row.cells].map((each) => each.textContent))",
        view,
    )
    assert isinstance(rows, list)
    return rows


async def until_requests_are_drawn(page: Page) -> None:
    """Wait until the picture of the requests has its lanes: it is drawn in a frame after the page is open."""
    await until(page, "regroupPage.views.sequence.picture.picture.lanes !== undefined")
