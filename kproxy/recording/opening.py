"""Opens the recording that the settings describe: its files, and the choice of what is recorded."""

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
"""Smallest number of batches that a ring segment must have room for."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The arguments for a `Recorder`; `choice` is None if everything is recorded."""

    sink: Sink
    choice: Choice | None
    threaded: bool
    batch_bytes: int


def open_recording(settings: Settings, interface: str | None = None, link: int = LINKTYPE_RAW) -> Opened:
    """Opens the recording's files. Raises OSError, and CaptureError if a ring's existing segments cannot be read.

    `interface` is the interface name written to the recording, by default the relay's listener; `link` is the LINKTYPE_
    number of its packets.
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
        # leaves room for one segment more: a deleted one that a reader still has open
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
    # must come before parsing: the filter may use names of a dialect
    known = definitions(settings.release, settings.user_definitions)
    return Choice(settings.snap, parse(settings.record_filter).expression, known)


def _comments(settings: Settings) -> list[str]:
    """Lines for the comment of the file's header: what the recording leaves out."""
    comments = []
    if settings.snap is not None:
        comments.append(f"the first {settings.snap} bytes of each frame (--snap {settings.snap})")
    if settings.record_filter:
        comments.append(f"exchanges that match --record {settings.record_filter!r}; the others are left out")
    if settings.bpf:
        comments.append(f"packets that match {settings.bpf}")
    return comments
