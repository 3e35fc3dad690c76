"""One line an exchange, for where there is no terminal UI."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from captures.index.summary import Summariser
from decoders.exchange import Exchange, Health, Status, StreamProblem

if TYPE_CHECKING:
    from captures.reader import Reader

_STATES = {
    Status.WAITING: "waiting",
    Status.OK: "ok",
    Status.NO_REPLY_EXPECTED: "no reply expected",
    Status.NO_RESPONSE: "no response",
    Status.ORPHAN_RESPONSE: "no request seen",
    Status.UNDECODABLE: "undecodable",
    Status.CUT: "cut",
    Status.TLS: "TLS",
}


def size(count: int) -> str:
    """Bytes in at most five characters: 812, 4.1k, 31M."""
    value = float(count)
    for unit in ("", "k", "M", "G"):
        if value < 999.5 or unit == "G":
            return f"{value:.1f}{unit}" if unit and value < 9.95 else f"{value:.0f}{unit}"
        value /= 1000
    return str(count)


class OneLine:
    """Text lines of a reading's exchanges; feed them in order, because Metadata teaches it names."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._summaries = Summariser(reader.source, reader.definitions)

    def line(self, item: Exchange | StreamProblem | Health) -> str:
        """One line without its end."""
        if isinstance(item, Exchange):
            return self._exchange(item)
        if isinstance(item, StreamProblem):
            return f"{'':12} problem  {item.connection.client} > {item.connection.broker}  {item.message}"
        parts = [f"{item.packets} packets", f"{size(item.bytes)}B"]
        names = ("lost", "gaps", "resyncs", "cut", "undecoded", "not_kafka", "tls", "recorder_dropped")
        parts += [f"{count} {name.replace('_', ' ')}" for name in names if (count := getattr(item, name))]
        return ", ".join(parts)

    def _exchange(self, exchange: Exchange) -> str:
        summary = self._summaries.of(exchange)
        frame = exchange.request or exchange.response
        nanoseconds = 0 if frame is None else frame.time
        when = datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%H:%M:%S")
        who = exchange.client_id or exchange.connection.client
        request = "-" if exchange.request is None else size(exchange.request.size)
        response = "-" if exchange.response is None else size(exchange.response.size)
        latency = "-" if exchange.latency_ns is None else f"{exchange.latency_ns / 1e6:.1f}"
        columns = (
            f"{when}.{nanoseconds // 10**6 % 1000:03}",
            f"{exchange.number:>6}",
            f"{_cut(_printable(who), 16):<16}",
            f"{_cut(exchange.connection.broker, 21):<21}",
            f"{self._api(exchange):<24}",
            f"{_cut(_printable(summary.label), 32):<32}",
            f"{latency:>8} ms",
            f"{request:>5}/{response:<5}",
            self._result(exchange, summary.errors),
        )
        return " ".join(columns).rstrip()

    def _api(self, exchange: Exchange) -> str:
        if exchange.token:
            return "SaslToken"
        if exchange.api_key is None:
            return "(unmatched)"
        api = self._reader.definitions.api(exchange.api_key)
        name = f"Key {exchange.api_key}" if api is None else api.name
        return f"{name} v{exchange.api_version}"

    def _result(self, exchange: Exchange, errors: Sequence[int]) -> str:
        if exchange.status is Status.OK and errors:
            from decoders.schema import errors as names

            result = names.name(errors[0]) + (f" +{len(errors) - 1}" if len(errors) > 1 else "")
        else:
            result = _STATES.get(exchange.status, exchange.status.value)
        if exchange.problems:
            result += f" [{', '.join(sorted({problem.code.value for problem in exchange.problems}))}]"
        return result


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "·" for character in text)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
