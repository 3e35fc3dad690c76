"""A proxy that runs while a program does: `kproxy.proxy`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kproxy.library.closing import Closing
from kproxy.library.proxy import Proxy
from kproxy.library.rules import WAIT_SECONDS, Fault, Match, Value, match_text

if TYPE_CHECKING:
    from kproxy.library.exchange import Exchange
    from kproxy.library.traffic import Traffic

POLL_SECONDS = 0.02


class Session:
    """A running proxy and the reader of its recording; `state` is a folder for their files."""

    def __init__(self, bootstrap: str, state: Path) -> None:
        """Starts the proxy. Raises ValueError, StartError, OSError."""
        self.proxy = Proxy(bootstrap, state)
        self.state = state
        self._traffic: Traffic | None = None

    @property
    def traffic(self) -> Traffic:
        if self._traffic is None:
            from kproxy.library.traffic import Traffic

            self._traffic = Traffic(self.proxy)
        return self._traffic

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.close()
        self.proxy.stop()


class Live:
    """A proxy between clients and a cluster, its traffic since this object was made, and rules that act on it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._start = time.time_ns()
        self._faults: list[Fault] = []

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers` for clients."""
        return self._session.proxy.bootstrap

    # --- rules -------------------------------------------------------------------------------------------------------

    def on(self, api: str, where: str = "", **fields: Value) -> Match:
        """Selects what a rule acts on: `on("Produce", topic="t")`, `on("Fetch", "client.id ~ '^slow'")`.

        `fields` are fields of filters (docs/filters.md); `where` is a filter.
        """
        return Match(self._session.proxy, self._faults, match_text(api, where, fields))

    def fault(self, rule: str) -> Fault:
        """Adds a rule, a text as in docs/faults.md. Raises RuleError, and ValueError if its name is taken."""
        fault = Fault(self._session.proxy, rule)
        self._faults.append(fault)
        return fault

    def end_rules(self) -> Sequence[Fault]:
        """Removes the rules of this object; frames that they hold are forwarded. Returns the rules."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.remove()
        return faults

    # --- traffic -----------------------------------------------------------------------------------------------------

    def exchanges(self, matching: str = "") -> list[Exchange]:
        """The exchanges so far that match a filter, oldest first, as they are now.

        Requests that were not answered yet are among them, with the status "waiting". Raises FilterError.
        """
        return list(self._session.traffic.since(self._start, matching))

    def wait_for(self, matching: str, count: int = 1, timeout: float = WAIT_SECONDS) -> list[Exchange]:
        """Waits until `count` exchanges match a filter; returns them. Raises AssertionError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while len(found := self.exchanges(matching)) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(found)} exchanges in {timeout:g} s, not {count}: {matching}")
            time.sleep(POLL_SECONDS)
        return found

    def findings(self, severity: str = "note") -> list[dict[str, Any]]:
        """The findings in the traffic so far, as `Capture.findings` gives them."""
        from kproxy.library.capture import open as open_capture

        with (
            TemporaryDirectory(dir=self._session.state) as folder,
            open_capture(self.keep(Path(folder) / "traffic.pcapng")) as capture,
        ):
            return capture.findings(severity)

    def keep(self, path: Path | str) -> Path:
        """Writes the packets so far to a new pcapng file; returns its path."""
        self._session.traffic.copy(self._start, Path(path))
        return Path(path)


class Running(Live, Closing):
    """A proxy that the program owns; it stops at the end of the `with` block. See `proxy`."""

    def __init__(self, upstream: str) -> None:
        """Starts the proxy. Raises what `proxy` raises."""
        self._folder = TemporaryDirectory(prefix="kproxy-")
        try:
            super().__init__(Session(upstream, Path(self._folder.name)))
        except BaseException:
            self._folder.cleanup()
            raise

    def close(self) -> None:
        """Removes the rules, stops the proxy and deletes its recording. Clients lose their connections."""
        try:
            self._session.close()
        finally:
            self._folder.cleanup()

    def __repr__(self) -> str:
        return f"<proxy at {self.bootstrap_servers}>"


def proxy(upstream: str) -> Running:
    """Starts a proxy in front of the cluster with these bootstrap servers, "HOST:PORT", on a free port of this host.

        with kproxy.proxy("kafka:9092") as live:
            producer = Producer({"bootstrap.servers": live.bootstrap_servers})

    The proxy is a process of its own. Its recording keeps the last 64 MB of traffic; `keep` copies it. Raises
    ValueError for a wrong address, OSError or StartError if the proxy cannot start.
    """
    return Running(upstream)
