"""`kproxy send` and `kproxy serve`: what is refused before anything is sent, and what is printed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY, environment

CAPTURE = Path(__file__).parents[1] / "data" / "findings" / "group.rebalance_cause.pcap.xz"
NOBODY = "127.0.0.1:1"


def run(*args: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["send", *map(str, args)], input=given)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a served recording; it must end in order."""
    arguments: list[str | Path] = [KPROXY, "serve", CAPTURE, "--listen", "127.0.0.1:0", "--speed", "max"]
    with subprocess.Popen(arguments, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("bootstrap.servers="), line
        yield line.removeprefix("bootstrap.servers=").strip()
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == Exit.OK
        assert "recorded answers were given" in server.stdout.read()


@pytest.mark.parametrize(
    ("arguments", "why", "code"),
    [
        ([NOBODY], "give an API", Exit.USAGE),
        ([NOBODY, "Metadata", "{}", "--from", CAPTURE], "give an API", Exit.USAGE),
        ([NOBODY, "Metadata", "{"], "the body is not valid JSON", Exit.USAGE),
        ([NOBODY, "Metadata", "@/nowhere/at/all"], "cannot read the body", Exit.INPUT),
        ([NOBODY, "Metadata", '{"topcs": null}', "--api-version", "9"], "no field topcs", Exit.USAGE),
        ([NOBODY, "Metadata", "5", "--api-version", "9"], "a body is a JSON object", Exit.USAGE),
        ([NOBODY, "Metadata", '{"topics": [{"name": 5.5}]}', "--api-version", "99"], "no version 99", Exit.CONNECT),
        ([NOBODY, "Metadata"], "refused the connection", Exit.CONNECT),
        ([NOBODY, "Metadata", "{}", "--api-version", "9"], "refused the connection", Exit.CONNECT),
        ([NOBODY, "Produce"], "Produce may change something at 127.0.0.1:1: give --yes", Exit.USAGE),
        ([NOBODY, "--from", CAPTURE], "may change something at 127.0.0.1:1: give --yes", Exit.USAGE),
        ([NOBODY, "--from", CAPTURE, "--yes"], "refused the connection", Exit.CONNECT),
        ([NOBODY, "Metdata"], "did you mean Metadata?", Exit.USAGE),
        ([NOBODY, "RequestHeader"], "is not an API", Exit.USAGE),
        (["here:port", "Metadata"], "no port: port", Exit.USAGE),
        ([NOBODY, "--from", CAPTURE, "--speed", "0"], "a number above 0, or max", Exit.USAGE),
        ([NOBODY, "Metadata", "--tls-out-ca", "x"], "--tls-out-ca needs --tls-out", Exit.USAGE),
    ],
)
def test_what_cannot_be_sent_is_said(arguments: list[Any], why: str, code: Exit) -> None:
    done = run(*arguments)
    assert why in done.stderr, done.stderr
    assert done.exit_code == code


def test_one_request_is_printed_with_its_answer(served: str) -> None:
    done = run(served, "findcoordinator", "-", "--api-version", "2", given='{"key": "growing", "keyType": 0}')
    assert done.exit_code == Exit.OK, done.stderr
    line = json.loads(done.stdout)
    assert line["request"]["body"] == {"key": "growing", "keyType": 0}
    assert line["response"]["body"]["nodeId"] == 1
    assert (line["status"], line["client_id"], line["api_version"]) == ("ok", "kproxy-send", 2)


def test_text_of_an_answer_controls_no_terminal() -> None:
    with hanging_up() as address:
        done = run(address, "FindCoordinator", json.dumps({"key": "\x9b31m\u202e"}), "--api-version", "2")
    assert json.loads(done.stdout)["request"]["body"]["key"] == "\x9b31m\u202e"
    assert "\\u009b31m\\u202e" in done.stdout


def test_a_request_without_an_answer_has_the_time_when_it_was_sent() -> None:
    begun = datetime.now(UTC)
    with hanging_up() as address:
        done = run(address, "FindCoordinator", "{}", "--api-version", "2")
    assert done.exit_code == Exit.CONNECT
    sent = datetime.fromisoformat(json.loads(done.stdout)["request"]["timestamp"])
    assert begun - timedelta(milliseconds=1) <= sent <= datetime.now(UTC)


@contextlib.contextmanager
def hanging_up() -> Iterator[str]:
    """The address of a broker that reads once, and closes the connection."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(SECONDS)


def test_the_version_is_the_highest_of_both(served: str) -> None:
    assert json.loads(run(served, "DescribeCluster", "{}").stdout)["api_version"] == 2


def test_answers_are_compared_with_the_recorded_ones(served: str) -> None:
    same = run(served, "--from", CAPTURE, "--expect", "--yes")
    assert same.exit_code == Exit.OK, same.stderr
    assert "70 of 70 answers are as recorded" in same.stderr
    lines = [json.loads(line) for line in same.stdout.splitlines()]
    assert [line["recorded"] for line in lines] == list(range(1, 71))
    assert not [line for line in lines if "differs" in line]
    alone = run(served, "--from", CAPTURE, "--exchange", "5", "--expect", "--yes")
    assert alone.exit_code == Exit.OK, alone.stderr
    chosen = run(served, "--from", CAPTURE, "-Y", "api == JoinGroup", "--yes", "--speed", "1000")
    assert {json.loads(line)["api"] for line in chosen.stdout.splitlines()} == {"JoinGroup"}


def test_a_different_answer_is_said_field_by_field(served: str, tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        KPROXY,
        "serve",
        CAPTURE,
        "-Y",
        "api != OffsetFetch",
        "--listen",
        "127.0.0.1:0",
        "--speed",
        "max",
    ]
    del served
    with subprocess.Popen(arguments, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("bootstrap.servers=").strip()
        done = run(address, "--from", CAPTURE, "--expect", "--yes")
        server.terminate()
        assert "OffsetFetch" in server.stdout.read()
    assert done.exit_code == Exit.CONDITION, done.stderr
    differing = [json.loads(line) for line in done.stdout.splitlines() if '"differs"' in line]
    assert {line["api"] for line in differing} == {"OffsetFetch"}
    assert {"path": "response.groups[0].errorCode", "recorded": 0, "now": -1} in differing[0]["differs"]


def test_nothing_to_serve(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000"))
    done = CliRunner().invoke(main, ["serve", str(empty)])
    assert (done.exit_code, "nothing to serve" in done.stderr) == (Exit.EMPTY, True)
