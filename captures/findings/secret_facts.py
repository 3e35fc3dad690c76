"""Makes facts of secrets in requests and responses of APIs other than SASL's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, listed
from kproxy.captures.findings.facts import Fact


def _token_made(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.response.get("hmac"):
        yield facts.Secret(decoded.at, "the HMAC of a delegation token")


def _scram_changed(decoded: DecodedExchange) -> Iterator[Fact]:
    if listed(decoded.request, "upsertions"):
        yield facts.Secret(decoded.at, "a salted SCRAM password")


_SECRET = frozenset({facts.Secret})
READERS: Final = {38: Reading(_SECRET, _token_made), 51: Reading(_SECRET, _scram_changed)}
