"""Warnings for the user: each is shown once, repetitions are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]

MOST_TOPICS = 1000
FORGOTTEN_SECONDS = 3600.0
"""Seconds after which the topics of shown warnings are forgotten; until then at most MOST_TOPICS topics are shown."""


class Warnings:
    """The warnings of one relay; `tell` receives an event for each that is shown. `clock` gives seconds."""

    def __init__(self, tell: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._tell = tell
        self._clock = clock
        self._since = clock()
        self.times: dict[str, int] = {}
        """By topic, how often there was a warning."""

    def warn(self, topic: str, text: str, details: str = "") -> None:
        """Shows a warning to the user, once for each topic, and logs the details; the status counts repetitions."""
        if topic not in self.times and len(self.times) >= MOST_TOPICS:
            now = self._clock()
            if now - self._since < FORGOTTEN_SECONDS:
                topic, text, details = (
                    "more",
                    f"more than {MOST_TOPICS} different warnings: further ones are not shown for now",
                    "",
                )
            else:
                self.times.clear()
                self._since = now
        times = self.times[topic] = self.times.get(topic, 0) + 1
        if times == 1:
            event = {"event": "warning", "topic": topic, "message": text}
            self._tell({**event, "details": details} if details else event)

    def forget(self, topic: str) -> None:
        """Makes the next warning of this topic be shown again."""
        self.times.pop(topic, None)
