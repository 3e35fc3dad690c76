"""The interface's information about a running proxy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class HeldFrames(Protocol):
    """The frames that a relay holds until somebody decides (`kproxy.runs.intercepting.HeldFrames`)."""

    expression: str
    """The display filter that selects frames for interception; "" if none are intercepted."""

    @property
    def frames(self) -> Sequence[tuple[dict[str, Any], float]]:
        """Each frame in the form "kproxy.held/1", and the time.monotonic() at which it is sent without a decision."""

    def look(self) -> None:
        """Start a thread that asks the relay for held frames."""

    def decide(self, number: int, decision: dict[str, Any]) -> str:
        """Carry out a decision about a frame; returns why that failed, or ""."""

    def intercept(self, expression: str) -> str:
        """Intercept from now on the requests that match `expression`; returns why that failed, or ""."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A running relay or sniffer, as described by the command that started the interface."""

    bootstrap: str
    """The bootstrap.servers for clients ("127.0.0.1:19092"); for sniffers, the device that is captured."""
    upstream: str
    """The brokers behind the proxy, as the user gave them ("kafka:9092"); empty if nothing is forwarded."""
    listening: tuple[str, ...] = field(default=())
    """Addresses on which the relay listened at its start, without those for brokers that appeared later."""
    recording: Path | None = None
    """The file that `-w` named; None where only the scratch ring records."""
    ours: bool = True
    """Whether leaving the interface may stop the proxy; the user is asked first."""
    notes: tuple[str, ...] = field(default=())
    """Warnings, such as "kafka:9092 refuses connections": shown in Health and, until traffic passes, in the list."""
    welcome: str = ""
    """A text that is shown for some seconds when the interface starts."""
    stopped: Callable[[], str] = field(default=str)
    """Returns why the recording has stopped ("No space left on device"), "" while it goes on."""
    since: float | None = None
    """Start time, in seconds since the epoch; None is now."""
    alive: Callable[[], bool] = field(default=lambda: True)
    """Returns whether the proxy still runs."""
    indexer_ended: Callable[[], int | None] = field(default=lambda: None)
    """Returns the indexer's exit code (a signal's number negated) once it has ended for good, None before."""
    taken: str = ""
    """For transparent mode and sniffers: the connections that are captured, in words."""
    held: HeldFrames | None = None
    """The frames that the relay holds for a decision; None if this run cannot intercept frames."""
