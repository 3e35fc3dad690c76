"""Leaving on a signal, as a terminal UI is left."""

from __future__ import annotations

import os
import signal

import pytest

from kproxy.following import leaving_on


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
