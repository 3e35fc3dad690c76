"""`kproxy run --intercept --headless`: frames as JSON lines, decisions on standard input, a script as the person."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kproxy.core.frames import request
from tests.kproxy.faults.test_live import cluster, exchanges, log, produced
from tests.kproxy.support import connect
from tests.support.brokers import free_ports
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY, environment

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]
__all__ = ["cluster"]


class Person:
    """Whoever reads the frames and decides."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def decide(self, number: Any, **decision: Any) -> None:
        self.say(json.dumps({"held": number, **decision}))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def intercepting(cluster: str, directory: Path, *options: str) -> Iterator[tuple[str, Person]]:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    arguments: list[str | Path] = [KPROXY, "run", "--upstream", cluster, "--listen", address, "--headless", *options]
    with subprocess.Popen(
        arguments, env=environment(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while (line := process.stderr.readline()) and not line.startswith("bootstrap.servers="):
            pass
        assert line
        try:
            yield line.removeprefix("bootstrap.servers=").strip(), Person(process)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) in {0, 130}
        finally:
            process.kill()


def test_a_record_is_changed_before_the_broker_sees_it(cluster: str, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    options = ["--intercept", "api == Produce and topic == edited", "-w", str(recording)]
    found: list[str | None] = []
    with intercepting(cluster, tmp_path, *options) as (bootstrap, person):
        client = threading.Thread(target=lambda: found.extend(produced(bootstrap, "edited", ["one", "two", "three"])))
        client.start()
        frame = person.next()
        assert (frame["schema"], frame["api"], frame["side"]) == ("kproxy.held/1", "Produce", "request")
        assert 0 < frame["left_ms"] <= 120_000
        batch = frame["body"]["topicData"][0]["partitionData"][0]["records"]["batches"][0]
        assert batch["records"][0]["value"] == "one"
        batch["records"][0]["value"] = "changed"
        person.decide(frame["held"], do="forward", body={**frame["body"], "acks": "all"})
        assert "not a valid int16" in person.next()["error"]
        person.say("{")
        assert "a decision is a line of JSON" in person.next()["error"]
        person.say("5")
        assert "an object with" in person.next()["error"]
        person.decide(frame["held"] + 1, do="drop")
        refused = person.next()
        assert (refused["schema"], refused["held"]) == ("kproxy.refused/1", frame["held"] + 1)
        person.decide(frame["held"], do="forward", body=frame["body"])
        person.decide(person.next()["held"], do="error", code="INVALID_RECORD")
        person.decide(person.next()["held"], do="forward")
        client.join(SECONDS)
        assert found == [None, "INVALID_RECORD", None]
    assert log(cluster, "edited") == ["changed", "three"]
    made = [one for one in exchanges(recording) if one["api"] == "Produce"]
    assert "intercept: topicData[0].partitionData[0].records" in made[0]["request"]["comments"][0]
    assert "intercept: error INVALID_RECORD" in made[1]["request"]["comments"][0]


def test_what_waits_goes_on_once_nobody_decides_any_more(cluster: str, tmp_path: Path) -> None:
    found: list[str | None] = []
    with intercepting(cluster, tmp_path, "--intercept", "api == Produce", "--no-record") as (bootstrap, person):
        client = threading.Thread(target=lambda: found.extend(produced(bootstrap, "left", ["a", "b"])))
        client.start()
        assert person.next()["api"] == "Produce"
        assert person.process.stdin is not None
        person.process.stdin.close()
        client.join(SECONDS)
        assert found == [None, None]


def test_a_response_is_dropped_and_the_client_asks_again(cluster: str, tmp_path: Path) -> None:
    found: list[str | None] = []
    options = ["--intercept-response", "api == Produce", "--no-record"]
    with intercepting(cluster, tmp_path, *options) as (bootstrap, person):
        settings = {"socket.timeout.ms": 1000, "message.timeout.ms": 30_000}
        client = threading.Thread(target=lambda: found.extend(produced(bootstrap, "lost", ["a"], **settings)))
        client.start()
        frame = person.next()
        assert frame["side"] == "response"
        person.decide(frame["held"], do="drop")
        person.decide(person.next()["held"], do="forward")
        client.join(SECONDS)
        assert found == [None]
    assert log(cluster, "lost") == ["a", "a"]


def test_a_wrong_expression_ends_the_command_before_it_listens(tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        KPROXY,
        "run",
        "--upstream",
        "127.0.0.1:1",
        "--headless",
        "--intercept",
        "api = Produce",
    ]
    done = subprocess.run(
        arguments, env=environment(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "^" in done.stderr


def test_text_of_a_held_frame_controls_no_terminal(cluster: str, tmp_path: Path) -> None:
    name = b"\xc2\x9b31m\xe2\x80\xae"
    asked = request(3, 1, 1, (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name)
    options = ["--intercept", "api == Metadata", "--no-record"]
    with intercepting(cluster, tmp_path, *options) as (bootstrap, person), connect(bootstrap) as client:
        client.sendall(asked)
        assert person.process.stdout is not None
        line = person.process.stdout.readline()
        assert json.loads(line)["body"]["topics"] == [{"name": name.decode()}]
        assert line.isascii()
        held = subprocess.run(
            [KPROXY, "faults", "held"], env=environment(tmp_path), capture_output=True, text=True, check=True
        )
        assert json.loads(held.stdout)["body"] == json.loads(line)["body"]
        assert held.stdout.isascii()
