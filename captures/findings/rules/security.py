"""Finds secrets that are sent without TLS."""

from __future__ import annotations

from ipaddress import ip_address

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Impact, Severity

CLEARTEXT = "sec.cleartext"
KINDS = 64
"""Maximum number of pairs of broker and kind of secret that are counted for a client."""


class Cleartext(Analyzer):
    """For one client, finds secrets that it sends or receives without TLS."""

    __slots__ = ("_context", "_counts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[tuple[str, str], int] = {}

    def feed(self, fact: facts.Secret) -> None:
        at = fact.at
        kind = at.broker, fact.what
        count = self._counts.get(kind, 0) + 1
        remember(self._counts, kind, count, KINDS)
        self._context.report(
            CLEARTEXT,
            at_evidence(at, "trigger", f"{fact.what} in clear"),
            numbers={"client": at.client, "broker": at.broker, "what": fact.what, "count": count},
            impact=Impact("requests", count),
            episode=kind,
            severity=Severity.INFO if _local(at) else None,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )


def _local(at: facts.At) -> bool:
    """Whether client and broker are on one host, so that the secret crosses no network."""
    try:
        peer, broker = ip_address(at.peer.strip("[]")), ip_address(at.broker.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return peer == broker or (peer.is_loopback and broker.is_loopback)


ANALYSES = (Analysis(frozenset({CLEARTEXT}), Key.CLIENT, (facts.Secret,), Cleartext),)
