"""Starts a relay in a process and session of its own, and passes on the relay's events."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kproxy.runs import scratch
from kproxy.runs.registry import CONTROL, EXIT_CONNECT, EXIT_PERMISSION, LONGEST_SOCKET_PATH, ask, runs
from kproxy.runs.settings import Settings, shown

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports

START_SECONDS = 20.0
STOP_SECONDS = 8.0
FINISH_SECONDS = 8.0
KEPT_EVENTS = 1000
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(32 << 20)}
"""Environment variables that make glibc reuse the memory of read buffers.

By default glibc returns each recorded buffer to the system, which costs a page fault for each page when it is allocated
again.
"""
RESTARTS = 3
"""Maximum number of times that an indexer is started again after it has died."""

Event = dict[str, Any]


class StartError(Exception):
    """The relay did not start; `exit_code` is the exit code for the user's command."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def _making(what: str, chosen_by: str) -> Iterator[None]:
    """Raises StartError for an OSError: the folder for `what` cannot be made. `chosen_by` names another one."""
    try:
        yield
    except OSError as error:
        why = f"no folder for {what} can be made: {error.filename}: {error.strerror}"
        raise StartError(f"{why} ({chosen_by} names another)", EXIT_PERMISSION) from None


class RelayProcess:
    """A running relay. Use it as a context manager, or call `stop`.

    `bootstrap` holds the bootstrap servers for clients; `clusters` holds them by cluster name ("" if there is only
    one). `recording` is the pcapng file or the directory of the ring (None without a recording). `control` is
    the URL of the HTTP interface (None without one). `run_dir` holds run.json and control.sock; `index_dir` is an empty
    directory for the index. The queue `events` receives all events of the relay but "listening": "broker", "client",
    "warning", "stopped" (see `kproxy.relay.process`).
    """

    module = "kproxy.relay.process"
    called = "relay"

    def __init__(self, settings: Settings, *, spool: Path | None = None) -> None:
        """Starts the relay and waits until it listens. Raises StartError, OSError.

        `spool` is the directory for the index, and for the recording if shared memory has no room; None for the user's
        cache.
        """
        spool = None if spool is None else spool.absolute()
        self._own: list[Path] = []
        self._holds: list[int] = []
        self._stderr = tempfile.TemporaryFile(dir=scratch.temporary())  # noqa: SIM115 (closed by `stop`)
        try:
            self.settings = self._places(settings, spool)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                env={**ALLOCATOR, **os.environ},
            )
            self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
            self._listeners: list[Callable[[Event], None]] = []
            self._heard: list[Event] = []
            self._hearing = threading.Lock()
            first = self._first_event()
        except BaseException:
            if hasattr(self, "_process"):
                self._process.kill()
                self._process.wait()
            self._clean_up()
            raise
        self.pid = self._process.pid
        self.bootstrap: str = first["bootstrap"]
        self.clusters: dict[str, str] = first["clusters"]
        self.control: str | None = first.get("control")
        self.recording = None if first["recording"] is None else Path(first["recording"])
        self._reader = threading.Thread(target=self._read_events, name="relay-events", daemon=True)
        self._reader.start()

    def _places(self, settings: Settings, spool: Path | None) -> Settings:
        with _making("the run's state", "XDG_RUNTIME_DIR"):
            run_dir = scratch.new(scratch.runs_dir(), settings.device or str(settings.listen_port))
            if len(str(run_dir / CONTROL)) > LONGEST_SOCKET_PATH:
                scratch.remove(run_dir)
                run_dir = scratch.new(scratch.temporary(), "run")
        self._own.append(run_dir)
        self.run_dir = run_dir
        scratch_dir = None
        if settings.record and settings.record_to is None:
            with _making("the recording", "--spool-dir or XDG_CACHE_HOME"):
                scratch_dir = scratch.ring(settings.scratch, spool)
            self._own.append(scratch_dir)
        with _making("the index", "--spool-dir or XDG_CACHE_HOME"):
            index_parent = scratch.new(spool or scratch.cache_dir(), "index")
        self._own.append(index_parent)
        self.index_dir = index_parent / "index"
        self.index_dir.mkdir(mode=0o700)
        self._holds += [scratch.hold(directory) for directory in self._own]
        return dataclasses.replace(
            settings,
            run_dir=str(run_dir),
            scratch_dir=None if scratch_dir is None else str(scratch_dir),
            index_dir=str(index_parent),
            record_to=None if settings.record_to is None else str(Path(settings.record_to).absolute()),
        )

    def _first_event(self) -> Event:
        process = self._process
        assert process.stdin is not None  # noqa: S101 (asked for above)
        assert process.stdout is not None  # noqa: S101
        timer = threading.Timer(START_SECONDS, process.kill)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(self.settings.to_json().encode() + b"\n")
                process.stdin.flush()
            while True:
                line = process.stdout.readline()
                event: Event = json.loads(line) if line else {"event": "failed"}
                if event["event"] in {"listening", "failed"}:
                    break
                self.events.put(event)
                self._heard.append(event)
        finally:
            timer.cancel()
        if event["event"] != "listening":
            process.kill()
            code = process.wait()
            self._close_pipes()
            message = event.get("message") or self._last_words(code)
            raise StartError(message + self._taken_by(event.get("exit", 70)), event.get("exit", 70))
        return event

    def _taken_by(self, code: int) -> str:
        """The end of the error message for a taken port: the run that listens on it; "" if no run of this user does."""
        where = shown(self.settings.listen_host, self.settings.listen_port)
        for run in runs() if code == EXIT_CONNECT else ():
            if run.state["listen"] == where:
                return f" by kproxy's relay {run.pid} (kproxy stop {run.pid} ends it)"
        return ""

    def _last_words(self, code: int) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return f"the {self.called} did not start (exit {code}): {lines[-1] if lines else 'it printed nothing'}"

    def _read_events(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    self.events.put(event)
                    with self._hearing:
                        self._heard.append(event)
                        del self._heard[:-KEPT_EVENTS]
                        for listener in self._listeners:
                            listener(event)

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Calls `listener` with past events (at most KEPT_EVENTS), and later, from a thread, with each new event."""
        with self._hearing:
            for event in self._heard:
                listener(event)
            self._listeners.append(listener)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def command(self, command: str) -> Event:
        """Sends a command ("status", "stop") to the relay; returns the answer.

        Raises OSError if the relay does not answer.
        """
        return ask(self.run_dir, command)

    @property
    def was_stopped(self) -> bool:
        """Whether the relay has ended because it was asked to (exit code 0)."""
        return self._process.poll() == 0

    def leave(self) -> None:
        """Detaches the relay from this process, which is about to end.

        The relay continues, and removes its files when it ends.
        """
        assert self._process.stdin is not None  # noqa: S101 (asked for when it was started)
        self._process.stdin.close()
        scratch.remove(self.index_dir.parent)
        self._own = []
        self._clean_up()

    def stop(self) -> None:
        """Drains and ends the relay; a scratch recording stays until `clean_up` is called."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._reader.join(2)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def clean_up(self) -> None:
        """Removes the run's scratch recording, index and state; a recording made with -w stays."""
        self._clean_up()

    def _clean_up(self) -> None:
        self._stderr.close()
        for descriptor in self._holds:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._holds = []
        for directory in self._own:
            scratch.remove(directory)
        self._own = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.clean_up()


class SnifferProcess(RelayProcess):
    """A running sniffer; `bootstrap` is the name of its device."""

    module = "kproxy.recording.sniffer"
    called = "sniffer"


INDEXER, OBSERVING = "kproxy.captures.index.indexer", "kproxy.addons.indexing"
"""Modules of the process that writes an index: INDEXER does it without observers, OBSERVING with observers."""


class Indexer:
    """The process that writes the index of a recording; if it dies, it is started again at most RESTARTS times."""

    def __init__(
        self,
        recording: Path,
        index_dir: Path,
        arguments: tuple[str, ...] = (),
        *,
        module: str = INDEXER,
        tell: Callable[[Event], None] | None = None,
    ) -> None:
        """`tell` is called from a thread with each event of the process (see `kproxy.addons.indexing`)."""
        self._command = [sys.executable, "-P", "-m", module, *arguments, str(recording), str(index_dir)]
        self._tell = tell
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._start()
        self._thread = threading.Thread(target=self._watch, name="indexer", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit code of an indexer that has died and is not started again, negative for a signal; None until then."""
        process = self._process
        return process.returncode if self.starts > RESTARTS and process is not None else None

    def _start(self) -> None:
        self.starts += 1
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if self._tell is None else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _watch(self) -> None:
        while self._process is not None:
            self._pass_events(self._process)
            self._process.wait()
            if self._stopping.is_set() or self.starts > RESTARTS:
                return
            if self._stopping.wait(0.2):
                return
            self._start()

    def _pass_events(self, process: subprocess.Popen[bytes]) -> None:
        """Passes the events of the process to `tell` until the process ends."""
        if self._tell is None or process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._tell(json.loads(line))

    def finish(self) -> None:
        """Waits, at most FINISH_SECONDS, until the process has read the rest of an ended relay's recording.

        Then ends it.
        """
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(FINISH_SECONDS)
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._thread.join(2)


def arguments(release: str | None, user_definitions: tuple[str, ...], ports: Ports | None = None) -> tuple[str, ...]:
    """Command line arguments for an indexer that follows a recording."""
    read_with = ("--release", release) if release else ()
    only = ("--port", str(ports)) if ports else ()
    return ("--follow", *read_with, *only, *(f"--definitions={one}" for one in user_definitions))


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Checks a condition repeatedly; returns True once it holds, False if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
