"""Prints the events of another kproxy process on standard error while a command runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kproxy.cli import settings as cli
from kproxy.cli.exits import say
from kproxy.cli.options.addons import log_details
from kproxy.decoders.escaping import message

if TYPE_CHECKING:
    from kproxy.runs.launcher import Event

HINT_SECONDS = 15.0
"""Time without a client after which a hint says how to connect one."""


class Messages:
    """Prints the events of a relay or sniffer on standard error; holds them back while the terminal UI is open.

    `take` is called from a thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[str] | None = None
        self.warnings: list[str] = []
        self.stopped = ""
        """Why the recording has stopped; "" while it goes on."""
        self._hint: threading.Timer | None = None

    def take(self, event: Event) -> None:
        if event["event"] == "warning":
            self.warnings.append(event["message"])
            self.stopped = event.get("stopped", self.stopped)
            self.warn(_cluster(event) + event["message"])
            log_details(event)
        elif event["event"] == "broker":
            node = f"{'controller' if event['controller'] else 'broker'} {event['node']}"
            self._say(f"{_cluster(event)}{node} ({event['upstream']}) is served on {event['listener']}")
        elif event["event"] == "client":
            self._unhint()
            self._say(f"{_cluster(event)}first connection from {event['client']}")
        elif event["event"] == "metrics":
            self._say(f"metrics on {event['url']}")

    def warn(self, text: str) -> None:
        self._say(f"kproxy: warning: {text}")

    def _say(self, line: str) -> None:
        line = message(line)  # escaped, as it has hosts and names from the network
        with self._lock:
            if self._held is not None:
                self._held.append(line)
            elif not cli.current().quiet:
                say(line)

    def hint(self, text: str) -> None:
        """Print a hint if no client connects within HINT_SECONDS."""
        self._hint = threading.Timer(HINT_SECONDS, self._say, [text])
        self._hint.daemon = True
        self._hint.start()

    def _unhint(self) -> None:
        if self._hint is not None:
            self._hint.cancel()

    def hold(self) -> None:
        with self._lock:
            self._held = []

    def release(self) -> None:
        self._unhint()
        with self._lock:
            held, self._held = self._held or [], None
        for line in held:
            self._say(line)


def _cluster(event: Event) -> str:
    """The prefix "NAME: " with an event's cluster; "" if there is only one cluster."""
    return f"{event['cluster']}: " if "cluster" in event else ""
