"""Writes a line for each exchange, for users without the terminal interface.

06:11:10.537     18 127.0.0.1:43146       > 127.0.0.1:19092       Produce v10            ok   19.4 ms  shop-orders-0
"""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.captures.export import Reading
from kproxy.captures.index.format import Flag
from kproxy.captures.index.summary import Summariser, Summary
from kproxy.captures.text import RESULTS, api_text, delay_text, latency_text, size_text
from kproxy.decoders.conversation.comments import CHANGED
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side


def result_text(status: Status, codes: Sequence[int], exchange: Exchange, definitions: Definitions) -> str:
    """The first error code of a response with its name, and how many others there are; the status if there is none."""
    if not codes:
        return RESULTS[status]
    name = definitions.error_name(codes[0], exchange.api_key, exchange.api_version, exchange.protocol)
    more = len(codes) - 1
    return f"{codes[0]} {name}" + (f" +{more}" if more else "")


class OneLine:
    """Writes a line for each exchange and each problem that belongs to no exchange; health has no line."""

    problems = 0

    def __init__(self, reader: Reading, knowledge: Knowledge | None = None) -> None:
        self._definitions = reader.definitions
        self._health = reader.health
        self._summaries = Summariser(reader.source, reader.definitions, knowledge)

    def begin(self) -> bytes:
        return b""

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        text = "".join([f"{self.line(item)}\n" for item in items if not isinstance(item, Health)])
        return text.encode("utf-8", "replace")

    def end(self) -> bytes:
        return b""

    def line(self, item: Exchange | StreamProblem) -> str:
        """The line of an item without a line end; control characters are escaped."""
        if isinstance(item, StreamProblem):
            ends = _ends(item.connection.client, item.connection.broker)
            return f"{_clock(item.time)} {'!':>6} {ends} {escape(f'{item.code.value}: {item.message}')}"
        summary = self._summaries.of(item)
        self._health.undecoded += summary.undecoded
        return self._exchange(item, summary)

    def _exchange(self, exchange: Exchange, summary: Summary) -> str:
        connection, key, version = exchange.connection, exchange.api_key, exchange.api_version
        frame = exchange.request or exchange.response
        status = exchange.status
        if status is Status.OK and summary.status is not None:
            status = summary.status
        # If the broker sent the request, the client id in it is the broker's.
        client = (exchange.client_id if exchange.asked_by is Side.CLIENT else None) or connection.client
        api = api_text(self._definitions, key, version, token=exchange.token, protocol=exchange.protocol)
        result = result_text(status, summary.errors, exchange, self._definitions)
        latency = exchange.latency_ns
        if latency is not None:
            waited, throttled = bool(summary.flags & Flag.WAITED), bool(summary.flags & Flag.THROTTLED)
            result += delay_text(long_poll=waited, throttled=throttled)
        columns = (
            f"{_clock(frame.time if frame else connection.first_time)} {exchange.number:>6}",
            _ends(client, connection.broker, asked_by=exchange.asked_by),
            f"{_cut(api, 24):<24}",
            f"{_cut(escape(summary.label), 30):<30}",
            f"{'-' if latency is None else latency_text(latency):>6}",
            f"{_size(exchange.request):>5}/{_size(exchange.response):<5}",
            result + (" (rewritten)" if _rewritten(exchange) else ""),
        )
        problems = [*exchange.problems, *summary.problems]
        problem_text = f" ! {problems[0].code.value}: {problems[0].message}" if problems else ""
        return " ".join(columns).rstrip() + escape(problem_text)


def _rewritten(exchange: Exchange) -> bool:
    """Whether kproxy changed a frame of the exchange, which a packet comment in the capture tells."""
    frames = (exchange.request, exchange.response)
    return any(comment.startswith(CHANGED) for frame in frames if frame for comment in frame.comments)


def health_note(health: Health) -> str | None:
    """A list, as text, of everything that could not be read or decoded; None if everything could."""
    counts = (
        (health.recorder_dropped, "packet", "dropped by the recorder"),
        (health.lost, "byte", "lost"),
        (health.gaps, "gap", ""),
        (health.resyncs, "resynchronisation", ""),
        (health.cut, "frame", "cut"),
        (health.undecoded, "frame", "undecoded"),
        (health.not_kafka, "connection", f"that {are(health.not_kafka)} not Kafka"),
        (health.tls, "connection", "in TLS"),
        (health.stray, "byte", "after the end of their connection"),
        (health.fragments, "IP fragment", "without the first fragment"),
        (health.untimed, "packet", "with a time out of range (the previous packet's time is used)"),
        *((count, "packet", f"not read: {name}") for name, count in sorted(health.unread.items())),
    )
    counts_text = [f"{counted(count, noun, ',')} {what}".rstrip() for count, noun, what in counts if count]
    return ", ".join(counts_text) or None


def _ends(client: str, broker: str, *, asked_by: Side = Side.CLIENT) -> str:
    arrow = ">" if asked_by is Side.CLIENT else "<"
    return f"{_cut(escape(client), 21):<21} {arrow} {_cut(broker, 21):<21}"


def _size(frame: Frame | None) -> str:
    return "-" if frame is None else size_text(frame.size)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _clock(time: int) -> str:
    """The time of day in UTC with milliseconds; `time` is in nanoseconds since the epoch."""
    return timestamp(time)[11:23]
