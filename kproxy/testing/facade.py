"""The interface of tests to the proxy: the value of the fixture `kproxy`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.testing.proxy import Proxy
from kproxy.testing.rules import WAIT_SECONDS, Fault, Match, Value, match_text

if TYPE_CHECKING:
    from kproxy.testing.traffic import Traffic

POLL_SECONDS = 0.02
BAD = ("warn", "error")
"""Severities of findings that `assert_clean` does not allow."""


class Session:
    """The proxy of a test session, the reader of its recording, and the folder for the captures of failed tests."""

    def __init__(self, bootstrap: str, state: Path, keep: Path) -> None:
        """Starts the proxy. Raises ValueError, StartError, OSError."""
        self.proxy = Proxy(bootstrap, state)
        self.state = state
        self.keep = keep
        self._traffic: Traffic | None = None

    @property
    def traffic(self) -> Traffic:
        if self._traffic is None:
            from kproxy.testing.traffic import Traffic

            self._traffic = Traffic(self.proxy)
        return self._traffic

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.close()
        self.proxy.stop()


class Kproxy:
    """A proxy between a test's clients and the cluster. It shows only this test's exchanges, findings and rules."""

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
        """Removes the rules of this test; returns those that should have fired and never did."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.remove()
        return [fault for fault in faults if fault.must_fire and not fault.hits]

    # --- traffic -----------------------------------------------------------------------------------------------------

    def exchanges(self, matching: str = "") -> list[dict[str, Any]]:
        """The exchanges of this test that match a filter, oldest first, as in docs/exchange-json.md.

        Requests that were not answered yet are among them, with the status "waiting". Raises ValueError if the filter
        is wrong.
        """
        return list(self._session.traffic.since(self._start, matching))

    def wait_for(self, matching: str, count: int = 1, timeout: float = WAIT_SECONDS) -> list[dict[str, Any]]:
        """Waits until `count` exchanges match a filter; returns them. Raises AssertionError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while len(found := self.exchanges(matching)) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(found)} exchanges in {timeout:g} s, not {count}: {matching}")
            time.sleep(POLL_SECONDS)
        return found

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings in the traffic of this test so far, as in docs/findings.md, the most costly first."""
        import tempfile

        from kproxy.testing.traffic import findings

        with tempfile.TemporaryDirectory(dir=self._session.state) as folder:
            return findings(self.keep(Path(folder) / "test.pcapng"))

    def assert_clean(self, *but: str) -> None:
        """Raises AssertionError if there are findings of severity warn or error, except those of the rules named."""
        found = [one for one in self.findings if one["severity"] in BAD and one["rule"] not in but]
        if found:
            from kproxy.captures.findings.text import findings_text

            raise AssertionError("\n".join(["the traffic is not clean:", *findings_text(found)]))

    def keep(self, path: Path) -> Path:
        """Writes the packets of this test so far to a new pcapng file; returns its path."""
        self._session.traffic.copy(self._start, path)
        return path
