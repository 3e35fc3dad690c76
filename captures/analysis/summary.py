"""What a reading's exchanges come to, per API: how many, how many failed, how long they took, how big they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict

from captures.analysis.histogram import Histogram
from decoders.exchange import Exchange, Status
from decoders.filters import ExchangeRow, Unavailable
from decoders.frames import error_name
from decoders.schema import Definitions

NANOSECONDS = 1_000_000
"""In a millisecond, the unit of what is shown."""

MOST_APIS = 512
"""Names that are counted apart; damaged traffic may make up thousands of keys."""


class Line(TypedDict):
    """One API of a summary; latencies are milliseconds, None where nothing was answered."""

    api: str
    count: int
    errors: int
    unanswered: int
    undecodable: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    request_bytes: int
    response_bytes: int
    error_codes: dict[str, int]


@dataclass(slots=True)
class ApiSummary:
    """`errors` counts exchanges whose response names an error; `codes` how many name each.

    Bytes are those of whole frames, their length fields included. `undecodable` counts answers that cannot be decoded.
    """

    name: str
    count: int = 0
    errors: int = 0
    unanswered: int = 0
    undecodable: int = 0
    latency: Histogram = field(default_factory=Histogram)
    request_bytes: int = 0
    response_bytes: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def line(self) -> Line:
        return {
            "api": self.name,
            "count": self.count,
            "errors": self.errors,
            "unanswered": self.unanswered,
            "undecodable": self.undecodable,
            "p50_ms": _milliseconds(self.latency.percentile(0.5)),
            "p99_ms": _milliseconds(self.latency.percentile(0.99)),
            "max_ms": _milliseconds(self.latency.largest),
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "error_codes": dict(self.codes.most_common()),
        }


def _milliseconds(value: int | None) -> float | None:
    return None if value is None else round(value / NANOSECONDS, 3)


class Summary:
    """Adds exchanges up; memory depends on the number of APIs alone."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._apis: dict[str, ApiSummary] = {}

    def add(self, row: ExchangeRow) -> None:
        """Count one exchange that is over."""
        exchange = row.exchange
        api = self._api(exchange)
        api.count += 1
        if exchange.status is Status.NO_RESPONSE:
            api.unanswered += 1
        if exchange.request is not None:
            api.request_bytes += exchange.request.size + 4
        if exchange.response is not None:
            api.response_bytes += exchange.response.size + 4
        if (latency := exchange.latency_ns) is not None:
            api.latency.add(latency)
        try:
            codes = row.error_codes
        except Unavailable:
            api.undecodable += 1
            return
        if codes:
            api.errors += 1
            api.codes.update(self._names(exchange, codes))

    def _names(self, exchange: Exchange, codes: Iterable[int]) -> Iterable[str]:
        key, version, protocol = exchange.api_key, exchange.api_version, exchange.protocol
        return [error_name(code, key, version, self._definitions, protocol) for code in codes]

    def _api(self, exchange: Exchange) -> ApiSummary:
        name = self.api_name(exchange)
        if name not in self._apis:
            if len(self._apis) >= MOST_APIS:
                name = "(others)"
                if name in self._apis:
                    return self._apis[name]
            self._apis[name] = ApiSummary(name)
        return self._apis[name]

    def api_name(self, exchange: Exchange) -> str:
        """The API as the exchange JSON names it; "Key 31000" for an unknown one, "(unmatched)" for an orphan."""
        if exchange.token:
            return "SaslToken"
        if exchange.api_key is None:
            return "(tls)" if exchange.status is Status.TLS else "(unmatched)"
        return self._definitions.api_name(exchange.api_key, exchange.protocol) or f"Key {exchange.api_key}"

    def apis(self) -> list[ApiSummary]:
        """The most frequent API first."""
        return sorted(self._apis.values(), key=lambda api: (-api.count, api.name))
