"""Writes a line for every slow exchange: kproxy run --upstream kafka:9092 --addon docs/examples/slow.py"""

import os
import time
from pathlib import Path

from kproxy.addons import Observed, Observer

SECONDS = float(os.environ.get("SLOW_SECONDS", "0.5"))
FILE = Path(os.environ.get("SLOW_FILE", "slow.log"))


class Slow(Observer):
    def __init__(self) -> None:
        self.filter = f"latency >= {SECONDS:f}s"
        self._out = FILE.open("a", buffering=1)

    def exchange(self, observed: Observed) -> None:
        seconds = observed.seconds
        if seconds is None or observed.long_poll:
            return
        client = observed.exchange.client_id or observed.client
        self._out.write(f"{time.strftime('%H:%M:%S')} {client} {observed.api} {observed.about} took {seconds:.3f} s\n")

    def close(self) -> None:
        self._out.close()
