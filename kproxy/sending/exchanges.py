"""An exchange of kproxy's own with a broker, in the form of the exchange JSON."""

from __future__ import annotations

from typing import Any

from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.sending.broker import Answer


class _Bytes:
    """The bytes of one exchange, as a Source (decoders.stream) for the decoder."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]


def line(
    number: int,
    ends: tuple[int, str, str],
    asked: tuple[int, int, str | None],
    frame: bytes,
    answer: Answer,
    definitions: Definitions,
    view: View,
    reason: str | None = None,
) -> dict[str, Any]:
    """The exchange JSON of a request `frame` and its answer.

    `ends` is (number of the connection, client, broker); `asked` is (API key, version, client id); `reason` says why
    there is no response.
    """
    key, version, client_id = asked
    connection = Connection(*ends, first_time=answer.sent)
    correlation_id = int.from_bytes(frame[8:12], "big", signed=True)
    exchange = Exchange(number, connection, key, version, correlation_id, client_id, reason=reason)
    exchange.request = _frame(Side.CLIENT, 0, frame, answer.sent)
    data = frame
    if answer.frame is not None:
        exchange.response = _frame(Side.BROKER, len(frame), answer.frame, answer.received)
        exchange.status = Status.OK
        data += answer.frame
    else:
        exchange.status = Status.NO_REPLY_EXPECTED if reason is None else Status.NO_RESPONSE
    return exchange_json(exchange, _Bytes(data), definitions, view=view)


def _frame(side: Side, at: int, data: bytes, time: int) -> Frame:
    return Frame(side, 0, len(data) - 4, time, time, at + len(data) - 1, [(at, len(data))])
