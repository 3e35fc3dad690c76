"""Findings as stories: facts in, findings out, one line each.

    Story().at(10).join("a").at(12).heartbeat("a", error=27).tells(...)

Time is in seconds from the story's begin. A client is named by its client id; its host and connection follow from the
name unless they are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis
from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code

BEGAN = 1_700_000_000 * SECOND
BROKER = "10.0.0.1:9092"
APIS = {"Produce": 0, "Fetch": 1, "ListOffsets": 2, "Metadata": 3, "ApiVersions": 18}
MEMBER_APIS = {"join": 11, "sync": 14, "heartbeat": 12, "leave": 13, "commit": 8}


def engine(analyses: Iterable[Analysis] = ANALYSES, **limits: float) -> Engine:
    return Engine(analyses, RULES, limits)


def told(found: Iterable[Finding]) -> list[str]:
    """ "SEVERITY rule scope" of each finding."""
    return [f"{one.severity.name} {one.rule} {one.scope.name}" for one in found]


@dataclass
class Story:
    """Makes facts one after the other; `found` feeds them to an engine."""

    group: str = "g"
    broker: str = BROKER
    now: float = 0
    made: list[Any] = field(default_factory=list)
    _connections: dict[str, int] = field(default_factory=dict)
    _exchanges: int = 0

    def at(self, seconds: float) -> Story:
        self.now = seconds
        return self

    def connection(self, client: str) -> int:
        return self._connections.setdefault(client, len(self._connections) + 1)

    def where(self, client: str, *, took: float = 0, key: int = -1, version: int = 9, **more: Any) -> facts.At:
        """A place in the story: a request that ends now, and its answer `took` seconds later."""
        self._exchanges += 1
        asked = BEGAN + round(self.now * SECOND)
        return facts.At(
            more.get("time", asked + round(took * SECOND)),
            asked,
            more.get("exchange", self._exchanges),
            more.get("connection", self.connection(client)),
            more.get("peer", f"host-{client}"),
            client,
            self.broker,
            key,
            version,
        )

    # --- connections ---

    def exchange(
        self, client: str, api: str = "Metadata", status: Status = Status.OK, *, number: int = 1, **more: Any
    ) -> Story:
        for _ in range(number):
            at = self.where(client, key=APIS.get(api, -1), **more)
            self.made.append(facts.Exchange(at, status, 100, 100 if status is Status.OK else 0))
        return self

    def tls(self, client: str) -> Story:
        return self.exchange(client, "", Status.TLS)

    def closes(
        self,
        client: str,
        how: str = "FIN",
        *,
        opened: bool = True,
        sent: int = 100,
        got: int = 100,
        first: bytes = b"",
        lived: float = 0,
        **more: Any,
    ) -> Story:
        at = self.where(client, exchange=0, **more)._replace(client_id="")
        began = at.time - round(lived * SECOND)
        self.made.append(facts.Closed(at, how, opened, began, sent, got, first))
        return self

    def trouble(self, client: str, code: Code = Code.GAP, *, side: str = "broker") -> Story:
        at = self.where(client, exchange=0)
        self.made.append(facts.Trouble(at, code, side, 0, 10, f"{code} here"))
        return self

    def offered(self, client: str, software: str = "", **ranges: tuple[int, int]) -> Story:
        at = self.where(client, key=APIS["ApiVersions"])
        offered = tuple((APIS[name], *versions) for name, versions in ranges.items())
        self.made.append(facts.Offered(at, 0, software, offered))
        return self

    # --- groups ---

    def member(self, what: str, client: str, **said: Any) -> Story:
        """A member's request; its member id is the client's name unless it is given."""
        places = {name: said.pop(name) for name in ("took", "peer", "connection") if name in said}
        at = self.where(client, key=MEMBER_APIS[what], **places)
        fact = facts.Member(
            at, self.group, "classic", what, client, False, None, None, 0, None, None, None, None, None, None, True
        )
        self.made.append(fact._replace(**said))
        return self

    def join(self, client: str, generation: int = 1, *, session: float = 10, poll: float = 300, **said: Any) -> Story:
        given = {"generation": generation, "session_ms": round(session * 1000), "rebalance_ms": round(poll * 1000)}
        return self.member("join", client, **given | said)

    def heartbeat(self, client: str, error: int = 0, **said: Any) -> Story:
        return self.member("heartbeat", client, error=error, **said)

    def leave(self, client: str, reason: str | None = None, **said: Any) -> Story:
        return self.member("leave", client, reason=reason, **said)

    # --- what comes of it ---

    def found(self, analyses: Iterable[Analysis] = ANALYSES, **limits: float) -> list[Finding]:
        """The findings, in the order of their ranks."""
        judge = Engine(analyses, RULES, limits)
        for fact in self.made:
            judge.feed(fact)
        judge.finish()
        return correlate(judge.findings(), RULES, judge.views.whole)

    def tells(self, *lines: str, at_least: str = "NOTE") -> list[Finding]:
        """Compare the findings of this severity and worse with "SEVERITY rule scope" lines."""
        least = {"INFO": 0, "NOTE": 1, "WARN": 2, "ERROR": 3}[at_least]
        found = [one for one in self.found() if one.severity >= least]
        assert told(found) == list(lines), [
            f"{line}: {one.summary}" for line, one in zip(told(found), found, strict=True)
        ]
        return found

    def is_quiet(self) -> None:
        """Nothing is told, but for what is only an INFO."""
        self.tells()
