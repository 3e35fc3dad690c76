"""The relay's process: python -m kproxy.relay.process, with its settings as one line of JSON on standard input.

The process writes events as JSON lines to standard output ("listening", "failed", "broker", "client", "warning",
"stopped") while somebody reads them, keeps `run.json` in the run's directory up to date, answers "status", "stop",
"reload" and "faults" on `control.sock` there, and outlives the process that started it. The first SIGTERM drains
connections and ends the relay, a second one ends it at once. SIGHUP reads the file of --faults again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.addons.loading import LoadError
from kproxy.captures.errors import CaptureError
from kproxy.captures.processes import name_process
from kproxy.faults.trouble import FaultsError
from kproxy.recording.opening import open_recording
from kproxy.recording.recorder import Recorder
from kproxy.recording.writing import resumed
from kproxy.relay.clusters import Relays
from kproxy.relay.server import Relay
from kproxy.relay.timer import timer
from kproxy.relay.warnings import Event
from kproxy.runs import registry, scratch
from kproxy.runs.registry import EXIT_CONNECT, EXIT_PERMISSION, EXIT_USAGE
from kproxy.runs.settings import Settings, shown
from kproxy.tls.errors import AuthorityError, TlsError
from kproxy.transparent import netfilter
from kproxy.transparent.guard import Guard
from kproxy.transparent.rules import Rules

if TYPE_CHECKING:
    from kproxy.control import actions
    from kproxy.control.server import ControlServer

KEPT_WARNINGS = 200


class FailedError(Exception):
    """The relay cannot start; `code` is the exit code for the process."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Process:
    """The relays of this process with their recorder, run.json and control socket."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run_dir = None if settings.run_dir is None else Path(settings.run_dir)
        self._warnings: list[str] = []
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._alone = False
        self._relays: Relays | None = None
        self._http: ControlServer | None = None
        self._holds: list[int] = []
        self._unsaved = False
        self._saving: asyncio.Task[None] | None = None
        os.set_blocking(sys.stdout.fileno(), False)

    # --- telling -----------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Writes an event to standard output as a line of JSON; drops the event if nobody reads it.

        Events about listeners, brokers and warnings also save run.json.
        """
        if event["event"] == "warning":
            self._warnings.append(event["message"])
            del self._warnings[:-KEPT_WARNINGS]
        if event["event"] == "listening":  # the reader of this event opens run.json at once
            self._save(self._state())
        elif event["event"] in {"broker", "warning"}:
            self._save_soon()
        with contextlib.suppress(OSError):
            os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")

    def _save_soon(self) -> None:
        """Saves run.json in a thread, once for all events of this turn of the event loop."""
        self._unsaved = True
        if self._saving is None and self._relays is not None:
            self._saving = self._loop.create_task(self._keep_saved())

    async def _keep_saved(self) -> None:
        while self._unsaved:
            self._unsaved = False
            await self._loop.run_in_executor(None, self._save, self._state())
        self._saving = None

    def _state(self) -> dict[str, Any]:
        """The fields of `run.json` that describe the relays."""
        assert self._relays is not None  # noqa: S101 (they are there before anything is saved)
        relays, settings = self._relays, self._settings
        return {
            "listen": shown(settings.listen_host, relays.first.port),
            "bootstrap": self.bootstrap,
            "clusters": relays.bootstrap,
            "control": self.control_url,
            "upstream": [shown(host, port) for host, port in settings.upstream],
            "recording": self.recording,
            "brokers": relays.brokers(),
            "warnings": list(self._warnings),
        }

    def _save(self, state: dict[str, Any]) -> None:
        if self._run_dir is not None:
            registry.save(self._run_dir, self._settings, self._started, **state)

    @property
    def recording(self) -> str | None:
        """Path of the recording: a file, or the directory of a ring; None if nothing is recorded."""
        settings = self._settings
        return (settings.record_to or settings.scratch_dir) if settings.record else None

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of the first cluster, as clients can use them."""
        return "" if self._relays is None else self._relays.first.bootstrap

    @property
    def control_url(self) -> str | None:
        """Where the HTTP interface listens; None without one."""
        return None if self._http is None else self._http.url

    # --- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        self._started = time.time()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._asked_to_stop)
        try:
            recorder = self._recorder()
            relays = await self._listening(recorder)
            control = await self._control()
            self._http = await self._serve_http(relays.first)
            guard = await self._set_up(relays.first)
        except FailedError as failure:
            self.tell({"event": "failed", "message": str(failure), "exit": failure.code})
            return failure.code
        self._watch_launcher()
        if self._settings.faults_file is not None:
            self._loop.add_signal_handler(signal.SIGHUP, self._read_faults_again)
        self.tell(
            {
                "event": "listening",
                "bootstrap": self.bootstrap,
                "clusters": relays.bootstrap,
                "recording": self.recording,
                "control": self.control_url,
                "pid": os.getpid(),
            }
        )
        if self._settings.probe:
            relays.first.spawn(relays.check())
        gc.freeze()
        await self._stop.wait()
        if guard is not None:
            await guard.release()
        await relays.drain()
        if guard is not None:
            await self._take_down(guard)
        control.close()
        if self._http is not None:
            await self._http.close()
        if recorder is not None:
            recorder.flush()  # in this thread, because the recorder's timer runs here too
            await self._loop.run_in_executor(None, recorder.close)
        self.tell({"event": "stopped"})
        if self._saving is not None:
            await self._saving
        self._clean_up()
        return 0

    async def _listening(self, recorder: Recorder | None) -> Relays:
        """Opens the bootstrap listeners; returns the relays. Raises FailedError."""
        settings = self._settings
        try:
            relays = self._relays = Relays(settings, recorder, self.tell)
            for relay in relays.all:
                settings = relay.settings
                await relay.start()
        except (TlsError, AuthorityError, LoadError, FaultsError) as error:
            raise FailedError(str(error), EXIT_USAGE) from None
        except OSError as error:
            raise _cannot_listen(settings, error) from None
        return relays

    async def _set_up(self, relay: Relay) -> Guard | None:
        """Installs the rules of transparent mode; None if the settings leave that to the user. Raises FailedError."""
        settings = self._settings
        if not settings.setup or settings.transparent is None:
            return None
        rules = Rules(settings.transparent, relay.port, settings.ports, settings.clients, netfilter.families())
        guard = Guard(rules, relay.warnings.warn)
        try:
            leftovers = await guard.install()
        except netfilter.RulesError as error:
            raise FailedError(str(error), EXIT_PERMISSION) from None
        for port in leftovers:
            relay.warnings.warn(
                f"leftover-{port}", f"removed the iptables rules of port {port}, which a killed relay had left"
            )
        return guard

    async def _take_down(self, guard: Guard) -> None:
        try:
            await guard.remove()
        except netfilter.RulesError as error:
            self.tell({"event": "warning", "topic": "rules", "message": str(error)})

    def _recorder(self) -> Recorder | None:
        settings = self._settings
        if self._run_dir is not None:
            self._holds.append(scratch.hold(self._run_dir))
        if settings.scratch_dir is not None:
            self._holds.append(scratch.hold(Path(settings.scratch_dir)))
        if not settings.record:
            return None
        try:
            opened = open_recording(settings)
        except PermissionError as error:
            raise FailedError(f"cannot record to {error.filename}: {error.strerror}", EXIT_PERMISSION) from None
        except (OSError, CaptureError) as error:
            why = error.strerror if isinstance(error, OSError) else error.message
            raise FailedError(f"cannot record to {self.recording}: {why}", EXIT_USAGE) from None
        return Recorder(
            opened.sink,
            timer(self._loop),
            self._recording_failed,
            on_resumed=self._recording_resumed,
            choice=opened.choice,
            threaded=opened.threaded,
            batch_bytes=opened.batch_bytes,
        )

    def _recording_failed(self, why: str) -> None:
        """Warns the user that recording has stopped; called from the writer's thread."""
        message = f"recording to {self.recording} has stopped: {why}; traffic goes on"
        event = {"event": "warning", "topic": "recorder", "message": message, "stopped": why}
        self._loop.call_soon_threadsafe(self.tell, event)

    def _recording_resumed(self, missing: int) -> None:
        """Tells the user that recording has resumed; called from the writer's thread."""
        event = {"event": "warning", "topic": "recorder", "message": resumed(self.recording, missing), "stopped": ""}
        self._loop.call_soon_threadsafe(self.tell, event)

    def _asked_to_stop(self) -> None:
        if self._stop.is_set() and self._relays is not None:
            self._relays.close()
        self._stop.set()

    def _watch_launcher(self) -> None:
        """Watches standard input, which ends when the launcher exits.

        If the launcher exits before this process, this process removes the run's files when it ends.
        """

        def readable() -> None:
            if not os.read(0, 4096):
                self._alone = True
                self._loop.remove_reader(0)
                if self._settings.attached:
                    self._asked_to_stop()

        os.set_blocking(0, False)
        with contextlib.suppress(OSError, ValueError, NotImplementedError):
            self._loop.add_reader(0, readable)

    def _clean_up(self) -> None:
        settings = self._settings
        if self._run_dir is not None:
            (self._run_dir / registry.RUN_FILE).unlink(missing_ok=True)
        if not self._alone:
            return
        for directory in (settings.scratch_dir, settings.index_dir, settings.run_dir):
            if directory is not None:
                scratch.remove(Path(directory))

    # --- the control socket ------------------------------------------------------------------------------------------

    async def _control(self) -> asyncio.AbstractServer:
        """Opens the control socket, which answers each command, a line of JSON, with a line of JSON."""
        if self._run_dir is None:
            return await asyncio.start_server(self._answer, "127.0.0.1", 0, start_serving=False)
        try:
            listener = registry.control_socket(self._run_dir)
        except OSError as error:
            raise no_control(self._run_dir, error) from None
        return await asyncio.start_unix_server(self._answer, sock=listener, limit=registry.LONGEST_COMMAND)

    @property
    def _commands(self) -> registry.Commands:
        return {
            "status": lambda _: self._status(),
            "stop": lambda _: self._told_to_stop(),
            "flush": lambda _: self._flush(),
            "reload": self._told_to_reload,
            "faults": self._told_of_faults,
        }

    async def _serve_http(self, relay: Relay) -> ControlServer | None:
        """Opens the HTTP interface that the settings ask for. Raises FailedError."""
        asked = self._settings.control
        if asked is None:
            return None
        from kproxy.control.server import ControlServer

        try:
            server = ControlServer(
                asked.host, asked.port, asked.token, self._rules(), self._commands, relay.warnings.warn
            )
        except OSError as error:
            where = shown(asked.host, asked.port)
            raise FailedError(
                f"cannot listen on {where} for --control: {error.strerror or error}", EXIT_CONNECT
            ) from None
        await server.start()
        return server

    def _rules(self) -> actions.Rules:
        from kproxy.control import actions

        assert self._relays is not None  # noqa: S101 (they are there before the socket is)
        return actions.Rules([relay.acting for relay in self._relays.all])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = self._commands
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            async for line in reader:
                writer.write(registry.answer(line, commands))
                await writer.drain()
        writer.close()

    def _status(self) -> dict[str, Any]:
        assert self._relays is not None  # noqa: S101 (they are there before the socket is)
        return {**self._relays.status(), "recording": self.recording, "messages": self._warnings}

    def _flush(self) -> dict[str, Any]:
        """Handles "flush": passes all traffic so far to the recording's writer; answers the recording's counters."""
        assert self._relays is not None  # noqa: S101 (they are there before the socket is)
        recorder = self._relays.first.recorder
        if recorder is None:
            return {"error": "this proxy records nothing (--no-record)"}
        recorder.flush()
        return {"recorder": recorder.status()}

    def _told_to_reload(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handles "reload": loads the actor with the request's "name" again, or all actors, and enables them."""
        assert self._relays is not None  # noqa: S101 (they are there before the socket is)
        name = request.get("name")
        try:
            return {"reloaded": self._relays.reload(None if name is None else str(name))}
        except (LoadError, LookupError) as error:
            return {"error": str(error.args[0] if error.args else error)}

    def _told_of_faults(self, request: dict[str, Any]) -> dict[str, Any]:
        from kproxy.control import actions

        return actions.answer(self._rules(), request)

    def _read_faults_again(self) -> None:
        """Handles SIGHUP: reads the file with rules again; if that fails, the rules stay and the user is warned."""
        answer = self._told_of_faults({"op": "reload"})
        if "error" in answer:
            message = f"the rules stay as they are: {answer['error']}"
            self.tell({"event": "warning", "topic": f"faults-{message}", "message": message})

    def _told_to_stop(self) -> dict[str, Any]:
        self._asked_to_stop()
        return {"stopping": True}


def no_control(run_dir: Path, error: OSError) -> FailedError:
    where = run_dir / registry.CONTROL
    return FailedError(f"cannot open the control socket {where}: {error.strerror or error}", EXIT_PERMISSION)


def _cannot_listen(settings: Settings, error: OSError) -> FailedError:
    where = shown(settings.listen_host, settings.listen_port)
    if isinstance(error, PermissionError):
        return FailedError(f"cannot listen on {where}: {error.strerror}", EXIT_PERMISSION)
    return FailedError(f"cannot listen on {where}: {error.strerror or error}", EXIT_CONNECT)


def raise_file_limit() -> None:
    """Raises the process's limit on open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(settings: Settings) -> int:
    return await Process(settings).run()


def main() -> int:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    settings = Settings.from_json(line.decode())
    raise_file_limit()
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_run(settings))
    return uvloop.run(_run(settings))


if __name__ == "__main__":
    name_process("relay")
    sys.exit(main())
