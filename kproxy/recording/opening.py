"""Opens the recording that the settings ask for: which sink, what goes into it, who writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kproxy.captures.definitions import definitions
from kproxy.captures.formats.pcapng_writer import LINKTYPE_RAW
from kproxy.core.selection import Choice
from kproxy.decoders.filters import parse
from kproxy.recording.compressing import Compressor
from kproxy.recording.recorder import BATCH_BYTES
from kproxy.recording.sinks import File, Ring, Sink, pcapng_header
from kproxy.runs import scratch
from kproxy.runs.settings import Settings, shown

SCRATCH_SEGMENTS = 16
BATCHES = 16
"""Batches that a segment of a ring has room for, at least."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a recorder is made of; `choice` is None where everything is recorded."""

    sink: Sink
    choice: Choice | None
    threaded: bool
    batch_bytes: int


def open_recording(settings: Settings, interface: str | None = None, link: int = LINKTYPE_RAW) -> Opened:
    """Opens it. Raises OSError, and CaptureError where a ring cannot go on from what is in its directory.

    `interface` is what is listened on, a relay's listener unless given.
    """
    listener = interface or shown(settings.listen_host, settings.listen_port)
    header = pcapng_header(listener, _comments(settings), link)
    if settings.record_to is not None and not settings.ring_files:
        return Opened(File(Path(settings.record_to), header), _choice(settings), threaded=True, batch_bytes=BATCH_BYTES)
    if settings.record_to is not None:
        directory, each, files = Path(settings.record_to), settings.ring_bytes, settings.ring_files
        compressor = Compressor() if settings.ring_zstd else None
    else:
        directory, files = Path(settings.scratch_dir or "."), SCRATCH_SEGMENTS
        # one more than is kept may be there: a segment that is deleted and still open in a reader
        each, compressor = settings.scratch // (files + 1), None
    return Opened(
        Ring(directory, header, each, files, seconds=settings.ring_seconds, closed=compressor),
        _choice(settings),
        threaded=scratch.SHARED_MEMORY not in directory.parents,
        batch_bytes=min(BATCH_BYTES, each // BATCHES),
    )


def _choice(settings: Settings) -> Choice | None:
    if settings.snap is None and not settings.record_filter:
        return None
    known = definitions(settings.release, settings.given)  # first: the filter may have names that are given
    return Choice(settings.snap, parse(settings.record_filter).expression, known)


def _comments(settings: Settings) -> list[str]:
    """What whoever opens a file should know before taking it for the whole truth."""
    comments = []
    if settings.snap is not None:
        comments.append(f"of each frame the first {settings.snap} bytes (--snap {settings.snap})")
    if settings.record_filter:
        comments.append(f"exchanges that match --record {settings.record_filter!r}; the others are left out")
    if settings.bpf:
        comments.append(f"packets that match {settings.bpf}")
    return comments
