"""Key by key in a terminal of 80x24: a Produce to a real broker is held, edited and let go."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kproxy.runs.launcher import wait_until
from tests.support.brokers import cluster, free_ports
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY, environment, kproxy
from tests.support.require import require
from tests.support.tmux import PROMPT, Terminal

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EDITOR = """#!/bin/sh
sed -i 's/"value": "tea"/"value": "coffee"/' "$1"
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    require("tmux")
    editor = tmp_path / "editor.sh"
    editor.write_text(EDITOR)
    editor.chmod(0o700)
    ours = environment(tmp_path / "places")
    paths = {
        "PATH": f"{KPROXY.parent}:{ours['PATH']}", "PYTHONPATH": str(ROOT), "TZ": "UTC", "LC_ALL": "C.UTF-8",
        "EDITOR": str(editor),
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as sockets,
        Terminal(tmp_path, Path(sockets) / "tmux", {**ours, **paths}) as shell,
    ):
        shell.wait_for(PROMPT)
        try:
            yield shell
        finally:
            kproxy(tmp_path / "places", "stop", "--all")


def test_a_record_is_changed_on_its_way(terminal: Terminal) -> None:
    with cluster("4.4.0", 1) as running:
        (port,) = free_ports(1)
        asked = "--intercept 'api == Produce and topic == orders'"
        terminal.type(f"kproxy run --upstream {running.bootstrap} --listen 127.0.0.1:{port} {asked}")
        terminal.press("Enter")
        terminal.wait_for("No client has sent anything yet")
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0, "log_level": 0})
        failed: list[object] = []

        def produce() -> None:
            for value in ("tea", "milk", "sugar"):
                producer.produce("orders", value, on_delivery=lambda error, _: failed.append(error and error.name()))
                producer.flush(SECONDS)

        client = threading.Thread(target=produce)
        client.start()
        terminal.wait_for("held 1")
        terminal.press("i")
        terminal.wait_for("1 Produce v", "sent by itself in", "intercepts api == Produce")
        terminal.press("e")
        assert wait_until(lambda: failed == [None], SECONDS)
        terminal.wait_for("held 1", "2 Produce v")
        terminal.press("E")
        terminal.wait_for("Answer frame 2 with the error")
        terminal.type("invalid_record")
        terminal.press("Enter")
        assert wait_until(lambda: failed == [None, "INVALID_RECORD"], SECONDS)
        terminal.wait_for("held 1", "3 Produce v")
        terminal.press("a")
        client.join(SECONDS)
        assert failed == [None, "INVALID_RECORD", None]
        terminal.wait_for("No frame waits for a decision")
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "judge"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        messages = consumer.consume(2, SECONDS)
        consumer.close()
        assert [message.value() for message in messages] == [b"coffee", b"sugar"]
