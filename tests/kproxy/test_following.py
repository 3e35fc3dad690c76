"""Leaving on a signal, as a terminal UI is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kproxy.runs.following import leaving_on


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
