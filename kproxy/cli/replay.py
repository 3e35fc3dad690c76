"""`kproxy replay`: a capture in the terminal interface, or as one line an exchange where there is no terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from captures.errors import WARNING
from kproxy.cli import readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.exporting import exporter
from kproxy.cli.interface import painting, preferences
from kproxy.cli.options import (
    Selection,
    Viewing,
    captured,
    decrypting,
    defining,
    porting,
    releasing,
    revealing,
    selecting,
    spooling,
    viewing,
)
from kproxy.cli.terminal import can_paint, standard_output

if TYPE_CHECKING:
    from captures.export import Lines
    from captures.ports import Ports
    from captures.reader import Item, Reader
    from captures.spool import Spooling
    from decoders.exchange import Exchange, Health, StreamProblem
    from decoders.filters import Expression
    from decoders.knowledge import Knowledge
    from kproxy.following import Flag

FIRST_ROWS_SECONDS = 0.5
"""How long the screen waits for the first rows, so that an unreadable capture is told in a line and not on a screen."""


@click.command()
@captured
@click.option(
    "--headless", is_flag=True, help="Print one line an exchange, even on a terminal (exchange JSON: --json)."
)
@click.option("--follow", is_flag=True, help="The capture grows: show what is added until you leave (ctrl+c).")
@porting
@releasing
@defining
@decrypting
@revealing
@selecting
@spooling
@viewing
@painting
def command(
    captures: tuple[Path, ...],
    headless: bool,
    follow: bool,
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
    keylog: Path | None,
    show_secrets: bool,
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    spooling: Spooling,
    viewing: Viewing,
) -> None:
    """Look at captures in the terminal interface.

    A CAPTURE is a pcap or pcapng file, a directory of kproxy's recording segments, or - for standard input, compressed
    or not; several files are read as one, in the order of time. Without a terminal, with --headless, --json or -c,
    exchanges are printed as they complete, one line each. Where a capture cannot be read to its end, what could be read
    is shown first and the exit code is 3.

    The index that the terminal interface makes of a capture is kept in the cache directory (2 GB of them, the oldest go
    first), and so is what a compressed capture is unpacked to (--spool-max): opened again, both are there at once.

    \b
    kproxy replay capture.pcap
    kproxy replay capture.pcap.zst --spool-dir /var/tmp
    kproxy replay growing.pcap --follow
    kproxy replay capture.pcap --headless -Y 'api == Fetch' -c 20
    ssh broker tcpdump -U -w - port 9092 | kproxy replay -
    """  # noqa: D301 (\b keeps click from joining the lines)
    _refuse_segments(captures[0])
    lines = headless or settings.current().json or count is not None
    if lines or not can_paint(keys_from_stdin=str(captures[0]) != "-"):
        selection = Selection(expression, count, since, until)
        _print(
            captures,
            ports,
            release,
            given,
            keylog,
            selection,
            spooling,
            viewing,
            show_secrets=show_secrets,
            follow=follow,
        )
        return
    follow = follow and str(captures[0]) != "-"  # which is followed anyway
    text = _filter_text(expression, since, until)
    arrived = Event()
    warnings: list[str] = []
    viewers = viewing.for_screen(warn=warnings.append, arrived=arrived.set)
    from kproxy.following import leaving_on

    with (
        leaving_on(signal.SIGTERM, signal.SIGHUP),
        _indexed(captures, ports, release, given, keylog, spooling, follow=follow) as index,
    ):
        import tui

        if str(captures[0]) == "-":
            _keys_from_terminal()
        try:
            tui.run(
                index.directory,
                filter_text=text,
                release=release,
                given=given,
                show_secrets=show_secrets,
                viewers=viewers,
                arrived=arrived,
                preferences=preferences(),
                exporter=exporter(
                    captures,
                    ports=ports,
                    release=release,
                    given=given,
                    keylog=keylog,
                    spooling=spooling,
                    viewing=viewing,
                ),
            )
        finally:
            for warning in warnings:
                settings.warn(warning)
        index.raise_failure()


def _refuse_segments(path: Path) -> None:
    """Raise Failure (exit 2) where a log segment is given, which has no exchanges."""
    from captures.formats.magic import begins_as_capture

    if not path.is_file() or begins_as_capture(path):
        return
    from captures.segments import holds_segments
    from captures.source import open_source

    with closing(open_source(path)) as source:
        if holds_segments(source):
            raise Failure(f"{path}: is a log segment; `kproxy export` and `kproxy stats` read it", Exit.USAGE)


# --- without a terminal ----------------------------------------------------------------------------------------------


def _print(
    captures: tuple[Path, ...],
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
    keylog: Path | None,
    selection: Selection,
    spooling: Spooling,
    viewing: Viewing,
    *,
    show_secrets: bool,
    follow: bool,
) -> None:
    from captures.export.jsonl import JsonLines
    from captures.export.oneline import OneLine
    from captures.reader import read
    from decoders.view import View
    from kproxy.following import Stopping

    as_json = settings.current().json
    view = View(show_secrets=show_secrets, payloads=viewing.payloads() if as_json else None)
    reader = read(
        list(captures), ports=ports, release=release, given=given, keylog=keylog, follow=follow, spooling=spooling
    )
    lines: Lines = JsonLines(reader, view) if as_json else OneLine(reader, view.knowledge)
    try:
        if follow:
            with Stopping() as stopping:
                _write(reader, _followed(reader, stopping.event), lines, selection, view.knowledge, health=as_json)
        else:
            _write(reader, reader.batches(), lines, selection, view.knowledge, health=as_json)
        readings.say_nothing_found(reader, selection)
        readings.conclude(reader, selection, health=not as_json)
    finally:
        reader.close()


def _followed(reader: Reader, stopping: Flag) -> Iterator[list[Item]]:
    """The batches of a capture that grows, until `stopping` is set."""
    from kproxy.following import IDLE_SECONDS

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
    """Write the lines of what is selected; after each batch they leave, so that a live stream is seen as it passes."""
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
    """Everything of a reading, None after each batch."""
    for batch in batches:
        yield from batch
        yield None


# --- in the terminal -------------------------------------------------------------------------------------------------


def _filter_text(expression: Expression | None, since: int | None, until: int | None) -> str:
    """-Y, --since and --until as one filter, which the filter bar then shows."""
    parts = [] if expression is None else [str(expression)]
    for operator, moment in ((">=", since), ("<", until)):
        if moment is not None:
            second, rest = divmod(moment, 1_000_000_000)
            clock = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            parts.append(f'time {operator} "{clock}.{rest:09d}Z"')
    return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


class _Index:
    """An index that another process writes, or that is complete."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.directory = directory
        self._process = process

    @property
    def meta(self) -> dict[str, Any]:
        try:
            meta: dict[str, Any] = json.loads((self.directory / "meta.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return meta

    def wait_for_rows(self) -> None:
        """Wait a moment for what decides whether there is anything to show. Raises Failure where there is not."""
        deadline = time.monotonic() + FIRST_ROWS_SECONDS
        while time.monotonic() < deadline:
            meta = self.meta
            if meta.get("rows"):
                return
            if meta.get("state") == "failed":
                self.raise_failure()
            if meta.get("state") == "complete":
                return
            if self._process is not None and self._process.poll() is not None and not meta:
                raise Failure(self._said() or "the capture cannot be indexed")
            time.sleep(0.01)

    def raise_failure(self) -> None:
        """Raise Failure (exit code 3) where the capture could not be read to its end, or who indexed it has failed."""
        error = self.meta.get("error")
        if error:
            raise Failure(str(error["text"]), Exit.INPUT)
        if self._process is not None and self._process.poll() not in {None, 0}:
            raise Failure(self._said() or "what indexed the capture was ended", Exit.INPUT)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for line in self._lines():
            if line.startswith(WARNING):
                settings.warn(line.removeprefix(WARNING))
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _said(self) -> str:
        lines = [line for line in self._lines() if not line.startswith(WARNING)]
        return lines[-1].removeprefix("kproxy: ") if lines else ""

    def _lines(self) -> list[str]:
        """What the process, which has ended, wrote to standard error since this was asked."""
        said = b"" if self._process is None or self._process.stderr is None else self._process.stderr.read()
        return said.decode("utf-8", "replace").strip().splitlines()


@contextmanager
def _indexed(
    captures: tuple[Path, ...],
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
    keylog: Path | None,
    spooling: Spooling,
    *,
    follow: bool,
) -> Iterator[_Index]:
    """Captures while a process of its own indexes them, or their index of another time; it goes with the block."""
    from captures.index import cached
    from captures.source import check
    from kproxy import scratch

    if not any(str(path) == "-" for path in captures):
        check(captures)  # what cannot be opened is told before the screen is taken
    try:
        parent = scratch.new(scratch.cache_dir(), "replay")
    except OSError:
        parent = scratch.new(scratch.temporary(), "replay")
    held = scratch.hold(parent)
    directory = parent / "index"
    only = str(ports) if ports else None
    try:
        entry = None if follow else cached.entry(captures, ports=only, release=release, given=given, keylog=keylog)
        spools = None if entry is None else cached.lend(entry, directory, spooling)
        if spools is not None:
            with ExitStack() as closing_spools:
                for spool in spools:
                    closing_spools.callback(spool.close)
                index = _Index(directory)
                index.wait_for_rows()
                yield index
            return
        arguments = ["--port", only] if only else []
        arguments += ["--release", release] if release else []
        arguments += [f"--definitions={one}" for one in given]
        arguments += [f"--keylog={keylog}"] if keylog else []
        arguments += [f"--spool-dir={spooling.directory}"] if spooling.directory else []
        arguments += [f"--spool-max={spooling.most}", "--follow" if follow else "--keep"]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "captures.index.indexer", "--with-parent", *arguments, "--",
             *map(str, captures), str(directory)],
            stdin=None if str(captures[0]) == "-" else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        index = _Index(directory, process)
        try:
            import tui.app  # noqa: F401 (it takes about as long as the first rows)

            index.wait_for_rows()
            yield index
        finally:
            index.stop()
    finally:
        scratch.remove(parent)
        os.close(held)


def _keys_from_terminal() -> None:
    """Standard input is the capture: take keys from the terminal itself."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise Failure(f"no terminal to take keys from: {error.strerror} (--headless prints)", Exit.USAGE) from None
    os.dup2(terminal, 0)
    os.close(terminal)
