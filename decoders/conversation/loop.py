"""Fast loops over a direction's frames that are whole and captured in order, as nearly all are.

Each loop stops before any other frame and leaves that frame to the framer. This is plain Python. If there is a C
compiler, setup.py also compiles it as the extension `_loop`, with the C types of loop.pxd.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kproxy.decoders.conversation.acks import COMPACT_STRING, STRING, Way, way
from kproxy.decoders.conversation.items import NO_REPLY, REQUEST, RESPONSE, Item
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.problems import Problem
from kproxy.decoders.schema import irregular
from kproxy.decoders.schema.api_keys import CONTROLLED_SHUTDOWN, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kproxy.decoders.stream import Side

if TYPE_CHECKING:
    from typing import Protocol

    from kproxy.decoders.conversation.framer import Framer
    from kproxy.decoders.conversation.recognition import Known
    from kproxy.decoders.conversation.stretch import Stretch
    from kproxy.decoders.exchange import Connection
    from kproxy.decoders.schema.lookup import Definitions
    from kproxy.decoders.stream import Source

    class RequestFramer(Protocol):
        """The members of `conversation.requests.Requests` that the loop over requests uses.

        This is a protocol, because the module of that class imports this one.
        """

        side: Side
        stretch: Stretch
        connection: Connection
        started: list[tuple[int, Exchange]]
        client_ids: dict[bytes, str]
        source: Source
        definitions: Definitions
        known: Known
        limit: int
        attention: int
        position: int
        floor: int

        def client_id(self, raw: bytes) -> str: ...

        def attend(self, frame: Frame, start: int, end: int, problems: list[Problem]) -> None: ...

        def no_reply(self, key: int, version: int, position: int, size: int) -> bool: ...

        def follow_sasl(self, key: int, version: int) -> bool: ...


HEAD = 96
"""Number of bytes of a request that are read first: they hold most client ids, and a Produce's acks."""
NO_REPLY_KEYS = frozenset(key for key in range(128) if irregular.may_expect_no_reply(key))
SASL_KEYS = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})

MORE, BAD = -1, -2
"""Results instead of a position: MORE if more bytes are needed, BAD if the bytes cannot be decoded."""

request_head = Struct(">ihhih").unpack_from  # not in C
response_head = Struct(">ii").unpack_from  # not in C
new_frame, new_exchange = Frame, Exchange  # not in C
_WAITING, _CLIENT = Status.WAITING, Side.CLIENT


def whole_requests(framer: RequestFramer, out: list[Item]) -> None:
    """Append the exchanges of whole requests to `out`, from the framer's `position` on."""
    stretch, connection, started, client_ids = framer.stretch, framer.connection, framer.started, framer.client_ids
    ends, ats, times, side = stretch.ends, stretch.ats, stretch.times, framer.side
    read, versions, limit, attention = framer.source.read, framer.known.versions, framer.limit, framer.attention
    position, floor, last = framer.position, framer.floor, stretch.end
    k = stretch.segment(position)
    begins, border = ends[k - 1], ends[k]
    while position < last:
        while border <= position:
            k += 1
            begins, border = border, ends[k]
        if border - position < 14:
            break
        at = ats[k]
        at += position - begins
        found = read(at, at + HEAD)
        head = found if isinstance(found, bytes) else bytes(found)
        if len(head) < 14:
            break
        size, key, version, correlation_id, length = request_head(head)
        end = position + 4 + size
        if size < 14 or size > limit or end > last:
            break
        if key not in versions or (key == CONTROLLED_SHUTDOWN and version == 0):
            break
        there = min(len(head), border - position, size + 4)
        header_end = 14
        client_id: str | None = None
        if length >= 0:
            header_end += length
            if header_end > there:
                break
            client_id = ""
            if length > 0:
                name = head[14:header_end]
                client_id = client_ids.get(name) or framer.client_id(name)
        floor = max(floor, at + header_end - 1)
        time = times[k]
        spans = [(at, size + 4)] if end <= border else _spans(ends, ats, k, at, position, end)
        while border < end:
            k += 1
            begins, border = border, ends[k]
        key_at = ats[k]
        key_at = max(floor, key_at + end - 1 - begins)
        frame = new_frame(side, position, size, time, times[k], key_at, spans, (), 0)
        exchange = new_exchange(
            0, connection, key, version, correlation_id, client_id, frame, None, _WAITING, None, [], False, None,
            _CLIENT, "", None, None,
        )  # fmt: skip
        started.append((floor, exchange))
        floor = key_at
        if end > attention:
            framer.attend(frame, position, end, exchange.problems)
            attention = framer.attention
        kind = REQUEST
        if key in NO_REPLY_KEYS:
            unanswered = wants_no_reply(head[:there], way(framer.definitions, key, version))
            if framer.no_reply(key, version, position, size) if unanswered is None else unanswered:
                kind = NO_REPLY
        out.append((floor, kind, exchange, correlation_id))
        position = end
        if key in SASL_KEYS and framer.follow_sasl(key, version):
            break
    framer.position, framer.floor = position, floor


def whole_responses(framer: Framer, out: list[Item]) -> None:
    """Append whole responses to `out`, from the framer's `position` on."""
    stretch, side = framer.stretch, framer.side
    ends, ats, times = stretch.ends, stretch.ats, stretch.times
    read, limit, attention = framer.source.read, framer.limit, framer.attention
    position, floor, last = framer.position, framer.floor, stretch.end
    k = stretch.segment(position)
    begins, border = ends[k - 1], ends[k]
    while position < last:
        while border <= position:
            k += 1
            begins, border = border, ends[k]
        if border - position < 8:
            break
        at = ats[k]
        at += position - begins
        found = read(at, at + 8)
        head = found if isinstance(found, bytes) else bytes(found)
        if len(head) < 8:
            break
        size, correlation_id = response_head(head)
        end = position + 4 + size
        if size < 4 or size > limit or end > last:
            break
        time = times[k]
        spans = [(at, size + 4)] if end <= border else _spans(ends, ats, k, at, position, end)
        while border < end:
            k += 1
            begins, border = border, ends[k]
        key_at = ats[k]
        floor = max(floor, key_at + end - 1 - begins)
        frame = new_frame(side, position, size, time, times[k], floor, spans, (), 0)
        problems: list[Problem] | None = None
        if end > attention:
            problems = []
            framer.attend(frame, position, end, problems)
            attention = framer.attention
        out.append((floor, RESPONSE, (frame, problems) if problems else frame, correlation_id))
        position = end
    framer.position, framer.floor = position, floor


def _spans(ends: list[int], ats: list[int], k: int, at: int, position: int, end: int) -> list[tuple[int, int]]:
    """The pieces of [position, end) as (address, length).

    `position` is at address `at` in segment `k`; `end` is in a later segment.
    """
    spans = []
    border = ends[k]
    while border < end:
        spans.append((at, border - position))
        k += 1
        position, border, at = border, ends[k], ats[k]
    spans.append((at, end - position))
    return spans


def wants_no_reply(frame: bytes, found: Way | None) -> bool | None:
    """Whether the request that begins with `frame` (its length field included) is never answered.

    `found` is the path to the request's `acks`, if it has this field; only the bytes up to that field are read. None if
    `frame` ends before the field.
    """
    if found is None:
        return False
    data, size, position = frame, len(frame), 0
    for step in found.steps:
        if step > 0:
            position += step
        elif step == STRING:
            if position + 2 > size:
                return None
            length = data[position] << 8 | data[position + 1]
            position += 2 + (length if length < 0x8000 else 0)
        elif step == COMPACT_STRING:
            length, position = _varint(data, size, position)
            position += max(length - 1, 0)
        else:
            position = _after_tags(data, size, position)
        if position < 0:
            return None if position == MORE else False
    if position + 2 > size:
        return None
    acks = data[position] << 8 | data[position + 1]
    return (acks if acks < 0x8000 else acks - 0x10000) in found.unanswered


def _after_tags(data: bytes, size: int, position: int) -> int:
    """The position after the tagged fields that begin at `position`; MORE or BAD if they cannot be read."""
    count, position = _varint(data, size, position)
    while count > 0 and position > 0:
        count -= 1
        _, position = _varint(data, size, position)
        length, position = _varint(data, size, position)
        position += length
    return position


def _varint(data: bytes, size: int, position: int) -> tuple[int, int]:
    """Read an unsigned varint; returns (value, position after it), or (0, MORE) or (0, BAD) if it cannot be read."""
    if position < 0:
        return 0, position
    value = shift = 0
    while shift < 35:
        if position >= size:
            return 0, MORE
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
        shift += 7
    return 0, BAD
