"""Finds connections that do not speak Kafka, and connections whose responses do not match the requests."""

from __future__ import annotations

from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import MILLISECOND, Analysis, Analyzer, Context, Key, at_evidence
from kproxy.captures.findings.facts import Exchange
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Scope
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import api_keys

WRONG_PROTOCOL = "conn.wrong_protocol"
DESYNC = "proto.desync"
OK, UNANSWERED, ORPHAN, TLS = Status.OK, Status.NO_RESPONSE, Status.ORPHAN_RESPONSE, Status.TLS
BEGINNINGS: Final = {
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"HEAD": "HTTP",
    b"OPTI": "HTTP",
    b"CONN": "HTTP",
    b"PRI ": "HTTP/2",
    b"SSH-": "SSH",
    b"PROX": "the PROXY protocol",
    b"\r\n\r\n": "the PROXY protocol",
}
"""Maps the first four bytes of a connection to the protocol that begins with them."""
ALERT: Final = 7
"""Size of a TLS alert in bytes. A broker that sent no more than this has not answered the TLS handshake."""
SUSPECTS: Final = 256
"""Maximum number of suspicious connections that wait until the broker is known to speak Kafka without TLS."""


class WrongProtocol(Analyzer):
    """For one broker address, finds clients that open connections with another protocol than Kafka.

    Reports them only after another connection has shown that the broker speaks Kafka without TLS at this address.
    """

    __slots__ = ("_answers", "_context", "_counts", "_silent", "_suspects", "_tls")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answers = False
        self._tls: dict[int, Exchange] = {}
        """Maps each open TLS connection to its exchange."""
        self._silent: dict[int, Exchange] = {}
        """Maps each connection to its unanswered ApiVersions request."""
        self._suspects: list[tuple[facts.Closed, str, Evidence]] = []
        self._counts: dict[str, int] = {}

    def feed(self, fact: Any) -> None:
        if not isinstance(fact, Exchange):
            self._closed(fact)
        elif fact.status is OK:
            if self._answers:
                return
            self._answers = True
            for suspect in self._suspects:
                self._report(*suspect)
            self._suspects.clear()
            self._silent.clear()
        elif fact.status is TLS:
            self._keep(self._tls, fact)
        elif fact.status is UNANSWERED and fact.at.key == api_keys.API_VERSIONS and not self._answers:
            self._keep(self._silent, fact)

    def close(self) -> None:
        """Report clients whose ApiVersions requests were never answered before the close: the broker expects TLS."""
        ends = ((one, self._context.closed(one.at.connection)) for one in self._silent.values())
        silent = [
            one
            for one, end in ends
            if end is not None and _quick(end, self._limit) and self._context.whole(one.at.connection)
        ]
        if self._answers or len(silent) < self._context.limit(WRONG_PROTOCOL, "silent"):
            return
        at = silent[0].at
        self._context.report(
            WRONG_PROTOCOL,
            *(at_evidence(one.at, "trigger", "ApiVersions request, closed without a response") for one in silent),
            numbers={
                "peer": at.peer, "what": "Kafka without TLS", "broker": at.broker, "connections": len(silent),
                "broker_bytes": 0,
            },
            impact=Impact("requests", len(silent)),
            scope=Scope("address", at.peer),
            confidence=Confidence.STRONG,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause="The listener probably expects TLS, and the client does not use it.",
        )  # fmt: skip

    @property
    def _limit(self) -> float:
        return self._context.limit(WRONG_PROTOCOL, "close_ms")

    def _keep(self, kept: dict[int, Exchange], fact: Exchange) -> None:
        if len(kept) < SUSPECTS:
            kept[fact.at.connection] = fact

    def _closed(self, fact: facts.Closed) -> None:
        hello = self._tls.pop(fact.at.connection, None)
        if not fact.opened or not fact.by_peers:
            return
        if hello is not None and fact.broker_bytes <= ALERT and _quick(fact.end, self._limit):
            note = "a TLS hello: a broker takes its first bytes for a request of 369 million bytes"
            self._suspect(fact, "TLS", at_evidence(hello.at, "trigger", note))
        elif (what := BEGINNINGS.get(fact.first[:4])) is not None:
            number = int.from_bytes(fact.first[:4], "big")
            note = f"begins with {fact.first.hex(' ')}: a broker takes it for a request of {number} bytes"
            self._suspect(fact, what, Evidence(0, fact.began, fact.at.connection, "trigger", note))

    def _suspect(self, fact: facts.Closed, what: str, evidence: Evidence) -> None:
        if self._answers:
            self._report(fact, what, evidence)
        elif len(self._suspects) < SUSPECTS:
            self._suspects.append((fact, what, evidence))

    def _report(self, fact: facts.Closed, what: str, evidence: Evidence) -> None:
        at = fact.at
        if at.peer in self._counts or len(self._counts) < SUSPECTS:
            self._counts[at.peer] = self._counts.get(at.peer, 0) + 1
        number = self._counts.get(at.peer, 1)
        self._context.report(
            WRONG_PROTOCOL,
            evidence,
            numbers={
                "peer": at.peer, "what": what, "broker": at.broker, "connections": number,
                "broker_bytes": fact.broker_bytes,
            },
            impact=Impact("requests", number),
            scope=Scope("address", at.peer),
            episode=(at.broker, what),
            confidence=Confidence.STRONG if fact.broker_bytes else Confidence.PROVEN,
            actors=(Actor("culprit", at.peer, None),),
        )  # fmt: skip


def _quick(end: facts.End, limit_ms: float) -> bool:
    """Whether client or broker closed the connection within `limit_ms` of its first packet."""
    return end.by_peers and end.time - end.began <= limit_ms * MILLISECOND


class Order(Analyzer):
    """For one connection, finds responses without a request, responses out of order, and requests that were skipped."""

    __slots__ = ("_context", "_evidence", "_last", "_troubles", "_unanswered")

    STRANGE: Final = frozenset({Code.UNMATCHED_RESPONSE, Code.OVERSIZE_FRAME, Code.BAD_LENGTH})

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: facts.At | None = None
        """The answered exchange with the highest number."""
        self._unanswered: list[facts.At] = []
        self._evidence: list[Evidence] = []
        self._troubles = 0

    def feed(self, fact: Any) -> None:
        if isinstance(fact, Exchange):
            status, at = fact.status, fact.at
            if status is OK:
                last = self._last
                if last is None or at.exchange > last.exchange:
                    self._last = at
                elif at.exchange < last.exchange and at.time > last.time:
                    self._note(at_evidence(at, "trigger", f"answered after the later request {last.exchange}"))
            elif status is ORPHAN:
                self._note(at_evidence(at, "trigger", "a response that matches no request of this connection"))
            elif status is UNANSWERED and len(self._unanswered) < 12:
                self._unanswered.append(at)
        elif isinstance(fact, facts.Closed):
            self._end(fact)
        elif fact.code in self.STRANGE and fact.at.exchange == 0:
            self._note(at_evidence(fact.at, "trigger", fact.text))

    def _note(self, evidence: Evidence) -> None:
        self._troubles += 1
        if len(self._evidence) < 12:
            self._evidence.append(evidence)

    def _end(self, end: facts.Closed) -> None:
        last, self._last = self._last, None
        for one in self._unanswered:
            if last is not None and one.exchange < last.exchange:
                self._note(at_evidence(one, "trigger", f"never answered, though {last.exchange} was"))
        if not self._evidence or not end.opened or not self._context.whole(end.at.connection):
            return
        if last is None and not self._unanswered:
            return  # the capture lacks the client's packets; the reader says so only after the connection's end
        only = self._evidence[0]
        if self._troubles == 1 and last is not None and only.exchange > last.exchange and only.time > last.time:
            return  # perhaps the capture lacks only the last request: a gap at the end is invisible
        if not end.by_peers and self._troubles == 1:
            return  # the capture may lack a request; the reader does not report this while the connection is open
        self._context.report(
            DESYNC,
            *self._evidence,
            numbers={
                "connection": end.at.connection,
                "troubles": self._troubles,
                "first": self._evidence[0].note,
            },
            impact=Impact("requests", self._troubles),
            actors=(Actor("culprit", end.at.peer, None if last is None else last.client_id),),
        )
        self._evidence.clear()


ANALYSES = (
    Analysis(frozenset({WRONG_PROTOCOL}), Key.BROKER, (facts.Exchange, facts.Closed), WrongProtocol),
    Analysis(frozenset({DESYNC}), Key.CONNECTION, (facts.Exchange, facts.Trouble, facts.Closed), Order),
)
