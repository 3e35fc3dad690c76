"""What of a connection is recorded, where that is not everything: bytes in, the pieces to be recorded out.

Two things leave bytes out. A *snap length* keeps the first bytes of each frame and of the rest the number alone. A
*filter* on what request headers say leaves whole exchanges out: the request's frame, and the response with its
correlation id. A piece ends where bytes were left out, so that a later frame begins another packet.

What is no frame of Kafka's (TLS, HTTP) is not filtered, and the snap length is one of each piece. A request of an API
that is not Kafka's own is recorded, as the tokens are that follow SaslHandshake v0, and as that one is: without it
they could not be read.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from kproxy.core.connection import no_frame
from kproxy.core.passing import MAX_NOTED
from kproxy.decoders.conversation.acks import way
from kproxy.decoders.conversation.compiled import wants_no_reply
from kproxy.decoders.filters import Expression
from kproxy.decoders.schema import Definitions, api_keys

Data = bytes | memoryview
Piece = tuple[Data, int]
"""Bytes, and how many more there were after them that are not recorded."""

_HEAD = struct.Struct(">ihhih")
"""Length, API key, API version, correlation id and the client id's length."""
_WITHOUT_CLIENT_ID = 12
_RESPONSE_HEAD = 8
_ENDLESS = 1 << 62
_ALWAYS = frozenset({(17, 0)})
"""SaslHandshake v0: says that frames without a header follow."""
_MOST_DECIDED = 1000


class Choice:
    """What all connections of a recording have in common: `snap` bytes of a frame, exchanges that match `wanted`."""

    def __init__(self, snap: int | None, wanted: Expression | None, definitions: Definitions) -> None:
        self.snap = snap or _ENDLESS
        self.matches = None if wanted is None else wanted.compile()
        self.definitions = definitions


@dataclass(slots=True)
class _Request:
    """As much of a filter's row as a request's header tells (`decoders.filters.fields.REQUEST_ATTRIBUTES`)."""

    client: str
    broker: str
    api_key: int
    api_class: str | None
    api_version: int
    client_id: str | None


@dataclass(slots=True)
class _Way:
    """One direction: `rest` bytes of a frame are to come, `keep` of them to be recorded."""

    rest: int = 0
    keep: int = 0
    excluded: bool = False
    head: bytes = b""
    """The start of a frame, while it does not tell what becomes of it."""
    first: bool = True
    opaque: bool = False


@dataclass(slots=True)
class _Cut:
    """Pieces of `view` in the making: [start, end) of it, and the number of bytes left out after that."""

    view: memoryview
    parts: list[list[int]] = field(default_factory=list)

    def add(self, start: int, end: int, beyond: int) -> None:
        last = self.parts[-1] if self.parts else None
        if last is not None and last[1] == start:  # nothing was left out between them
            last[1], last[2] = end, beyond
        else:
            self.parts.append([start, end, beyond])

    def pieces(self) -> list[Piece]:
        """The pieces; small ones are copies, so that they do not keep all that was read in memory."""
        size = len(self.view)
        found: list[Piece] = []
        for start, end, beyond in self.parts:
            piece = self.view[start:end]
            found.append((piece if 2 * (end - start) > size else bytes(piece), beyond))
        return found


class Selection:
    """One connection's; `client` and `broker` are its addresses as filters see them."""

    def __init__(self, choice: Choice, client: tuple[str, int], broker: tuple[str, int]) -> None:
        self._choice = choice
        self._client, self._broker = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                                      for host, port in (client, broker))  # fmt: skip
        self._ways = (_Way(), _Way())
        self._outstanding: dict[int, deque[bool]] = {}
        """Whether the responses to come are excluded, by correlation id; ids of which none is are not in it."""
        self._decided: dict[tuple[int, int, str | None], bool] = {}
        self._excluded = 0

    def take_excluded(self) -> int:
        """How many requests were left out since the last call."""
        excluded, self._excluded = self._excluded, 0
        return excluded

    def rest(self, side: int) -> bytes:
        """What is still held back of a direction that ends."""
        way = self._ways[side]
        head, way.head = way.head, b""
        return head

    def feed(self, side: int, data: Data) -> list[Piece]:
        """Bytes that a side (0 the client, 1 the broker) sent."""
        way = self._ways[side]
        if way.head:
            data = way.head + data
            way.head = b""
        view = memoryview(data)
        position, size = 0, len(view)
        cut = _Cut(view)
        if way.opaque:
            way.keep = self._choice.snap
        while position < size:
            if not way.rest and not self._begin(side, way, view[position:]):
                way.head = bytes(view[position:])
                break
            taken = min(way.rest, size - position)
            kept = min(way.keep, taken)
            if not way.excluded:
                cut.add(position, position + kept, taken - kept)
            way.rest -= taken
            way.keep -= kept
            position += taken
        return cut.pieces()

    def _begin(self, side: int, way: _Way, start: memoryview) -> bool:
        """Decides what becomes of the frame that starts so; False where more of it must be there for that."""
        if len(start) < 4:
            return False
        length = int.from_bytes(start[:4], "big", signed=True)
        if no_frame(bytes(start[:8]), length, first=way.first) is not None:
            way.opaque, way.rest, way.excluded = True, _ENDLESS, False
        else:
            excluded = False
            if self._choice.matches is not None:
                found = self._request(start, length) if side == 0 else self._response(start, length)
                if found is None:
                    return False
                excluded = found
            way.rest, way.excluded = 4 + length, excluded
        way.first = False
        way.keep = self._choice.snap
        return True

    def _request(self, start: memoryview, length: int) -> bool | None:
        """Whether the request that starts so is excluded; None while its header is not there."""
        whole = 4 + length
        if len(start) < min(_HEAD.size, whole):
            return None
        if whole < _WITHOUT_CLIENT_ID:
            return False
        _, key, version, correlation_id = struct.unpack_from(">ihhi", start)
        client_id = None
        definitions = self._choice.definitions
        if definitions.request_header_version(key, version) > 0 and whole >= _HEAD.size:
            end = _HEAD.size + max(_HEAD.unpack_from(start)[4], 0)
            if len(start) < min(end, whole):
                return None
            client_id = str(start[_HEAD.size : end], "utf-8", "replace") if _HEAD.unpack_from(start)[4] >= 0 else None
        excluded = not self._wanted(key, version, client_id)
        if excluded:
            self._excluded += 1
        if (excluded or correlation_id in self._outstanding) and not (
            key == api_keys.PRODUCE and wants_no_reply(bytes(start[: 1 << 10]), way(definitions, key, version))
        ):
            self._note(correlation_id, excluded)
        return excluded

    def _wanted(self, key: int, version: int, client_id: str | None) -> bool:
        told = key, version, client_id
        wanted = self._decided.get(told)
        if wanted is None:
            matches = self._choice.matches
            assert matches is not None  # noqa: S101 (who asks has a filter)
            api = self._choice.definitions.api(key)
            wanted = (
                api is None
                or (key, version) in _ALWAYS
                or matches(_Request(self._client, self._broker, key, str(api.klass), version, client_id or None))
            )
            if len(self._decided) >= _MOST_DECIDED:
                self._decided.clear()
            self._decided[told] = wanted
        return wanted

    def _note(self, correlation_id: int, excluded: bool) -> None:
        waiting = self._outstanding.setdefault(correlation_id, deque(maxlen=MAX_NOTED))
        waiting.append(excluded)
        if len(self._outstanding) > MAX_NOTED:
            del self._outstanding[next(iter(self._outstanding))]

    def _response(self, start: memoryview, length: int) -> bool | None:
        """Whether the response that starts so is excluded; None while its correlation id is not there."""
        if length < 4:
            return False
        if len(start) < _RESPONSE_HEAD:
            return None
        correlation_id = int.from_bytes(start[4:8], "big", signed=True)
        waiting = self._outstanding.get(correlation_id)
        if waiting is None:
            return False
        excluded = waiting.popleft()
        if not waiting:
            del self._outstanding[correlation_id]
        return excluded
