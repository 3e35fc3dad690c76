"""The process that reads a capture and writes its index: python -m captures.index.indexer CAPTURE... INDEX_DIR."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from kproxy.captures import reader as captures_reader
from kproxy.captures.chunks import chunks
from kproxy.captures.errors import WARNING, CaptureError
from kproxy.captures.garbage import few_collections
from kproxy.captures.index import cached
from kproxy.captures.index.changes import Changes
from kproxy.captures.index.format import STOP
from kproxy.captures.index.parallel import Division, helpful
from kproxy.captures.index.summary import Summariser, Summary
from kproxy.captures.index.writer import IndexWriter, Mark, NoIndex
from kproxy.captures.pipes import Lost
from kproxy.captures.processes import name_process
from kproxy.captures.reader import Reader
from kproxy.captures.source import STANDARD_INPUT, RingSource
from kproxy.captures.spool import MOST, Spooling
from kproxy.decoders.escaping import message
from kproxy.decoders.exchange import Exchange, Status, StreamProblem
from kproxy.decoders.exchange_json import problem_json
from kproxy.decoders.knowledge import Fact, Knowledge

POLL_SECONDS = 0.05
"""Seconds between two polls of a followed capture: the delay that polling adds before a row is shown."""
META_SECONDS = 0.25
"""Minimum seconds between two writings of progress and health."""
PARENT_SECONDS = 1.0
BEGIN_SECONDS = 10.0
INDEXING, STOPPED = "indexing", "stopped"
"""Values of "state" in meta.json; the others are "following", "complete" and "failed"."""
UNREADABLE = 3
"""Exit code of the process if a capture could not be read to its end."""

Watch = Callable[[Sequence[tuple[Exchange, Summary]], Sequence[StreamProblem], Reader], None]
"""A function called after every step: (complete exchanges whose rows were written, stream problems, reader).

Both lists are often empty.
"""


class Indexer:
    """Indexes one reading; `step` processes a batch of it.

    Without a `directory` no index is written, and only `watch` gets the exchanges. `jobs` is the number of further
    processes that read and make rows after the first step (0: none; by default as many as save time). With `follow`,
    `watch` or `user_definitions` there are none. If one of them dies, this process begins again, alone. Raises
    CaptureError if a capture cannot be opened, ValueError if `ports` or `user_definitions` cannot be parsed.
    """

    def __init__(
        self,
        captures: list[Path | str],
        directory: Path | None,
        *,
        ports: str | None = None,
        release: str | None = None,
        user_definitions: Sequence[str] = (),
        keylog: str | None = None,
        follow: bool = False,
        watch: Watch | None = None,
        keep: bool = False,
        spooling: Spooling | None = None,
        jobs: int | None = None,
    ) -> None:
        """With `keep`, the method `keep` can be called at the end. For the other options see captures.reader.read."""
        self._entry = partial(
            cached.entry, captures, ports=ports, release=release, user_definitions=user_definitions, keylog=keylog
        )
        self._began_as = self._entry() if keep else None
        self._read = partial(
            captures_reader.read,
            captures,
            ports=ports,
            release=release,
            user_definitions=user_definitions,
            keylog=keylog,
            follow=follow,
            spooling=spooling,
        )
        self._directory = directory
        self._settings: dict[str, Any] = {"ports": ports, "release": release, "user_definitions": user_definitions}
        self.streaming = [str(path) for path in captures] == [STANDARD_INPUT]
        self._follow = follow
        self._watch = watch
        alone = (
            follow or watch is not None or user_definitions
        )  # user definitions may have facts that other processes miss
        self._begin(0 if alone else jobs)

    def _begin(self, jobs: int | None) -> None:
        """Open the captures, and begin an index of them; `jobs` as for the class."""
        self.reader = self._read()
        source = self.reader.source
        # viewers read the bytes of pipes and compressed files from spools
        self.spooled = any(part.spool is not None for part in source.parts)
        held = [source.directory] if isinstance(source, RingSource) else [part.path for part in source.parts]
        paths = [str(path.absolute()) for path in held]
        state = "following" if self._follow or self.streaming else INDEXING
        self._summaries = Summariser(source, self.reader.definitions, Knowledge(self._tell))
        self.writer = (
            NoIndex()
            if self._directory is None
            else IndexWriter(self._directory, paths, state=state, node_of=self._summaries.nodes.of, **self._settings)
        )
        self.writer.meta["spools"] = [None if part.spool is None else part.spool.entry for part in source.parts]
        if self.streaming:
            self.writer.meta["names"] = ["standard input"]
        elif self.spooled:
            self.writer.meta["names"] = [part.name.rpartition("/")[2] for part in source.parts]
        self._jobs = jobs
        self._division: Division | None = None
        self._changes = Changes()
        self._nodes = 0
        self._base = 0
        self._marks: deque[tuple[int, Mark]] = deque()
        """For each existing file of the ring: (base address, sizes of the index's files when that file began)."""
        self._meta_written = 0.0  # at once, because the interface waits for the first rows

    @property
    def finished(self) -> bool:
        return self.reader.finished

    def step(self, *, wait: bool = False) -> bool:
        """Index a batch; returns False if there was nothing to read. With `wait`, reading a pipe blocks until bytes
        arrive.
        """
        try:
            done = self.reader.poll(wait=wait)
            self._mark()
            self._take(done)
            if self.reader.idle and not self._follow and not self.reader.finished:
                self._take(self.reader.finish())
        except Lost:
            self.close()
            self._begin(0)
            return True
        now = time.monotonic()
        if self.reader.finished or now - self._meta_written >= META_SECONDS:
            self._write_meta()
        return not self.reader.idle

    @property
    def _whole(self) -> bool:
        """Whether the size of the capture is known."""
        return not self.streaming and all(part.spool is None or part.spool.ended for part in self.reader.source.parts)

    def stop(self) -> None:
        """Index the rest of the capture up to its present end, and end the reading."""
        while not self.reader.finished and self.step():
            pass
        if not self.reader.finished:
            self._take(self.reader.finish())
        self._write_meta()

    @property
    def told_to_stop(self) -> bool:
        """Whether a viewer asked to stop this reading; False for a stream and a capture that is followed."""
        return (
            self.writer.meta["state"] == INDEXING and self._directory is not None and (self._directory / STOP).exists()
        )

    def cut(self) -> None:
        """End the reading at once; the rows written so far stay."""
        self.writer.meta["state"] = STOPPED
        self._take(self.reader.cut())
        self._write_meta()

    def keep(self) -> str | None:
        """Keep a complete index for later readings, unless the capture has changed meanwhile.

        Returns None, or the reason why it cannot be stored.
        """
        parts, error = self.reader.source.parts, self.reader.error
        if self._began_as is None or any(part.spool is not None and part.spool.entry is None for part in parts):
            return None
        if error is not None and error.offset is None:
            return None  # the capture is not to blame, so a later attempt may succeed
        if self.reader.finished and self._entry() == self._began_as and isinstance(self.writer, IndexWriter):
            return cached.keep(self._began_as, self.writer.directory)
        return None

    def close(self) -> None:
        if self._division is not None:
            self._division.close()
        self.writer.close()
        self.reader.close()

    def _tell(self, fact: Fact, about: str, known: str) -> None:
        self.writer.fact(fact, about, known)

    def _mark(self) -> None:
        """Remember which rows are of which file of a ring, and drop the rows of deleted files."""
        if not self._follow:
            return
        base = self.reader.base
        if base != self._base:
            self._base = base
            self._marks.append((base, self.writer.mark()))
        before = None
        while self._marks and self._marks[0][0] <= self.reader.source.oldest:
            _, before = self._marks.popleft()
        if before is not None:
            self.writer.let_go(before)

    def _take(self, done: list[Exchange | StreamProblem]) -> None:
        over = [item for item in done if isinstance(item, Exchange)]
        summaries: dict[int, Summary] = {}
        if self._division is None:
            self._problems(item for item in done if isinstance(item, StreamProblem))
            changed = self._changes.of(self.reader.started, over)
            for part in chunks([*changed.began, *changed.done, *changed.known]):
                self._make(part, summaries)
        else:
            for step in self._division.steps():
                self._problems(step.problems)
                self.reader.health.undecoded += step.block.undecoded
                self.writer.take(step.block, step.connections)
            if self.reader.finished:
                self._division.close()  # ends the processes, because a viewer may keep this one for hours
        if len(self._summaries.nodes) != self._nodes:
            self._nodes = len(self._summaries.nodes)
            self.writer.name_brokers()
        self.writer.flush()
        if self._watch is not None:
            problems = [item for item in done if isinstance(item, StreamProblem)]
            complete = [(exchange, summaries.get(exchange.number, Summary())) for exchange in over]
            self._watch(complete, problems, self.reader)
        elif self._division is None and over and not self.reader.finished:
            self._divide()

    def _divide(self) -> None:
        """Continue with further processes if that is faster; they inherit the code compiled for the first exchanges."""
        reader = self.reader
        again = all(part.spool is None or part.spool.entry is not None for part in reader.source.parts)
        jobs = helpful(reader.source) if self._jobs is None else self._jobs
        if jobs and again:
            self._division = Division(reader, self._changes, self._summaries, jobs)
            reader.divide(self._division)

    def _problems(self, problems: Iterable[StreamProblem]) -> None:
        for problem in problems:
            self.writer.problem(problem_json(problem, precision=self.reader.precision))

    def _make(self, exchanges: Sequence[Exchange], summaries: dict[int, Summary]) -> None:
        """Write the rows of exchanges; with `watch`, put their summaries into `summaries` by exchange number."""
        made = [(exchange, self._summaries.of(exchange)) for exchange in exchanges]
        self.reader.health.undecoded += sum(one.undecoded for exchange, one in made if _over(exchange))
        self.writer.put_all(made)
        if self._watch is not None:
            summaries.update((exchange.number, summary) for exchange, summary in made)

    def _write_meta(self) -> None:
        self._meta_written = time.monotonic()
        error = self.reader.error
        state = self.writer.meta["state"]
        if self.reader.finished and state != STOPPED:
            state = "complete" if error is None else "failed"
        self.writer.write_meta(
            state=state,
            bytes_read=self.reader.position,
            bytes_total=None if self._follow or not self._whole else self.reader.source.written(),
            health=asdict(self.reader.health),
            precision=self.reader.precision,
            unpacked_to=None if self._whole else str(self.reader.source.spooling.place),
            error=None
            if error is None
            else {"text": str(error), "message": error.message, "path": str(error.path), "offset": error.offset},
        )


def _over(exchange: Exchange) -> bool:
    return exchange.status is not Status.WAITING


def run(
    captures: list[Path | str],
    directory: Path | None,
    *,
    ports: str | None = None,
    release: str | None = None,
    user_definitions: Sequence[str] = (),
    keylog: str | None = None,
    follow: bool = False,
    stopping: threading.Event | None = None,
    watch: Watch | None = None,
    keep: bool = False,
    spooling: Spooling | None = None,
) -> CaptureError | None:
    """Index until the capture ends, or until `stopping` is set; returns the error that ended the reading early, or
    None.

    Blocks while a pipe has no bytes. If there are spools, waits at the end until `stopping` is set, so that viewers can
    read them. With `keep` the index is kept for later readings (captures.index.cached). Raises the errors of `Indexer`.
    """
    stopping = stopping or threading.Event()

    def begin() -> Indexer:
        return Indexer(
            captures,
            directory,
            ports=ports,
            release=release,
            user_definitions=user_definitions,
            keylog=keylog,
            follow=follow,
            watch=watch,
            keep=keep,
            spooling=spooling,
        )

    indexer = _open(begin, stopping, follow=follow)
    try:
        while not indexer.finished and not stopping.is_set():
            if indexer.told_to_stop:
                indexer.cut()
                keep = False
            elif not indexer.step(wait=indexer.streaming):
                stopping.wait(POLL_SECONDS)
        if indexer.finished:
            if keep and (why := indexer.keep()) is not None:
                sys.stderr.write(f"{WARNING}the index is not kept for the next reading: {why}\n")
        elif follow or indexer.streaming:
            indexer.stop()
        if indexer.spooled:
            # keeps the spool, from which viewers read
            stopping.wait()
    finally:
        indexer.close()
    return indexer.reader.error


def _open(begin: Callable[[], Indexer], stopping: threading.Event, *, follow: bool) -> Indexer:
    """The indexer that `begin` makes; with `follow`, waits some seconds for a recording that has not begun yet."""
    deadline = time.monotonic() + BEGIN_SECONDS
    while True:
        try:
            return begin()
        except CaptureError:
            if not follow or time.monotonic() > deadline or stopping.wait(POLL_SECONDS):
                raise


def parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of the process's command line; other programs add their options to it (see `serve`)."""
    options = argparse.ArgumentParser(prog=prog, description=description)
    options.add_argument("captures", nargs="+", metavar="CAPTURE")
    options.add_argument("directory", metavar="INDEX_DIR")
    options.add_argument("--follow", action="store_true", help="follow a growing capture until told to stop")
    options.add_argument("--port", help="only connections with one of these ports (9092 or 9092-9094)")
    options.add_argument("--release", help="read with the names and layouts of this release")
    options.add_argument("--definitions", action="append", default=[], help="definitions beside Kafka's own")
    options.add_argument("--keylog", help="decrypt TLS with the secrets of this key log")
    options.add_argument("--keep", action="store_true", help="keep the index for the next reading")
    options.add_argument("--spool-dir", type=Path, help="directory for unpacked captures and piped input")
    options.add_argument("--spool-max", type=int, default=MOST, help="maximum bytes in that directory")
    options.add_argument("--with-parent", action="store_true", help="end when the process that started this one ends")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the process with these command-line arguments; returns its exit code."""
    return serve(parser("kproxy.captures.index.indexer", __doc__).parse_args(arguments), threading.Event())


def serve(
    options: argparse.Namespace, stopping: threading.Event, *, watch: Watch | None = None, index: bool = True
) -> int:
    """Index with options from `parser` until `stopping` is set or SIGTERM arrives; returns the exit code.

    Without `index` no index is written.
    """
    live_with(stopping, os.getppid() if options.with_parent else None)
    try:
        with few_collections():
            error = run(
                options.captures,
                Path(options.directory) if index else None,
                ports=options.port,
                release=options.release,
                user_definitions=options.definitions,
                keylog=options.keylog,
                follow=options.follow,
                stopping=stopping,
                watch=watch,
                keep=options.keep,
                spooling=Spooling(options.spool_dir, options.spool_max),
            )
    except (CaptureError, ValueError) as problem:
        error = problem if isinstance(problem, CaptureError) else CaptureError(str(problem), options.captures[0])
    except OSError as problem:
        error = CaptureError(f"cannot be indexed: {problem.strerror or problem}", options.captures[0])
    if error is None:
        return 0
    sys.stderr.write(f"kproxy: {message(str(error))}\n")
    return UNREADABLE


def live_with(stopping: threading.Event, parent: int | None) -> None:
    """Set `stopping` on SIGTERM; end this process when `parent` is no longer its parent."""
    _stop_on_signal(stopping)
    # SIGINT, from ctrl+c in the terminal, is meant for the parent process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent is not None:
        threading.Thread(target=_watch_parent, args=(stopping, parent), daemon=True).start()


def _stop_on_signal(stopping: threading.Event) -> None:
    """Set `stopping` on SIGTERM.

    A thread sets it, because a signal handler would interrupt the main thread, which may hold the lock of `stopping` at
    that moment, and deadlock.
    """
    ours, handlers = os.pipe()

    def stop() -> None:
        os.read(ours, 1)
        stopping.set()

    threading.Thread(target=stop, name="stop", daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: os.write(handlers, b"."))


def _watch_parent(stopping: threading.Event, parent: int) -> None:
    while not stopping.wait(PARENT_SECONDS):
        if os.getppid() != parent:
            # blocked in a pipe, the main thread would not notice `stopping`
            os._exit(0)


if __name__ == "__main__":
    name_process("indexer")
    sys.exit(main())
