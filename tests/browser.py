"""Debian's Chromium, headless, for tests of pages; they are skipped where it or Playwright is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")


@contextmanager
def opened_page(*arguments: str, **options: Any) -> Iterator[Any]:
    """An empty page of a new browser. What it writes to its console as an error fails the test."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *arguments])
        try:
            page = browser.new_page(**options)
            errors: list[str] = []
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.errors = errors
            yield page
        finally:
            browser.close()
