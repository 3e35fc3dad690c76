"""`kproxy web` as a browser meets it: over HTTP and a websocket."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.web import server

DATA = Path(__file__).parents[1] / "data" / "captures"
CAPTURE = DATA / "kafka-4.4.0-librdkafka.pcap"
COMMAND = [sys.executable, "-P", "-c", "from kproxy.cli.main import main; main()", "web"]
PATIENCE = 60.0


class Served:
    """A `kproxy web` that runs, and the URLs that it told."""

    def __init__(self, process: asyncio.subprocess.Process, url: URL, shared: URL | None = None) -> None:
        self.process = process
        self.url = url
        self.shared = shared
        self.bare = url.with_query(None)
        self.origin = str(self.bare).rstrip("/")

    def children(self) -> list[psutil.Process]:
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found


@asynccontextmanager
async def serving(tmp_path: Path, *arguments: str) -> AsyncIterator[Served]:
    """A `kproxy web` whose files all lie in a directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "TEXTUAL"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    for name in ("CACHE", "STATE", "CONFIG", "RUNTIME"):
        environment[f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}"] = str(tmp_path)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, env=environment, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        told = range(1 + ("--share" in arguments))
        lines = [(await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode() for _ in told]
        yield Served(process, *(URL(line.rpartition(": ")[2].strip()) for line in lines))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path, str(CAPTURE)) as found:
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    """Cookies of addresses are kept as browsers do."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def painted(socket: aiohttp.ClientWebSocketResponse, wanted: str) -> str:
    """What was painted until something is there, without what moves the cursor and colours."""
    text = ""
    while wanted not in text:
        message = await asyncio.wait_for(socket.receive(), PATIENCE)
        assert message.type in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}, message
        if message.type is aiohttp.WSMsgType.BINARY:
            text += re.sub(r"\x1b\[[0-9;?<>]*[a-zA-Z]", "", message.data.decode())
    return text


async def test_with_the_token_the_list_is_painted_and_obeys_keys(
    served: Served, browser: aiohttp.ClientSession, tmp_path: Path
) -> None:
    assert served.url.host == "127.0.0.1"
    async with browser.get(served.url) as page:
        assert page.status == 200
        assert page.url.query_string == ""
        text = await page.text()
        assert served.url.query["token"] not in text
        assert "<title>kproxy kafka-4.4.0-librdkafka.pcap</title>" in text
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        assert page.headers["Referrer-Policy"] == "no-referrer"
    async with browser.get(served.bare / "static/js/textual.js") as script:
        assert script.status == 200
    async with browser.ws_connect(served.bare / "ws", origin=served.origin, params={"width": 120, "height": 40}) as ws:
        assert "rsp B" in await painted(ws, "ApiVersions")
        await ws.send_json(["stdin", "2"])
        assert "p99" in await painted(ws, "p99")
        children = served.children()
        assert children
        served.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(served.process.wait(), PATIENCE) == 0
    gone, alive = psutil.wait_procs(children, PATIENCE)
    assert gone
    assert not alive
    assert not os.listdir(tmp_path / "kproxy" / "spool")  # noqa: PTH208 (pathlib is refused in coroutines)


async def test_the_page_asks_nobody_else_and_repeats_no_host_header(
    served: Served, browser: aiohttp.ClientSession
) -> None:
    async with browser.get(served.url):
        pass
    cookie = browser.cookie_jar.filter_cookies(served.bare)
    sent = "; ".join(f"{name}={one.value}" for name, one in cookie.items())
    async with browser.get(served.bare, headers={"Host": "evil.example; script-src *", "Cookie": sent}) as page:
        text = await page.text()
        assert page.status == 200
        assert "evil" not in text + str(page.headers)
    assert "//" not in text.replace("${scheme}//", "").replace("// by", "").replace("// keys", "")
    asked = re.findall(r"""(?:href|src)="(/[^"]+)"|url\("([^"]+)"\)""", text)
    assert len(asked) == 4
    for address in map("".join, asked):
        async with browser.get(served.bare.with_path(address)) as answer:
            assert answer.status == 200, address


async def test_what_is_exported_and_copied_comes_to_the_browser(
    served: Served, browser: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with browser.get(served.url):
        pass
    async with browser.ws_connect(served.bare / "ws", origin=served.origin, params={"width": 120, "height": 40}) as ws:
        await painted(ws, "ApiVersions")  # a row, not only the names of columns
        await ws.send_json(["stdin", "y"])
        assert "\x1b]52;c;" in await painted(ws, "\x1b]52;c;")
        await ws.send_json(["stdin", "x"])
        await painted(ws, "The same as a command:")
        await ws.send_json(["stdin", "\r"])
        key = ""
        while not key:
            message = await asyncio.wait_for(ws.receive(), PATIENCE)
            if message.type is aiohttp.WSMsgType.TEXT and message.json()[0] == "deliver_file_start":
                key = message.json()[1]
        async with browser.get(served.bare / "download" / key) as file:
            assert file.status == 200
            got = await file.read()
    assert got == (tmp_path / "kafka-4.4.0-librdkafka-shown.jsonl").read_bytes()
    assert got.count(b"kproxy.exchange/1") == 176


async def test_who_has_the_shared_token_only_looks(tmp_path: Path, browser: aiohttp.ClientSession) -> None:
    capture = Path(shutil.copy(CAPTURE, tmp_path / "a.pcap"))
    before = sorted(os.listdir(tmp_path))  # noqa: PTH208 (pathlib is refused in coroutines)
    async with serving(tmp_path, str(capture), "--share") as served:
        assert served.shared is not None
        async with browser.get(served.shared) as page:
            assert page.status == 200
        async with browser.ws_connect(
            served.bare / "ws", origin=served.origin, params={"width": 120, "height": 40}
        ) as ws:
            await painted(ws, "ApiVersions")
            await ws.send_json(["stdin", "mjmx2"])
            assert "The same as a command" not in await painted(ws, "p99")
        kept = {"kproxy", *before}
        assert set(os.listdir(tmp_path)) <= kept  # noqa: PTH208
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as own:
            async with own.get(served.url):
                pass
            async with own.ws_connect(served.bare / "ws", origin=served.origin) as ws:
                await painted(ws, "ApiVersions")
                await ws.send_json(["stdin", "m"])
                async with asyncio.timeout(PATIENCE):
                    while not capture.with_name("a.pcap.notes.json").exists():  # noqa: ASYNC110 (a file tells nothing)
                        await asyncio.sleep(0.05)


async def test_so_many_tabs_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_TABS", 0)
    one = server.GuardedServer({"t": ["true"]}, "kproxy", 1)
    with pytest.raises(web.HTTPServiceUnavailable):
        await one.handle_websocket(make_mocked_request("GET", "/ws"))


async def test_what_paints_ends_with_who_served_it_however_that_ends(
    served: Served, browser: aiohttp.ClientSession
) -> None:
    async with browser.get(served.url):
        pass
    async with browser.ws_connect(served.bare / "ws", origin=served.origin, params={"width": 120, "height": 40}) as ws:
        await painted(ws, "rsp B")
        children = served.children()
        served.process.kill()
        await served.process.wait()
    gone, alive = psutil.wait_procs(children, PATIENCE)
    assert gone
    assert not alive


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", {}),
        ("/", {"token": "x"}),
        ("/", {"token": "ü"}),
        ("/static/js/textual.js", {}),
        ("/download/1", {}),
        ("/none", {}),
    ],
)
async def test_without_the_token_nothing_is_told(
    served: Served, browser: aiohttp.ClientSession, path: str, query: dict[str, str]
) -> None:
    async with browser.get(served.bare.with_path(path).with_query(query)) as answer:
        assert answer.status == 403
    assert not browser.cookie_jar.filter_cookies(served.bare)


async def test_the_websocket_asks_for_the_token_and_the_origin(served: Served, browser: aiohttp.ClientSession) -> None:
    async def refused(**headers: Any) -> int:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await browser.ws_connect(served.bare / "ws", **headers)
        return caught.value.status

    assert await refused(origin=served.origin) == 403
    async with browser.get(served.url):
        pass
    assert await refused(origin="http://evil.example") == 403
    assert await refused(origin=f"http://127.0.0.1:{(served.url.port or 0) + 1}") == 403
    assert await refused() == 403
    assert not served.children()


async def test_the_path_of_the_websocket_refuses_other_requests(served: Served, browser: aiohttp.ClientSession) -> None:
    async with browser.get(served.url):
        pass
    for headers in ({}, {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": served.origin}):
        async with browser.get(served.bare / "ws", headers=headers) as answer:
            assert answer.status == 400
            assert answer.headers["Referrer-Policy"] == "no-referrer"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said where the command does not begin: one line, or a filter with a mark under the place."""
    with pytest.raises(SystemExit) as ended:
        main(["web", *arguments])
    assert ended.value.code in {Exit.USAGE, Exit.INPUT}
    out, said = capsys.readouterr()
    assert not out
    assert len(said.splitlines()) in {1, 4}
    return said


def test_what_is_to_be_installed_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "pip install 'kafka-kproxy[web]'" in refusal(capsys, str(CAPTURE))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'CAPTURE...'"),
        (["-"], "standard input can be read only once"),
        (["none.pcap"], "none.pcap"),
        ([str(CAPTURE), "--", "-Y", "api ="], "expected an operator"),
        ([str(CAPTURE), "--", "--headless"], "--headless"),
        (["--attach", "nobody-there"], "nobody-there"),
    ],
)
def test_what_cannot_be_shown_is_told_before_a_browser_asks(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, *arguments)
