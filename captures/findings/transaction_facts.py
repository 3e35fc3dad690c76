"""Makes facts about the steps of transactions, from requests to their coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, known, listed


def _txn(said: Said, what: str, **more: Any) -> Iterator[Fact]:
    asked = said.request
    name = asked.get("transactionalId") or asked.get("v3AndBelowTransactionalId")
    if not name:
        return
    producer = said.response.get("producerId", asked.get("producerId", asked.get("v3AndBelowProducerId")))
    epoch = said.response.get("producerEpoch", asked.get("producerEpoch", asked.get("v3AndBelowProducerEpoch")))
    error = said.error or (said.errors[0] if said.errors else 0)
    yield facts.Txn(
        said.at, name, what, known(producer), known(epoch), error, known(asked.get("transactionTimeoutMs")),
        more.get("committed"),
    )  # fmt: skip


def _init(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "init")


def _add_partitions(said: Said) -> Iterator[Fact]:
    for one in listed(said.request, "transactions"):
        yield from _txn(said._replace(request=one), "partitions")
    yield from _txn(said, "partitions")


def _add_offsets(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "offsets")


def _end(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "end", committed=bool(said.request.get("committed")))


_TXN = frozenset({facts.Txn})
READERS: Final = {
    22: Reading(_TXN, _init),
    24: Reading(_TXN, _add_partitions),
    25: Reading(_TXN, _add_offsets),
    26: Reading(_TXN, _end),
}
