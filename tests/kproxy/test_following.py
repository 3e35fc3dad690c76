"""Recordings that are followed, and leaving on a signal, as a terminal UI is left."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.runs.following import Flag, Follower, leaving_on


def test_a_signal_leaves_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGHUP)
    put_away = []

    def watch() -> None:
        with leaving_on(signal.SIGHUP):
            try:
                os.kill(os.getpid(), signal.SIGHUP)
                signal.pause()
            finally:
                put_away.append(True)

    with pytest.raises(SystemExit) as left:
        watch()
    assert left.value.code == 0
    assert put_away
    assert signal.getsignal(signal.SIGHUP) is before


STORM = """
import os, signal, threading
from kproxy.runs.following import Stopping
def storm():
    for _ in range(20000):
        os.kill(os.getpid(), signal.SIGTERM)
with Stopping() as stopping:
    sender = threading.Thread(target=storm)
    sender.start()
    while sender.is_alive():
        stopping.event.wait(0.000001)
assert stopping.event.is_set()
"""


def test_a_signal_may_come_at_any_moment_of_waiting() -> None:
    subprocess.run([sys.executable, "-c", STORM], check=True, timeout=60)


class Ended:
    """A relay that has ended and left a recording."""

    recording = Path(__file__).parents[1] / "data" / "captures" / "kafka-0.8.2.2.pcap"
    alive = False

    def stop(self) -> None: ...


def followed(least: str, *, as_json: bool = False) -> list[str]:
    out = io.StringIO()
    Follower(Ended(), out, as_json=as_json, least=least).run(Flag())
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("least", "number"), [("off", 0), ("error", 0), ("warn", 2), ("info", 2)])
def test_findings_are_printed_among_the_exchanges(least: str, number: int) -> None:
    lines = followed(least)
    found = [line for line in lines if line.startswith("FINDING opened WARN upgrade.cutoff")]
    assert len(found) == number
    assert [line for line in lines if not line.startswith("FINDING ")] == followed("off")


def test_findings_as_objects() -> None:
    lines = [json.loads(line) for line in followed("warn", as_json=True)]
    found = [line for line in lines if line["schema"] == "kproxy.finding/1"]
    assert [(one["rule"], one["state"]) for one in found] == [("upgrade.cutoff", "open")] * 2
    assert lines[-1]["schema"] == "kproxy.health/1"
