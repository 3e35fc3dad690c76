"""What the terminal interface is told about a running proxy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A running relay or sniffer, as told by the command that started it."""

    bootstrap: str
    """What a client puts into bootstrap.servers ("127.0.0.1:19092"); where it puts nothing, what is listened on."""
    upstream: str
    """The brokers behind it, as given ("kafka:9092"); empty where nothing is forwarded."""
    listening: tuple[str, ...] = field(default=())
    """Addresses listened on now; those of brokers that appear later are not among them."""
    recording: Path | None = None
    """The file that `-w` named; None where only the scratch ring records."""
    ours: bool = True
    """Whether leaving may stop the traffic; False asks nothing."""
    notes: tuple[str, ...] = field(default=())
    """Warnings to show while nothing has passed ("kafka:9092 refuses connections")."""
    stopped: Callable[[], str] = field(default=str)
    """Why the recording has stopped ("No space left on device"); empty while it goes on."""
    since: float | None = None
    """When it began, in seconds since the epoch; None is now."""
    alive: Callable[[], bool] = field(default=lambda: True)
    """Whether it is still there."""
    indexer_ended: Callable[[], int | None] = field(default=lambda: None)
    """Exit code of the indexer, minus its signal's number where a signal ended it; None while it works."""
    taken: str = ""
    """In transparent mode and of a sniffer, which connections of clients end up here."""
