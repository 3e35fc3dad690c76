"""Decodes the bodies of an exchange to values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.dialects.decoding import Where
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.frames import decode_frame
from kproxy.decoders.message import Decoded
from kproxy.decoders.problems import Problem
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

Values = Mapping[str, Any]


class Bodies:
    """The request and response of an exchange, each decoded once, and their problems.

    `cut`: whether the source no longer has all bytes of a frame that was captured whole; `undecoded` counts the frames
    (0 to 2) that could not be decoded.
    """

    __slots__ = ("cut", "problems", "request", "response", "undecoded")

    def __init__(self, exchange: Exchange, source: Source, definitions: Definitions) -> None:
        self.problems: list[Problem] = list(exchange.problems)
        self.cut = False
        self.undecoded = 0
        self.request: Decoded | None = None
        self.response: Decoded | None = None
        if exchange.token or exchange.status is Status.TLS:
            return
        if exchange.request is not None:
            self.request = self._decode(exchange, "request", exchange.request, source, definitions)
        if exchange.response is not None:
            self.response = self._decode(exchange, "response", exchange.response, source, definitions)

    def _decode(
        self, exchange: Exchange, where: Where, frame: Frame, source: Source, definitions: Definitions
    ) -> Decoded | None:
        if frame.missing:
            return None
        data = frame.data(source)
        if len(data) < frame.length:
            self.cut = True
            return None
        decoded = decode_frame(data, where, exchange, definitions)
        if decoded is not None:
            self.problems += decoded.problems
            self.undecoded += decoded.body is None
        return decoded

    @property
    def asked(self) -> Values | None:
        return None if self.request is None else self.request.body

    @property
    def answered(self) -> Values | None:
        return None if self.response is None else self.response.body
