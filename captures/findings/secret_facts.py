"""Makes facts of secrets in requests and responses of APIs other than SASL's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, listed


def _token_made(said: Said) -> Iterator[Fact]:
    if said.response.get("hmac"):
        yield facts.Secret(said.at, "the HMAC of a delegation token")


def _scram_changed(said: Said) -> Iterator[Fact]:
    if listed(said.request, "upsertions"):
        yield facts.Secret(said.at, "a salted SCRAM password")


_SECRET = frozenset({facts.Secret})
READERS: Final = {38: Reading(_SECRET, _token_made), 51: Reading(_SECRET, _scram_changed)}
