"""`kproxy replay`: shows a capture in the terminal interface, or without a terminal as one line for each exchange."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.exporting import exporter
from kproxy.cli.indexed import indexed, refuse_segments
from kproxy.cli.interface import guarded, painting, preferences
from kproxy.cli.opening import opener
from kproxy.cli.options.reading import Reading, captured, reading_options, revealing
from kproxy.cli.options.selecting import Criteria, Selection, selecting
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.terminal import can_paint, standard_output

if TYPE_CHECKING:
    from kproxy.captures.export import Lines
    from kproxy.captures.reader import Item, Reader
    from kproxy.decoders.exchange import Exchange, Health, StreamProblem
    from kproxy.decoders.knowledge import Knowledge
    from kproxy.runs.following import Flag


@click.command()
@captured
@click.option(
    "--headless", is_flag=True, help="Print one line per exchange, even on a terminal (exchange JSON: --json)."
)
@click.option("--follow", is_flag=True, help="Follow a growing capture until you leave (ctrl+c).")
@reading_options
@revealing
@selecting
@viewing
@painting
@guarded
def command(
    captures: tuple[Path, ...],
    headless: bool,
    follow: bool,
    reading: Reading,
    show_secrets: bool,
    criteria: Criteria,
    viewing: Viewing,
) -> None:
    """Look at captures in the terminal interface.

    A CAPTURE is a pcap or pcapng file, a directory of kproxy's recording segments, or - for standard input, compressed
    or not; several files are read as one, in the order of time. Without a terminal, with --headless, --json or -c,
    exchanges are printed as they complete, one line each. If a capture cannot be read to its end, everything before is
    shown and the exit code is 3.

    The index of a capture is kept in the cache directory (2 GB in all; the oldest are deleted first), and so is the
    unpacked form of a compressed capture (--spool-max): the capture then opens at once the next time.

    \b
    kproxy replay capture.pcap
    kproxy replay capture.pcap.zst --spool-dir /var/tmp
    kproxy replay growing.pcap --follow
    kproxy replay capture.pcap --headless -Y 'api == Fetch' -c 20
    ssh broker tcpdump -U -w - port 9092 | kproxy replay -
    """  # noqa: D301 (\b keeps click from joining the lines)
    refuse_segments(captures[0])
    lines = headless or settings.current().json or criteria.count is not None
    if lines or not can_paint(keys_from_stdin=str(captures[0]) != "-"):
        selection = criteria.selection()
        _print(captures, reading, selection, viewing, show_secrets=show_secrets, follow=follow)
        return
    follow = follow and str(captures[0]) != "-"  # standard input is followed anyway
    text = criteria.text
    arrived = Event()
    warnings: list[str] = []
    viewers = viewing.for_screen(warn=warnings.append, arrived=arrived.set)
    from kproxy.runs.following import leaving_on

    with (
        leaving_on(signal.SIGTERM, signal.SIGHUP),
        indexed(captures, reading, follow=follow) as index,
    ):
        from kproxy import tui

        if str(captures[0]) == "-":
            _keys_from_terminal()
        try:
            tui.run(
                index.directory,
                filter_text=text,
                release=reading.release,
                user_definitions=reading.user_definitions,
                show_secrets=show_secrets,
                viewers=viewers,
                arrived=arrived,
                preferences=preferences(),
                exporter=exporter(captures, reading, viewing),
                opener=opener(reading, viewing, warn=warnings.append),
            )
        finally:
            for warning in warnings:
                settings.warn(warning)
        index.raise_failure()


# --- without a terminal ----------------------------------------------------------------------------------------------


def _print(
    captures: tuple[Path, ...],
    reading: Reading,
    selection: Selection,
    viewing: Viewing,
    *,
    show_secrets: bool,
    follow: bool,
) -> None:
    from kproxy.captures.export.jsonl import JsonLines
    from kproxy.captures.export.oneline import OneLine
    from kproxy.decoders.view import View
    from kproxy.runs.following import Stopping

    as_json = settings.current().json
    view = View(show_secrets=show_secrets, payloads=viewing.payloads() if as_json else None)
    reader = reading.reader(captures, follow=follow)
    lines: Lines = JsonLines(reader, view) if as_json else OneLine(reader, view.knowledge)
    try:
        if follow:
            with Stopping() as stopping:
                _write(reader, _followed(reader, stopping.event), lines, selection, view.knowledge, health=as_json)
        else:
            _write(reader, reader.batches(), lines, selection, view.knowledge, health=as_json)
        readings.conclude(reader, selection, health=not as_json)
    finally:
        reader.close()


def _followed(reader: Reader, stopping: Flag) -> Iterator[list[Item]]:
    """The batches of a growing capture, until `stopping` is set."""
    from kproxy.runs.following import IDLE_SECONDS

    while not stopping.is_set() and not reader.finished:
        yield reader.poll()
        if reader.idle:
            stopping.wait(IDLE_SECONDS)
    yield reader.finish()


def _write(
    reader: Reader,
    batches: Iterable[list[Item]],
    lines: Lines,
    selection: Selection,
    knowledge: Knowledge,
    *,
    health: bool,
) -> None:
    """Writes the lines of the selected items, flushed after each batch so that a live stream appears at once."""
    out = standard_output()
    held: list[Exchange | StreamProblem | Health] = []
    for item in selection.of(_stepwise(batches), reader.source, reader.definitions, knowledge):
        if item is not None:
            held.append(item)
            continue
        out.write(lines.lines(held))
        out.flush()
        held.clear()
    out.write(lines.lines([*held, reader.health] if health else held))
    out.flush()


def _stepwise(batches: Iterable[list[Item]]) -> Iterator[Any]:
    """All items of a reading, with None after each batch."""
    for batch in batches:
        yield from batch
        yield None


# --- in the terminal -------------------------------------------------------------------------------------------------


def _keys_from_terminal() -> None:
    """Makes /dev/tty standard input, so that keys come from the terminal if the capture came from standard input."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise Failure(f"no terminal to read keys from ({error.strerror}): use --headless", Exit.USAGE) from None
    os.dup2(terminal, 0)
    os.close(terminal)
