"""Chromium and Firefox without a window, each driven by its own protocol: the same `Page` for both."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp

from tests.support.require import require

SIZE: Final = (1100, 700)
PATIENCE: Final = 60.0
"""Seconds after which a browser that says nothing has failed."""


class Page(Protocol):
    """A tab of a browser."""

    asked: list[str]
    """Addresses that the page has asked for."""

    async def open(self, url: str) -> None: ...

    async def value(self, script: str) -> Any:
        """The value of a JavaScript expression."""

    async def shot(self) -> str:
        """The page as a picture, in base64."""

    async def press(self, key: str) -> None: ...

    async def click(self, x: int, y: int) -> None: ...


async def picture(page: Page) -> str:
    """The page as a picture once it is still."""
    before, now = "", "."
    while before != now:
        await asyncio.sleep(0.5)
        before, now = now, await page.shot()
    return now


class _Calls:
    """Calls methods over a WebSocket, and waits for the answer with the same number; `told` gets all that comes."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, told: Callable[[Mapping[str, Any]], None], **always: Any
    ) -> None:
        self._socket = socket
        self._told = told
        self._always = always
        self._numbers = itertools.count(1)

    async def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": {**self._always, **parameters}})
        while True:
            said = await asyncio.wait_for(self._socket.receive_json(), PATIENCE)
            self._told(said)
            if said.get("id") == number:
                assert "error" not in said, said
                found: dict[str, Any] = said["result"]
                return found


class _Chromium:
    """By the Chrome DevTools Protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._call = _Calls(socket, self._told)
        self.asked: list[str] = []

    def _told(self, said: Mapping[str, Any]) -> None:
        if said.get("method") == "Network.requestWillBeSent":
            self.asked.append(said["params"]["request"]["url"])

    async def open(self, url: str) -> None:
        await self._call("Network.enable")
        await self._call("Page.navigate", url=url)

    async def value(self, script: str) -> Any:
        return (await self._call("Runtime.evaluate", expression=script))["result"].get("value")

    async def shot(self) -> str:
        return str((await self._call("Page.captureScreenshot"))["data"])

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self._call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    async def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


class _Firefox:
    """By WebDriver BiDi."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._call = _Calls(socket, self._told)
        self.asked: list[str] = []
        self._tab = ""

    def _told(self, said: Mapping[str, Any]) -> None:
        if said.get("method") == "network.beforeRequestSent" and said["params"]["context"] == self._tab:
            self.asked.append(said["params"]["request"]["url"])

    async def open(self, url: str) -> None:
        await self._call("session.new", capabilities={})
        self._tab = (await self._call("browsingContext.getTree"))["contexts"][0]["context"]
        width, height = SIZE
        await self._call("browsingContext.setViewport", context=self._tab, viewport={"width": width, "height": height})
        await self._call("session.subscribe", events=["network.beforeRequestSent"])
        await self._call("browsingContext.navigate", context=self._tab, url=url, wait="none")

    async def value(self, script: str) -> Any:
        target = {"context": self._tab}
        text = await self._call(
            "script.evaluate", expression=f"JSON.stringify({script})", target=target, awaitPromise=False
        )
        return json.loads(text.get("result", {}).get("value", "null"))

    async def shot(self) -> str:
        return str((await self._call("browsingContext.captureScreenshot", context=self._tab))["data"])

    async def press(self, key: str) -> None:
        await self._act("key", {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})

    async def click(self, x: int, y: int) -> None:
        button = {"button": 0}
        await self._act(
            "pointer", {"type": "pointerMove", "x": x, "y": y}, {"type": "pointerDown", **button},
            {"type": "pointerUp", **button},
        )  # fmt: skip

    async def _act(self, kind: str, *actions: Mapping[str, Any]) -> None:
        source = {"type": kind, "id": kind, "actions": list(actions)}
        await self._call("input.performActions", context=self._tab, actions=[source])


@asynccontextmanager
async def chromium(directory: Path) -> AsyncIterator[Page]:
    """A tab of Chromium with its profile in `directory`."""
    width, height = SIZE
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += [f"--window-size={width},{height}", f"--user-data-dir={directory}", "about:blank"]
    async with _started(command, rb"ws://127\.0\.0\.1:(\d+)/") as (port, session):
        async with session.get(f"http://127.0.0.1:{port}/json/list") as listed:
            (tab,) = [one for one in await listed.json() if one["type"] == "page"]
        async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            yield _Chromium(socket)


@asynccontextmanager
async def firefox(directory: Path) -> AsyncIterator[Page]:
    """A tab of Firefox with its profile in `directory`, which must exist."""
    command = ["firefox-esr", "--headless", "--no-remote", "--profile", str(directory), "--remote-debugging-port=0"]
    async with (
        _started(command, rb"BiDi listening on ws://127\.0\.0\.1:(\d+)") as (port, session),
        session.ws_connect(f"ws://127.0.0.1:{port}/session", max_msg_size=0) as socket,
    ):
        yield _Firefox(socket)


@asynccontextmanager
async def _started(command: list[str], listening: bytes) -> AsyncIterator[tuple[int, aiohttp.ClientSession]]:
    """A browser and the port on which it can be driven, which it prints in a line like `listening`."""
    require(command[0])
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        port = None
        while port is None:
            line = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
            assert line, f"{command[0]} did not start"
            port = re.search(listening, line)
        async with aiohttp.ClientSession() as session:
            yield int(port[1]), session
    finally:
        process.kill()
        await process.wait()
