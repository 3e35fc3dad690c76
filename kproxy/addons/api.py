"""The public interface for addons; other packages may depend on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from kproxy.decoders.compiler import Values
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.exchange_json import SASL_TOKEN, exchange_json
from kproxy.decoders.frames import decode_frame, where_of
from kproxy.decoders.schema import Message, errors
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.decoders.writer import write

if TYPE_CHECKING:
    from kproxy.captures.index.summary import Summary
    from kproxy.captures.reader import Reader

SIZE = 4
"""Size in bytes of the length field at the start of a frame."""


class Observer:
    """Receives recorded exchanges in the order in which they became complete; never delays the traffic.

    kproxy creates subclasses without arguments. If a method raises an exception, kproxy reports it and disables the
    observer.
    """

    name: str = ""
    """The observer's name in kproxy's messages; the class's name if empty."""
    filter: str = ""
    """Display filter (docs/filters.md) that selects the exchanges for this observer; "" selects all.

    kproxy reads this attribute once, before the first exchange.
    """

    def exchange(self, observed: Observed) -> None:
        """Called for each exchange when its response is complete, or when it is certain that no response will come."""

    def finding(self, change: str, finding: dict[str, Any]) -> None:
        """Called when a finding opens, becomes worse or is resolved; `change` is "opened", "worse" or "resolved".

        `finding` is an object "kproxy.finding/1" (docs/findings.md). Findings are drawn from all recorded traffic, not
        only from exchanges that `filter` selects. Rules are evaluated only if an observer defines this method.
        """

    def progress(self, progress: Progress) -> None:
        """Called after each batch of exchanges, and several times a second while no exchanges arrive."""

    def close(self) -> None:
        """Called once at the end, after all other calls."""


class Actor:
    """Changes frames in the relay; while an actor works on a frame, later frames of the connection wait.

    An actor receives frames of the APIs in `apis`: requests if its class defines `request`, responses if it defines
    `response`. kproxy holds each of these frames until it is whole, and decodes it. All other frames bypass the actor.
    kproxy creates subclasses without arguments. If a method raises an exception, kproxy reports it, disables the actor
    and sends the frame unchanged.
    """

    name: str = ""
    """The actor's name in kproxy's messages; the class's name if empty."""
    apis: ClassVar[Collection[str | int]] = ()
    """The APIs whose frames the actor receives, by name or API key ("Metadata", 3)."""

    def request(self, frame: Frame) -> bytes | Act | None:
        """Returns the frame to send to the broker instead of `frame`, or None to send `frame` unchanged.

        It may also return what else to do: `frame.drop()`, `delay()`, `answer()` or `disconnect()`.
        """
        del frame
        return None

    def response(self, frame: Frame) -> bytes | Act | None:
        """Returns the frame to send to the client instead of `frame`, or None to send `frame` unchanged.

        It may also return what else to do: `frame.drop()`, `delay()`, `answer()` or `disconnect()`.
        """
        del frame
        return None


def name_of(addon: Observer | Actor | type[Observer]) -> str:
    return addon.name or (addon if isinstance(addon, type) else type(addon)).__name__


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reader has got: `behind` counts recorded bytes that are still to be read.

    `health` holds the reader's health counts so far. `unknown` counts exchanges that the observer did not receive
    because its filter could not decide.
    """

    behind: int
    health: Health
    unknown: int = 0


@dataclass(slots=True)
class Observed:
    """A complete exchange, with the values that the index holds for it.

    `errors` are the names of the error codes, each once, in order of appearance. `throttle` is in seconds; `long_poll`
    is true if the broker delayed its response to a Fetch until the request's maximum wait. `about` is the text of the
    interface's column "topic/group/transaction".
    """

    exchange: Exchange
    api: str | None
    """Name of the API; None if the API key is unknown, and for an orphan response."""
    status: Status
    errors: tuple[str, ...]
    records: int | None
    throttle: float
    long_poll: bool
    about: str
    _reader: Reader
    _bodies: dict[Side, Values | None] = field(default_factory=dict)

    @classmethod
    def of(cls, exchange: Exchange, summary: Summary, reader: Reader) -> Observed:
        from kproxy.captures.index.format import Flag

        key, version, protocol = exchange.api_key, exchange.api_version, exchange.protocol
        definitions = reader.definitions
        named = None if key is None else definitions.api_name(key, protocol)
        errors = (definitions.error_name(code, key, version, protocol) for code in summary.errors)
        settled = exchange.status is not Status.OK or summary.status is None
        return cls(
            exchange,
            SASL_TOKEN if exchange.token else named,
            exchange.status if settled or summary.status is None else summary.status,
            tuple(errors),
            summary.records,
            summary.throttle_ms / 1000,
            bool(summary.flags & Flag.WAITED),
            summary.label,
            reader,
        )

    @property
    def client(self) -> str:
        """The client's address, "host:port"."""
        return self.exchange.connection.client

    @property
    def broker(self) -> str:
        """The broker's address, "host:port"."""
        return self.exchange.connection.broker

    @property
    def seconds(self) -> float | None:
        """Seconds from the request's last byte to the response's last byte; None unless both were captured."""
        latency = self.exchange.latency_ns
        return None if latency is None else latency / 1e9

    @property
    def request(self) -> Values | None:
        """The request's body, decoded on first use.

        None if the capture does not hold all of it or it cannot be decoded.

        Secrets are not withheld.
        """
        return self._body(Side.CLIENT)

    @property
    def response(self) -> Values | None:
        """The response's body, decoded on first use; None if the capture lacks a part of it or it cannot be decoded.

        Secrets are not withheld.
        """
        return self._body(Side.BROKER)

    def json(self, view: View | None = None) -> dict[str, Any]:
        """The exchange as an object "kproxy.exchange/1" (docs/exchange-json.md).

        Secrets are withheld unless `view` shows them.
        """
        reader = self._reader
        return exchange_json(
            self.exchange, reader.source, reader.definitions, view=view or View(), precision=reader.precision
        )

    def _body(self, side: Side) -> Values | None:
        if side not in self._bodies:
            self._bodies[side] = self._decode(side)
        return self._bodies[side]

    def _decode(self, side: Side) -> Values | None:
        exchange, reader = self.exchange, self._reader
        frame = exchange.request if side is Side.CLIENT else exchange.response
        if frame is None or frame.missing or exchange.token:
            return None
        data = frame.data(reader.source)
        if len(data) < frame.size + SIZE:
            return None
        decoded = decode_frame(data, where_of(exchange, frame), exchange, reader.definitions)
        return None if decoded is None else decoded.body


@dataclass(frozen=True, slots=True)
class Act:
    """An actor's instruction for a frame, such as drop or delay; made by the methods of `Frame`."""

    verb: str
    seconds: float = 0.0
    data: bytes | None = None
    code: int = 0
    body: Values | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame that the relay holds while an actor works on it.

    `client` and `broker` are "host:port". `data` holds the frame's bytes, the length field included. `header` and
    `body` map Kafka's field names to values: integers, text, bytes, lists, and dicts for structs.
    """

    side: Side
    api: str
    api_key: int
    api_version: int
    correlation_id: int
    client: str
    broker: str
    data: bytes
    header: Values
    body: Values
    header_message: Message
    header_version: int
    message: Message
    version: int

    def written(self, *, header: Values | None = None, body: Values | None = None) -> bytes:
        """The bytes of this frame with another header or body.

        Raises decoders.writer.WriteError if a value does not fit.
        """
        content = write(self.header_message, self.header_version, self.header if header is None else header)
        content += write(self.message, self.version, self.body if body is None else body)
        return len(content).to_bytes(SIZE, "big") + content

    def drop(self) -> Act:
        """Forward nothing, so that the client gets no answer.

        If this is a response, the broker has carried out the request.
        """
        return Act("drop")

    def delay(self, seconds: float, data: bytes | None = None) -> Act:
        """Send the frame, or `data` in its place, after `seconds`; later frames wait behind it."""
        return Act("delay", seconds=seconds, data=data)

    def answer(self, *, error: str | int | None = None, body: Values | None = None) -> Act:
        """Answer a request instead of the broker, which never receives it.

        The answer has the error in all its error fields, or this body. In a response, the error replaces the broker's
        error codes. Raises ValueError for an unknown error.
        """
        code = error if isinstance(error, int) or error is None else errors.by_name(error)
        if (code is None) == (body is None) or code == 0:
            raise ValueError(f"answer() takes the name of an error other than NONE, or a body, not {error!r}")
        return Act("answer", code=code or 0, body=body)

    def disconnect(self, *, reset: bool = False) -> Act:
        """End the connection in place of this frame, by FIN or with `reset` by RST; the frame is not forwarded."""
        return Act("disconnect", reset=reset)
