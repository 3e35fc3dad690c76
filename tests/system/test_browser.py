"""`kproxy web` in browsers: keys and the mouse work at once, copying too, and nothing is loaded from other hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.test_web import CAPTURE, PATIENCE, serving
from tests.support.browsers import Page, chromium, firefox, picture

WATCHED = """
(() => {
    const write = navigator.clipboard.writeText.bind(navigator.clipboard);
    navigator.clipboard.writeText = (text) => write(text).then(() => { window.copied = text; });
})()
"""
"""Makes the page remember what the browser took into its clipboard."""

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 (the browser tells nothing)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("browser", [chromium, firefox])
async def test_keys_and_mouse_work_at_once(
    browser: Callable[[Path], AbstractAsyncContextManager[Page]], tmp_path: Path
) -> None:
    async with serving(tmp_path, str(CAPTURE)) as served, browser(tmp_path) as page:
        await page.open(str(served.url))
        await until(lambda: page.value("document.body.classList.contains('-first-byte')"))
        assert await page.value("document.title") == f"kproxy {CAPTURE.name}"
        assert await page.value("document.activeElement.className") == "xterm-helper-textarea"
        began = await picture(page)
        await page.press("2")
        stats = await picture(page)
        assert stats != began
        await page.press("1")
        assert await picture(page) == began
        await page.click(300, 105)
        assert await picture(page) != began
        # Firefox reports the parts that the page has in itself as well
        asked = [urlsplit(address) for address in page.asked if not address.startswith("data:")]
        assert {address.netloc for address in asked} == {f"127.0.0.1:{served.bare.port}"}
        assert "token" not in await page.value("location.href")
        # the list has the focus: its line is copied
        await page.value(WATCHED)
        await page.press("y")
        await until(lambda: page.value("window.copied || ''"))
        assert "06:11:10." in await page.value("window.copied")
        # the page of a tab that has ended
        await page.press("q")
        await until(lambda: page.value("document.body.classList.contains('-closed')"))
        assert "has ended in this tab" in await page.value("document.querySelector('#ended').innerText")
