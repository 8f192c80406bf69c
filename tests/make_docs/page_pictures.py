"""The pictures of the page in docs/classroom.md, taken in headless Chromium: `python -m tests.make_docs.page_pictures`.

`make docs` does not make them: their bytes depend on the browser and its fonts.
"""

import tempfile
from pathlib import Path
from shutil import which
from typing import Final, NamedTuple

from playwright.sync_api import Browser, sync_playwright

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.page.files import Run, html_file
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from tests.make_docs.blocks import ROOT

SIZE: Final = {"width": 1200, "height": 700}
MAX_BYTES: Final = 150_000


class PagePicture(NamedTuple):
    """One picture: the simulations on the page, the view, the event at which it stands, and the theme."""

    file: Path
    scenarios: tuple[str, ...]
    view: str
    position: int
    theme: str


PAGE_PICTURES: Final = (
    PagePicture(
        ROOT / "docs" / "pictures" / "page.png", ("slow-member-delays-the-rebalance",), "sequence", 24, "light"
    ),
    PagePicture(
        ROOT / "docs" / "pictures" / "page-compare.png", ("eager-pause", "cooperative-pause"), "compare", 27, "dark"
    ),
)


def write_page(picture: PagePicture, folder: Path) -> str:
    """Write the page of a picture, and return its address there."""
    page_file = folder / f"{picture.view}.html"
    runs = [Run(name, timeline_of("lab", play(scenario(name)).records)) for name in picture.scenarios]
    page_file.write_text(html_file(runs), encoding="utf-8")
    return f"{page_file.as_uri()}?view={picture.view}#event-{picture.position}"


def take(browser: Browser, picture: PagePicture, address: str) -> None:
    """Write one picture. Raises ValueError if it is too large for the repository."""
    page = browser.new_page(viewport=SIZE, color_scheme=picture.theme)
    page.goto(address)
    page.wait_for_selector("html[data-ready=true]")
    page.evaluate("new Promise((done) => setTimeout(done, 300))")
    page.screenshot(path=picture.file)
    page.close()
    if (size := picture.file.stat().st_size) > MAX_BYTES:
        raise ValueError(f"{picture.file} has {size} bytes, and at most {MAX_BYTES} are wanted")


def main() -> None:
    chromium = which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium on the PATH: apt-get install chromium fonts-noto-cjk")
    with tempfile.TemporaryDirectory() as folder:
        addresses = [write_page(picture, Path(folder)) for picture in PAGE_PICTURES]
        take_all(chromium, addresses)


def take_all(chromium: str, addresses: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for picture, address in zip(PAGE_PICTURES, addresses, strict=True):
            take(browser, picture, address)
            print(f"{picture.file.name}: {picture.file.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
