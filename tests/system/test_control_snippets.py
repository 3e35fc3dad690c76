"""The snippets of docs/faults.md for HTTP, each run by its own language against `kproxy run --control`."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kproxy.runs.demo import start_cluster
from tests.support.control import TOKEN, Controlled, controlled, environment
from tests.support.require import require

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"
URL = "http://127.0.0.1:8474"
SECONDS = 300
"""Longest time of a snippet; Go compiles its library on first use."""
RUNS = {
    "sh": ("sh", "curl", "lost.sh"),
    "java": ("java", "javac", "LostAnswer.java"),
    "go": ("go", "go", "lost.go"),
    "js": ("node", "node", "lost.mjs"),
}
"""The command of a snippet by its language, another tool that it needs, and its file's name."""
RULE = "api == Produce and topic == orders => drop response, nth 1"


def snippets() -> dict[str, str]:
    """The snippets of the document by language; each language occurs once."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(found) == len(dict(found))
    return dict(found)


def run(language: str, directory: Path, url: str, token: str) -> subprocess.CompletedProcess[str]:
    """Runs a snippet to its end, against the proxy at `url`."""
    command, tool, name = RUNS[language]
    require(command, tool)
    text = snippets()[language]
    assert URL in text
    (directory / name).write_text(text.replace(URL, url), encoding="utf-8")
    words = [command, "run", name] if language == "go" else [command, name]
    env = {**os.environ, "KPROXY_CONTROL_TOKEN": token, "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    return subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)


class Sending:
    """A client that sends one record after the other to orders, until the end of the `with` block."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "socket.timeout.ms": 1000,
                                   "enable.idempotence": True, "log_level": 0})  # fmt: skip
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        with closing(self._producer):
            while not self._end.wait(0.05):
                self._producer.produce("orders", b"one")
                self._producer.poll(0)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Controlled]:
    keeper, bootstrap = start_cluster()
    env = environment(tmp_path / "places", KPROXY_CONTROL_TOKEN=TOKEN)
    with controlled(bootstrap, env, token=TOKEN) as running:
        yield running
    del keeper


def test_the_document_has_a_snippet_for_each_language() -> None:
    assert set(snippets()) == set(RUNS)


@pytest.mark.parametrize("language", RUNS)
def test_a_snippet_makes_a_client_lose_an_answer(proxy: Controlled, tmp_path: Path, language: str) -> None:
    with Sending(proxy.bootstrap):
        done = run(language, tmp_path, proxy.url, TOKEN)
    assert done.returncode == 0, done.stderr
    assert re.search(r'"?hits"?: 1\b', done.stdout), done.stdout
    assert RULE in done.stdout
    assert proxy.call("GET", "/rules")[1] == {"rules": []}


@pytest.mark.parametrize("language", RUNS)
def test_a_snippet_without_the_token_fails(proxy: Controlled, tmp_path: Path, language: str) -> None:
    done = run(language, tmp_path, proxy.url, "another-token-of-the-tests")
    assert done.returncode != 0
    assert "the token is missing or wrong" in done.stdout + done.stderr
