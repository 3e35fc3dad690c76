"""Selects the bytes of a connection that are recorded: bytes in, pieces to record out.

Bytes are left out for two reasons. A *snap length* keeps the first bytes of each frame; of the remaining bytes only the
number is recorded. A *filter* on request headers leaves out whole exchanges: the request, and the response with its
correlation id. A piece ends where bytes were left out, so that the next frame begins a new packet.

Other protocols (TLS, HTTP) are not filtered; the snap length then applies to each read. Requests of APIs that Kafka
does not have are always recorded. So are SaslHandshake v0 and the tokens after it: without the handshake the tokens
could not be read.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from kproxy.core.passing import MAX_NOTED
from kproxy.core.protocols import no_frame
from kproxy.decoders.conversation.acks import way
from kproxy.decoders.conversation.compiled import wants_no_reply
from kproxy.decoders.filters import Expression
from kproxy.decoders.schema import Definitions, api_keys

Data = bytes | memoryview
Piece = tuple[Data, int]
"""(bytes to record, number of bytes after them that are left out)"""

_HEAD = struct.Struct(">ihhih")
"""A request header's length, API key, API version, correlation id and size of the client id."""
_WITHOUT_CLIENT_ID = 12
_RESPONSE_HEAD = 8
_ENDLESS = 1 << 62
_ALWAYS = frozenset({(17, 0)})
"""(API key, version) of requests that are always recorded: frames without a header follow SaslHandshake v0."""
_MOST_DECIDED = 1000


class Choice:
    """A recording's selection: `snap` bytes of each frame (None: all) of exchanges that match `wanted` (None: all)."""

    def __init__(self, snap: int | None, wanted: Expression | None, definitions: Definitions) -> None:
        self.snap = snap or _ENDLESS
        self.matches = None if wanted is None else wanted.compile()
        self.definitions = definitions


@dataclass(slots=True)
class _Request:
    """A row for filters, with the fields that are known from a request's header.

    See `decoders.filters.language.REQUEST_ATTRIBUTES`.
    """

    client: str
    broker: str
    api_key: int
    api_class: str | None
    api_version: int
    client_id: str | None


@dataclass(slots=True)
class _Way:
    """The state of one direction. `rest` bytes of the current frame are still to come, of which `keep` are recorded."""

    rest: int = 0
    keep: int = 0
    excluded: bool = False
    head: bytes = b""
    """The first bytes of a frame, while they are too few to decide on the frame."""
    first: bool = True
    opaque: bool = False


@dataclass(slots=True)
class _Cut:
    """Collects the pieces of `view` to record, each as [start, end, number of bytes left out after it]."""

    view: memoryview
    parts: list[list[int]] = field(default_factory=list)

    def add(self, start: int, end: int, beyond: int) -> None:
        last = self.parts[-1] if self.parts else None
        if last is not None and last[1] == start:  # nothing was left out between them
            last[1], last[2] = end, beyond
        else:
            self.parts.append([start, end, beyond])

    def pieces(self) -> list[Piece]:
        """The collected pieces. Small ones are copies, because a view would keep the memory of the whole read."""
        size = len(self.view)
        found: list[Piece] = []
        for start, end, beyond in self.parts:
            piece = self.view[start:end]
            found.append((piece if 2 * (end - start) > size else bytes(piece), beyond))
        return found


class Selection:
    """Selects the bytes of one connection; filters see the addresses `client` and `broker`, (host, port) each."""

    def __init__(self, choice: Choice, client: tuple[str, int], broker: tuple[str, int]) -> None:
        self._choice = choice
        self._client, self._broker = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                                      for host, port in (client, broker))  # fmt: skip
        self._ways = (_Way(), _Way())
        self._outstanding: dict[int, deque[bool]] = {}
        """By correlation id, for each response still to come, whether it is left out.

        Ids without such a response are absent.
        """
        self._decided: dict[tuple[int, int, str | None], bool] = {}
        self._excluded = 0

    def take_excluded(self) -> int:
        """The number of requests left out since the last call."""
        excluded, self._excluded = self._excluded, 0
        return excluded

    def rest(self, side: int) -> bytes:
        """Returns the bytes of `side` that are still held back; to be called when that direction ends."""
        way = self._ways[side]
        head, way.head = way.head, b""
        return head

    def feed(self, side: int, data: Data) -> list[Piece]:
        """Takes bytes that `side` (0 the client, 1 the broker) has sent; returns the pieces to record."""
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
        """Decides on the frame that begins with `start`; returns False if more bytes are needed to decide."""
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
        """Whether the request that begins with `start` is left out; None until its header has arrived."""
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
        kind = key, version, client_id
        wanted = self._decided.get(kind)
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
            self._decided[kind] = wanted
        return wanted

    def _note(self, correlation_id: int, excluded: bool) -> None:
        waiting = self._outstanding.setdefault(correlation_id, deque(maxlen=MAX_NOTED))
        waiting.append(excluded)
        if len(self._outstanding) > MAX_NOTED:
            del self._outstanding[next(iter(self._outstanding))]

    def _response(self, start: memoryview, length: int) -> bool | None:
        """Whether the response that begins with `start` is left out; None until its correlation id has arrived."""
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
