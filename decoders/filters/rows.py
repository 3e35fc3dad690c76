"""What a filter asks of a row: an exchange, wherever it is kept.

A row is any object with the attributes of `Row`; each is read only when an expression needs it, so make those that
cost something lazy. A value that the exchange does not have is None; one that it has but that cannot be told (bytes
that are gone, a body that cannot be decoded) raises `Unavailable`, which the caller counts and shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from decoders.conversation.stream import Source
    from decoders.exchange import Exchange
    from decoders.schema import Definitions


KAFKA = "kafka"
"""What `protocol` is where no dialect is spoken."""


class Unavailable(Exception):  # noqa: N818 (a state of the row, not an error of the filter)
    """The row cannot tell whether it matches."""


class Row(Protocol):
    """One exchange as the filter sees it; times and durations are nanoseconds, sizes a frame's length field."""

    @property
    def number(self) -> int: ...
    @property
    def connection(self) -> int: ...
    @property
    def client(self) -> str:
        """The address "host:port" of the side that opened the connection; `broker` the other."""
        ...

    @property
    def broker(self) -> str: ...
    @property
    def api_key(self) -> int | None: ...
    @property
    def api_version(self) -> int | None: ...
    @property
    def correlation_id(self) -> int | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def protocol(self) -> str:
        """The name of a dialect, or "kafka"."""
        ...

    @property
    def status(self) -> str:
        """A value of decoders.exchange.Status."""
        ...

    @property
    def error_codes(self) -> Sequence[int]:
        """The response's non-zero error codes, each once, in order of appearance."""
        ...

    @property
    def time(self) -> int:
        """When the request's last byte passed (the response's, where no request was seen)."""
        ...

    @property
    def latency(self) -> int | None: ...
    @property
    def request_size(self) -> int | None: ...
    @property
    def response_size(self) -> int | None: ...


class ExchangeRow:
    """An `Exchange` as a row; its response is decoded only for a filter that asks for errors."""

    __slots__ = ("_codes", "_definitions", "_source", "exchange")

    def __init__(self, exchange: Exchange, source: Source, definitions: Definitions) -> None:
        self.exchange = exchange
        self._source = source
        self._definitions = definitions
        self._codes: Sequence[int] | None = None

    @property
    def number(self) -> int:
        return self.exchange.number

    @property
    def connection(self) -> int:
        return self.exchange.connection.number

    @property
    def client(self) -> str:
        return self.exchange.connection.client

    @property
    def broker(self) -> str:
        return self.exchange.connection.broker

    @property
    def api_key(self) -> int | None:
        return self.exchange.api_key

    @property
    def api_version(self) -> int | None:
        return self.exchange.api_version

    @property
    def correlation_id(self) -> int | None:
        return self.exchange.correlation_id

    @property
    def client_id(self) -> str | None:
        return self.exchange.client_id

    @property
    def protocol(self) -> str:
        return self.exchange.protocol or KAFKA

    @property
    def status(self) -> str:
        return self.exchange.status.value

    @property
    def error_codes(self) -> Sequence[int]:
        if self._codes is None:
            self._codes = self._decode_codes()
        return self._codes

    def _decode_codes(self) -> Sequence[int]:
        from decoders.frames import codes, decode_frame

        exchange = self.exchange
        if exchange.response is None or exchange.token:
            return ()
        if exchange.response.missing:
            raise Unavailable("the capture does not hold the whole response")
        decoded = decode_frame(exchange.response.data(self._source), "response", exchange, self._definitions)
        if decoded is None:
            raise Unavailable("a response without a request")
        if decoded.body is None:
            raise Unavailable("the response cannot be decoded")
        return codes(decoded, exchange, self._definitions)

    @property
    def time(self) -> int:
        frame = self.exchange.request or self.exchange.response
        return 0 if frame is None else frame.time

    @property
    def latency(self) -> int | None:
        return self.exchange.latency_ns

    @property
    def request_size(self) -> int | None:
        return None if self.exchange.request is None else self.exchange.request.size

    @property
    def response_size(self) -> int | None:
        return None if self.exchange.response is None else self.exchange.response.size
