"""Makes facts about the steps of transactions, from requests to their coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact


def _txn(decoded: DecodedExchange, what: str, **more: Any) -> Iterator[Fact]:
    asked = decoded.request
    name = asked.get("transactionalId") or asked.get("v3AndBelowTransactionalId")
    if not name:
        return
    producer = decoded.response.get("producerId", asked.get("producerId", asked.get("v3AndBelowProducerId")))
    epoch = decoded.response.get("producerEpoch", asked.get("producerEpoch", asked.get("v3AndBelowProducerEpoch")))
    error = decoded.error or (decoded.errors[0] if decoded.errors else 0)
    yield facts.Txn(
        decoded.at, name, what, known(producer), known(epoch), error, known(asked.get("transactionTimeoutMs")),
        more.get("committed"),
    )  # fmt: skip


def _init(decoded: DecodedExchange) -> Iterator[Fact]:
    yield from _txn(decoded, "init")


def _add_partitions(decoded: DecodedExchange) -> Iterator[Fact]:
    for one in listed(decoded.request, "transactions"):
        yield from _txn(decoded._replace(request=one), "partitions")
    yield from _txn(decoded, "partitions")


def _add_offsets(decoded: DecodedExchange) -> Iterator[Fact]:
    yield from _txn(decoded, "offsets")


def _end(decoded: DecodedExchange) -> Iterator[Fact]:
    yield from _txn(decoded, "end", committed=bool(decoded.request.get("committed")))


_TXN = frozenset({facts.Txn})
READERS: Final = {
    22: Reading(_TXN, _init),
    24: Reading(_TXN, _add_partitions),
    25: Reading(_TXN, _add_offsets),
    26: Reading(_TXN, _end),
}
