"""Makes the columns of an index row that need decoded bodies: label, error codes, record count, throttling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kproxy.captures.index import labels
from kproxy.captures.index.format import NOT_KNOWN, NOT_THERE, Flag
from kproxy.decoders.dialects.decoding import Where
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable
from kproxy.decoders.fields import STORED, Field
from kproxy.decoders.frames import codes, decode_frame, where_of
from kproxy.decoders.knowledge import Knowledge, Nodes
from kproxy.decoders.learning import learn_both
from kproxy.decoders.meanings.remarks import wait_over
from kproxy.decoders.message import Decoded
from kproxy.decoders.problems import Problem
from kproxy.decoders.records.counting import counted
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Source
from kproxy.decoders.subjects import NOTHING, subject_text

FETCHES = frozenset({api_keys.FETCH, api_keys.SHARE_FETCH})
"""Fetch and ShareFetch: a broker may hold these requests until there is data or their maximum wait is over."""


NO_FLAGS = Flag(0)
_NOTHING_STORED = (NOT_KNOWN,) * len(STORED)


@dataclass(slots=True)
class Summary:
    """The columns of an index row that come from decoded bodies."""

    label: str = ""
    errors: Sequence[int] = ()
    """The response's non-zero error codes, each once, in the order of appearance."""
    records: int | None = None
    subject: str | None = None
    """The exchange's subject, as `Subject.to_text` writes it; None if the API is unknown or a body could not be
    decoded.
    """
    flags: Flag = NO_FLAGS
    throttle_ms: int = 0
    problems: list[Problem] = field(default_factory=list)
    """Problems found in the bodies, without those in `Exchange.problems`."""
    undecoded: int = 0
    """Number of frames whose body fits no definition."""
    status: Status | None = None
    """CUT or UNDECODABLE if a body could not be decoded; it replaces the exchange's own status if that is OK. Otherwise
    None.
    """
    stored: Sequence[int] = _NOTHING_STORED
    """The stored attributes, in the order of their columns."""


class Summariser:
    """Makes the summaries of one reading's exchanges in order, and learns facts from all connections.

    `nodes` holds the brokers' node ids by "host:port"; `knowledge` holds all other facts.
    """

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        knowledge: Knowledge | None = None,
        nodes: Nodes | None = None,
    ) -> None:
        self._source = source
        self._definitions = definitions
        self.knowledge = knowledge or Knowledge()
        self.nodes = Nodes() if nodes is None else nodes
        self._learnt = Learnt(self.knowledge, self.nodes)

    def of(self, exchange: Exchange) -> Summary:
        """The summary of an exchange, as far as its bodies are captured. Never raises."""
        summary = Summary()
        decoded = self._summarise(exchange, summary)
        if exchange.status is not Status.WAITING:
            row = ExchangeRow(exchange, self._source, self._definitions, self._learnt, decoded)
            summary.stored = [_stored(field, row) for field in STORED]
        return summary

    def _summarise(self, exchange: Exchange, summary: Summary) -> dict[Where, Decoded | Unavailable | None]:
        """Fill in `summary`, except the stored attributes; returns the decoded request and response, or why they are
        missing.
        """
        if exchange.status is Status.WAITING and exchange.request is None:
            return {}  # so far, only the header was captured
        if exchange.token:
            summary.subject = NOTHING
        if exchange.token or exchange.status is Status.TLS:
            return {}
        request = self._decode(exchange, exchange.request, summary)
        response = self._decode(exchange, exchange.response, summary)
        decoded: dict[Where, Decoded | Unavailable | None] = {}
        if request is not None:
            decoded["request"] = request
        if response is not None:
            decoded["response"] = response
        asked = request.body if request else None
        answered = response.body if response else None
        if exchange.protocol is None:
            learn_both(request, response, self.knowledge)
        if response is not None:
            summary.errors = codes(response, exchange, self._definitions)
        if answered is not None:
            if exchange.protocol is None:
                self.nodes.learn(exchange.api_key, answered)
            throttle = answered.get("throttleTimeMs")
            if isinstance(throttle, int) and throttle > 0:
                summary.throttle_ms = throttle
                summary.flags |= Flag.THROTTLED
        key = exchange.api_key
        name = None if key is None else self._definitions.api_name(key, exchange.protocol)
        if name is not None:
            summary.label = labels.label(name if exchange.protocol is None else "", asked, answered, self.knowledge)
        if exchange.protocol is not None:
            summary.subject = NOTHING
            return decoded
        if _complete(exchange, asked, answered):
            summary.subject = subject_text(key, request, response)
        summary.records, cut = counted(key, asked, answered)
        if cut:
            summary.flags |= Flag.CUT_RECORDS
        if key in FETCHES and asked is not None and wait_over(asked.get("maxWaitMs"), exchange.latency_ns):
            summary.flags |= Flag.WAITED
        return decoded

    def _decode(self, exchange: Exchange, frame: Frame | None, summary: Summary) -> Decoded | None:
        """A frame decoded, with its problems added to `summary`; None if there is nothing to decode."""
        if frame is None or frame.missing:
            return None
        data = frame.data(self._source)
        if len(data) < frame.length:
            summary.status = Status.CUT
            return None
        decoded = decode_frame(data, where_of(exchange, frame), exchange, self._definitions)
        if decoded is None:
            return None
        summary.problems += decoded.problems
        if decoded.body is None:
            summary.undecoded += 1
            if summary.status is None:
                summary.status = Status.UNDECODABLE
        if decoded.guessed_version is not None:
            summary.flags |= Flag.GUESSED
        if decoded.definitions is not None:
            summary.flags |= Flag.OLDER_LAYOUT
        return decoded


def _stored(field: Field, row: ExchangeRow) -> int:
    if field.of is None:
        return NOT_KNOWN
    try:
        value = field.of(row)
    except Unavailable:
        return NOT_KNOWN
    return NOT_THERE if value is None else int(value)


def _complete(exchange: Exchange, asked: object, answered: object) -> bool:
    """Whether all bodies of an exchange that are in the capture were decoded."""
    if exchange.api_key is None:
        return False
    return (asked is not None) is (exchange.request is not None) and (answered is not None) is (
        exchange.response is not None
    )
