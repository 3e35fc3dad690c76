"""Redacts a frame in place: secrets, payloads or hosts are overwritten, and the length stays the same.

The tree of the frame gives the bytes of each field. Bytes outside of known fields are overwritten too: behind the
readable part of a cut frame, undecodable bodies, trailing bytes, and unknown tagged fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kproxy.captures.redaction import FILL, HOSTS, PAYLOADS, SECRETS, Removed
from kproxy.captures.redaction.hosts import FIELDS, PACKED, Hosts
from kproxy.captures.redaction.records import RecordsRedaction
from kproxy.decoders import secrets
from kproxy.decoders.exchange import Exchange, Frame
from kproxy.decoders.frames import decode_frame, frame_tree, where_of
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.message import may_tell_a_secret
from kproxy.decoders.problems import Code
from kproxy.decoders.records.nodes import topic_of
from kproxy.decoders.records.places import UNALIGNED
from kproxy.decoders.schema import Definitions
from kproxy.decoders.schema.layout import UNKNOWN_TAGS
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View

_UNREAD: Final = frozenset({"unread", "trailing"})
_HOLES: Final = frozenset({Code.GAP, Code.CUT_BY_SNAPLEN, Code.TRUNCATED})
"""Codes of problems whose offset is where a frame's bytes end too early."""
_SIZE: Final = 4
_HEAD: Final = 8
"""Number of bytes of a frame up to a request's API version, or up to the end of a response's correlation id."""
_REQUEST_HEAD: Final = 12
_COMPRESSED: Final = frozenset({"metrics"})
"""Names of bytes fields that may be compressed, so that hosts in them cannot be found."""
_HOSTS_INSIDE: Final = frozenset({"__cluster_metadata", "__consumer_offsets"})
"""Names of topics whose records have fields with hosts."""


class FrameRedaction:
    """Redacts the frames of one reading, and counts redacted values in `removed`.

    With `keep_unread`, unreadable bytes stay unless they may hold a secret: for users who asked for no redaction.
    """

    def __init__(
        self,
        definitions: Definitions,
        presets: Collection[str],
        hosts: Hosts,
        knowledge: Knowledge,
        removed: Removed,
        *,
        keep_unread: bool = False,
    ) -> None:
        self._definitions = definitions
        self._secrets = SECRETS in presets
        self._payloads = PAYLOADS in presets
        self._hosts = hosts if HOSTS in presets else None
        self._any = bool(presets)
        self._keep_unread = keep_unread
        self._view = View(inside=False, open_batches=False, knowledge=knowledge)
        self._removed = removed

    def of(self, data: bytes, frame: Frame, exchange: Exchange) -> bytes:
        """The redacted bytes of a frame, as many as in `data`; both include the frame's length field."""
        if not self._any:
            return data
        out = bytearray(data)
        if exchange.token:
            self._token(out, data)
            return bytes(out)
        root = self._tree(data, frame, exchange)
        stop = self._stop(root, data, frame, exchange)
        for node in _fields(root):
            if node.end <= stop:
                self._node(out, data, node)
        if stop < len(data) and not (self._keep_unread and not self._may_hold_secrets(data, frame, exchange)):
            self._removed.unread += len(data) - stop
            self._fill(out, stop, len(out))
        return bytes(out)

    def learn(self, data: bytes, frame: Frame, exchange: Exchange) -> None:
        """Learn the names and addresses of hosts in the readable part of a frame."""
        if self._hosts is None or exchange.token:
            return
        root = self._tree(data, frame, exchange)
        stop = self._stop(root, data, frame, exchange)
        for node in _fields(root):
            if isinstance(node.value, str) and node.end <= stop:
                self._hosts.learn_values({node.name: node.value})

    def _tree(self, data: bytes, frame: Frame, exchange: Exchange) -> Node:
        return frame_tree(
            data if _whole(data, frame) else data[: _reach(data, frame, exchange)],
            _side(frame, exchange),
            exchange.api_key,
            exchange.api_version,
            self._definitions,
            protocol=exchange.protocol,
            truths=exchange.truths,
            view=self._view,
        )

    def _stop(self, root: Node, data: bytes, frame: Frame, exchange: Exchange) -> int:
        """The offset from which the content of a frame's bytes is unknown; the frame's length if all bytes were
        decoded.

        In a cut frame, this is the end of its tree. In a complete frame, it is the start of the body if the body was
        not decoded to its end or may have another layout.
        """
        start = _HEAD if _side(frame, exchange) is Side.BROKER else _REQUEST_HEAD
        rest = next((one for one in root.children if one.name in _UNREAD and one.field is None), None)
        body = next((one for one in root.children if one.name == "body"), None)
        end = root.end if rest is None else rest.start
        if rest is None and body is None:
            return min(start, end)
        whole = _whole(data, frame)
        stopped = _stopped(root)
        if whole and not stopped and any(node.more for node in root.walk()):
            decoded = decode_frame(data, where_of(exchange, frame), exchange, self._definitions)
            if decoded is not None and decoded.body is not None and not decoded.problems:
                return len(data)
            stopped = True
        if body is None:
            return min(start, end) if stopped else end
        guessed = root.problem is not None or (
            exchange.protocol is None and self._definitions.older(body.type, exchange.api_version or 0) is not None
        )
        if stopped and (whole or guessed):
            return body.start
        return body.start if rest is not None and root.problem is not None else end

    def _node(self, out: bytearray, data: bytes, node: Node) -> None:
        value = node.value
        if value is None or isinstance(value, bool | int | float):
            return
        if node.type == "records":
            self._records(out, node, data)
        elif node.type != "uuid":
            start = _text_start(data, node) if isinstance(value, str) else node.end - len(value)
            if node.secret and (self._secrets or not isinstance(value, str)):
                self._fill(out, start, node.end)
                self._removed.secrets += 1
            elif self._unknown(node):
                self._removed.unread += node.end - start
                self._fill(out, start, node.end)
            elif self._hosts is None or start >= node.end:
                return
            elif node.name in PACKED:
                out[start : node.end] = self._hosts.packed(data[start : node.end])
            elif node.name in FIELDS:
                out[start : node.end] = self._hosts.field(data[start : node.end])
            else:
                out[start : node.end] = self._hosts.content(data[start : node.end])

    def _unknown(self, node: Node) -> bool:
        """Whether it is unknown what a bytes field contains: an unknown tagged field, or one that may be compressed."""
        if isinstance(node.value, str) or self._keep_unread:
            return False
        above = node.parent
        return (above is not None and above.name == UNKNOWN_TAGS) or node.name in _COMPRESSED

    def _records(self, out: bytearray, node: Node, data: bytes) -> None:
        start = node.end - len(node.value)
        topic = topic_of(node, self._view.knowledge)
        hidden = (self._secrets and topic in secrets.TOPICS) or (self._hosts is not None and topic in _HOSTS_INSIDE)
        if not (hidden or self._payloads or self._hosts is not None):
            return
        if node.name == UNALIGNED:
            self._fill(out, start, node.end)
            self._removed.payloads += 1
            return
        redaction = RecordsRedaction(self._hosts, everything=self._payloads or hidden)
        out[start : node.end] = redaction.field(data[start : node.end])
        self._removed.payloads += redaction.payloads

    def _token(self, out: bytearray, data: bytes) -> None:
        if self._secrets:
            self._fill(out, _SIZE, len(out))
            self._removed.secrets += 1
        elif self._hosts is not None:
            out[_SIZE:] = self._hosts.content(data[_SIZE:])

    def _may_hold_secrets(self, data: bytes, frame: Frame, exchange: Exchange) -> bool:
        """Whether the unreadable bytes of a frame may hold a secret."""
        if exchange.protocol is not None:
            return False
        response = _side(frame, exchange) is Side.BROKER
        if exchange.api_key is None and response:
            return not _whole(data, frame) or may_tell_a_secret(data, self._definitions)
        unknown = exchange.api_key is None or exchange.api_key not in self._definitions.apis
        return unknown or secrets.in_frame(exchange.api_key, data, response=response)

    @staticmethod
    def _fill(out: bytearray, start: int, end: int) -> None:
        if start < end:
            out[start:end] = FILL * (end - start)


def _side(frame: Frame, exchange: Exchange) -> Side:
    """CLIENT if the frame is a request, BROKER if it is a response; some requests are sent by brokers."""
    return Side.CLIENT if frame is exchange.request else Side.BROKER


def _whole(data: bytes, frame: Frame) -> bool:
    return not frame.missing and len(data) >= frame.length


def _reach(data: bytes, frame: Frame, exchange: Exchange) -> int:
    """Number of bytes of a cut frame before the first missing one."""
    where = where_of(exchange, frame)
    holes = [problem.offset for problem in exchange.problems if problem.where == where and problem.code in _HOLES]
    if holes and len(data) == frame.captured:
        return min(len(data), *holes)
    return min(len(data), frame.spans[0][1] if frame.spans else 0)


def _fields(root: Node) -> Iterator[Node]:
    """All nodes of a frame's tree, except those for bytes outside of fields."""
    for child in root.children:
        if child.name not in _UNREAD or child.field is not None:
            yield from child.walk()


def _stopped(root: Node) -> bool:
    """Whether decoding of a frame failed; invalid UTF-8 and trailing bytes do not count as failure."""
    odd = {Code.BAD_UTF8, Code.TRAILING_BYTES}
    return any(node.problem is not None and node.problem.code not in odd for node in _fields(root))


def _text_start(data: bytes, node: Node) -> int:
    """Offset of a string's first character in a frame.

    Before it is the string's length: an int16, or the length plus one as a varint.
    """
    if int.from_bytes(data[node.start : node.start + 2], "big") == node.end - node.start - 2:
        return node.start + 2
    at = node.start
    while data[at] & 0x80:
        at += 1
    return at + 1
