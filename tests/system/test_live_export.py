"""What is on the screen of a ring that is written is what an export of it holds, key by key in tmux."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.runs.demo import start_cluster
from tests.support.brokers import free_ports
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY, environment, kproxy
from tests.support.require import require
from tests.support.tmux import PROMPT, Terminal

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
STILL = 20
"""Looks at a screen that is the same each time, after which nothing more comes."""
VALUE = b"x" * 4000
"""A ring of 3 MB has room for some 700 of these."""
PAUSE = 0.008
"""Seconds between messages: a file of the ring is full after two seconds."""
SENT = 1300
"""Not so many that a file of the ring has just begun: it would be all that is left if readers are slow."""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    require("tmux")
    ours = environment(tmp_path / "places")
    paths = {"PATH": f"{KPROXY.parent}:{ours['PATH']}", "PYTHONPATH": str(ROOT), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    with (
        tempfile.TemporaryDirectory() as sockets,
        Terminal(tmp_path, Path(sockets) / "tmux", {**ours, **paths}) as shell,
    ):
        shell.wait_for(PROMPT)
        try:
            yield shell
        finally:
            kproxy(tmp_path / "places", "stop", "--all")


def exported(terminal: Terminal, path: Path, keys: str) -> list[dict[str, Any]]:
    """The exchanges of an export that these keys choose."""
    terminal.press("x")
    terminal.wait_for("The same as a command:")
    terminal.type(keys)
    terminal.press("Enter")
    terminal.wait_for(f"in {path.name};")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [one for one in found if one["schema"] == "kproxy.exchange/1"]


def test_a_ring_is_exported_while_it_turns(terminal: Terminal, tmp_path: Path) -> None:
    cluster, upstream = start_cluster()
    (port,) = free_ports(1)
    ring = "-w ring --ring 3x1MB --schemas . --view orders=hex"
    terminal.type(f"kproxy run --upstream {upstream} --listen 127.0.0.1:{port} {ring}")
    terminal.press("Enter")
    terminal.wait_for("No client has sent anything yet")
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0, "log_level": 0})
    for number in range(SENT):
        producer.produce("orders", VALUE, str(number))
        assert producer.flush(60) == 0
        if not number:
            terminal.wait_for("Produce")
        # slowly enough that the index keeps up on a busy machine
        time.sleep(PAUSE)
    terminal.wait_for("older overwritten")
    settle(terminal)

    # one exchange, which is found by its time, because the ring is counted again
    terminal.press("x")
    terminal.wait_for("The same as a command:", "--schemas=. --view=orders=hex")
    terminal.press("Escape")
    terminal.wait_for("List: enter Open")
    (one,) = exported(terminal, tmp_path / f"ring-{selected(terminal)[0]}.jsonl", "l")
    assert one["request"]["timestamp"][11:23] == selected(terminal)[1]
    assert one["api"] == "Produce"

    # what a filter shows
    terminal.type("f")
    terminal.type("api == Produce and latency >= 0ms")
    terminal.press("Enter")
    terminal.wait_for("ok index", "List: enter Open")
    shown = exported(terminal, tmp_path / "ring-shown.jsonl", "")
    count = re.search(r"([\d,]+) of [\d,]+", terminal.screen())
    assert count is not None
    assert len(shown) == int(count[1].replace(",", ""))
    assert {one["api"] for one in shown} == {"Produce"}
    terminal.type("Q")
    terminal.wait_for(PROMPT)
    del cluster


def settle(terminal: Terminal) -> None:
    """Wait until all that has passed is on the screen."""
    same, before = 0, ""
    while same < STILL:
        rows = re.sub(r"\d\d:\d\d:\d\d ", "", terminal.screen())
        same, before = same + 1 if rows == before else 0, rows
        time.sleep(0.1)


def selected(terminal: Terminal) -> tuple[str, str]:
    """Number and time of the last row of the list, once there is one."""
    deadline = time.monotonic() + SECONDS
    while not (rows := re.findall(r"(\d+) (\d\d:\d\d:\d\d\.\d{3}) ", terminal.screen())):
        assert time.monotonic() < deadline, f"the list is empty:\n{terminal.screen()}"
        time.sleep(0.05)
    found: tuple[str, str] = rows[-1]
    return found
