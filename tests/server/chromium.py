"""Visits to the page by a real browser. Whatever it reports fails the test: an error, a refused resource, a
request to anywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.browsers import CHROMIUM

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
PATIENCE = 60_000  # milliseconds; a busy machine is slow, not wrong


class Visit:
    """One tab of a browser of its own."""

    def __init__(self, browser: Browser, address: str, options: dict[str, Any]) -> None:
        self.address = address
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.tab: Page = self.context.new_page()
        self.told: list[str] = []
        self.tab.on("pageerror", lambda error: self.told.append(f"error: {error}"))
        self.tab.on("console", self._heard)
        self.tab.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.told.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.told.append(f"asked {request.url}")

    def see(self, where: str, text: str | re.Pattern[str] | None = None) -> None:
        """Wait until it is there, with the text."""
        found = self.tab.locator(where)
        if text is None:
            found.first.wait_for()
        else:
            expect(found.filter(has_text=text).first).to_be_visible(timeout=PATIENCE)

    def gone(self, where: str) -> None:
        expect(self.tab.locator(where)).to_have_count(0, timeout=PATIENCE)

    def focus(self) -> str:
        """What the focused element is called."""
        return str(
            self.tab.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent.trim()")
        )

    def tab_to(self, *names: str) -> None:
        """By the Tab key, as far as it takes."""
        for _ in range(200):
            self.tab.keyboard.press("Tab")
            if any(self.focus() == name or self.focus().startswith(f"{name} · ") for name in names):
                return
        raise AssertionError(f"Tab never came to {names}")

    def darkness(self) -> bool:
        colour = self.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour[4:-1].split(",")[:3]) < 3 * 128

    def serious(self) -> list[str]:
        """What axe finds that keeps people out."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.tab).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:160]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@contextmanager
def visits(address: str) -> Iterator[Callable[..., Visit]]:
    """A function that opens the page at a place (#...), with options of the browser's context."""
    made: list[Visit] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))

        def visit(place: str = "", **options: Any) -> Visit:
            for old in made:
                old.context.close()
            told = [line for old in made for line in old.told]
            made.clear()
            assert told == []
            found = Visit(browser, address, {"viewport": {"width": 1200, "height": 900}, **options})
            made.append(found)
            found.tab.goto(f"{address}/{place}")
            found.tab.wait_for_selector("body[data-ready]")
            return found

        yield visit
        assert [line for old in made for line in old.told] == []
        browser.close()
