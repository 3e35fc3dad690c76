"""What the interface knows about a running proxy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A running relay or sniffer, as described by the command that started the interface."""

    bootstrap: str
    """The bootstrap.servers for clients ("127.0.0.1:19092"); if they need none, what is listened on."""
    upstream: str
    """The brokers behind it, as the user gave them ("kafka:9092"); empty if nothing is forwarded."""
    listening: tuple[str, ...] = field(default=())
    """Addresses listened on at the start; those for brokers that appear later are not included."""
    recording: Path | None = None
    """The file that `-w` named; None where only the scratch ring records."""
    ours: bool = True
    """Whether leaving may stop the proxy, and asks first."""
    notes: tuple[str, ...] = field(default=())
    """Warnings, shown in the list until traffic passes, and in Health ("kafka:9092 refuses connections")."""
    stopped: Callable[[], str] = field(default=str)
    """Returns why the recording has stopped ("No space left on device"), "" while it goes on."""
    since: float | None = None
    """Start time, in seconds since the epoch; None is now."""
    alive: Callable[[], bool] = field(default=lambda: True)
    """Returns whether the proxy still runs."""
    indexer_ended: Callable[[], int | None] = field(default=lambda: None)
    """Returns the indexer's exit code (a signal's number negated) once it has ended for good, None before."""
    taken: str = ""
    """For transparent mode and sniffers: which connections of clients are captured, in words."""
