"""The indexer's process with observers in it: python -m kproxy.addons.indexing [OPTIONS] CAPTURE... INDEX_DIR.

The process writes events as JSON lines to standard output, {"event": "warning", "message", "details"} and {"event":
"metrics", "url"}. If nobody reads the events, it drops them. The process ends when the relay has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
from argparse import Namespace
from pathlib import Path
from typing import Any

from kproxy.addons import loading, observing
from kproxy.addons.api import Observer
from kproxy.captures.index import indexer
from kproxy.captures.processes import name_process

RELAY_SECONDS = 0.2
"""Seconds between checks whether the relay still runs."""


def tell(event: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")


def warn(message: str, details: str = "") -> None:
    tell({"event": "warning", "topic": message, "message": message, "details": details})


def _observers(options: Namespace) -> list[Observer]:
    """Creates the built-in observers and those that `options` names; warns of observers that cannot be created."""
    found: list[Observer] = []
    try:
        if options.metrics:
            from kproxy.addons.metrics import Metrics

            host, _, port = options.metrics.rpartition(":")
            metrics = Metrics(None if options.run_dir is None else Path(options.run_dir))
            tell({"event": "metrics", "url": metrics.serve(host, int(port))})
            found.append(metrics)
    except OSError as error:
        warn(f"metrics: cannot listen on {options.metrics}: {error.strerror or error}")
    try:
        if options.otel_endpoint:
            from kproxy.addons.traces import Traces

            found.append(Traces(options.otel_endpoint, options.otel_sample, warn))
    except ImportError as error:
        warn(f"traces: {error}", traceback.format_exc())
    try:
        classes = loading.load(options.addon).observers
    except loading.LoadError as error:
        warn(str(error), traceback.format_exc())
        classes = ()
    return found + observing.made(classes, warn)


def _end_with(pid: int, stopping: threading.Event) -> None:
    while not stopping.wait(RELAY_SECONDS):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            stopping.set()
        except PermissionError:  # the relay has ended and another user's process has its PID
            stopping.set()


def main(arguments: list[str] | None = None) -> int:
    parser = indexer.parser("kproxy.addons.indexing", __doc__)
    parser.add_argument("--no-index", action="store_true", help="write no index, only feed the observers")
    parser.add_argument("--relay", type=int, metavar="PID", help="exit when the process with this id has ended")
    parser.add_argument("--run-dir", metavar="DIR", help="directory of the relay's control socket")
    parser.add_argument("--addon", action="append", default=[], metavar="ADDON", help="load observers from here")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics here")
    parser.add_argument("--otel-endpoint", metavar="URL", help="send a span per exchange to this URL (OTLP over HTTP)")
    parser.add_argument(
        "--otel-sample", type=float, default=1.0, metavar="SHARE", help="share of exchanges that get a span"
    )
    options = parser.parse_args(arguments)
    os.set_blocking(sys.stdout.fileno(), False)
    stopping = threading.Event()
    observers = observing.Observers(_observers(options), warn)
    if options.relay is not None:
        threading.Thread(target=_end_with, args=(options.relay, stopping), daemon=True).start()
    try:
        return indexer.serve(options, stopping, watch=observers, index=not options.no_index)
    finally:
        observers.close()


if __name__ == "__main__":
    name_process("indexer")
    sys.exit(main())
