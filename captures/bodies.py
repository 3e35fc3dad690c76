"""The bodies of an exchange, for whoever wants values and not text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decoders.conversation.stream import Source
from decoders.exchange import Exchange, Frame, Status
from decoders.frames import decode_frame, where_of
from decoders.message import Decoded
from decoders.problems import Problem
from decoders.schema import Definitions

Values = Mapping[str, Any]


class Bodies:
    """The two frames of an exchange, decoded once; `cut` and `undecoded` say why one may be missing."""

    def __init__(self, exchange: Exchange, source: Source, definitions: Definitions) -> None:
        self.problems: list[Problem] = list(exchange.problems)
        self.cut = False
        self.undecoded = 0
        self.request = self._decode(exchange, exchange.request, source, definitions)
        self.response = self._decode(exchange, exchange.response, source, definitions)

    def _decode(
        self, exchange: Exchange, frame: Frame | None, source: Source, definitions: Definitions
    ) -> Decoded | None:
        if frame is None or frame.missing or exchange.token or exchange.status is Status.TLS:
            return None
        data = frame.data(source)
        if len(data) < frame.size + 4:
            self.cut = True
            return None
        decoded = decode_frame(data, where_of(exchange, frame), exchange, definitions)
        if decoded is None:
            return None
        self.problems += decoded.problems
        self.undecoded += decoded.body is None
        return decoded

    @property
    def asked(self) -> Values | None:
        return None if self.request is None else self.request.body

    @property
    def answered(self) -> Values | None:
        return None if self.response is None else self.response.body
