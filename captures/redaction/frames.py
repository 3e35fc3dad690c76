"""A frame without its secrets, payloads or hosts: overwritten in place, as long as before.

Fields are found by the tree of the frame, which has the bytes of each. What no field claims is overwritten as a whole
where the API may carry what is to go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from captures.redaction import FILL, HOSTS, PAYLOADS, SECRETS, Removed
from captures.redaction.hosts import PACKED, Hosts
from captures.redaction.records import RecordsRedaction
from decoders import secrets
from decoders.conversation.stream import Side
from decoders.exchange import Exchange, Frame
from decoders.frames import frame_tree
from decoders.knowledge import Knowledge
from decoders.message import may_tell_a_secret
from decoders.records.nodes import topic_of
from decoders.records.places import PLACES, UNALIGNED
from decoders.schema import Definitions
from decoders.tree import Node
from decoders.view import View

_UNREAD: Final = frozenset({"unread", "trailing"})
_SIZE: Final = 4
_HEAD: Final = 8
"""Bytes of a frame that say nothing but its size and what it is, or which request it answers."""
_REQUEST_HEAD: Final = 12


class FrameRedaction:
    """Overwrites frames of one reading; what goes is counted in `removed`."""

    def __init__(
        self,
        definitions: Definitions,
        presets: Collection[str],
        hosts: Hosts,
        knowledge: Knowledge,
        removed: Removed,
    ) -> None:
        self._definitions = definitions
        self._secrets = SECRETS in presets
        self._payloads = PAYLOADS in presets
        self._hosts = hosts if HOSTS in presets else None
        self._view = View(inside=False, open_batches=False, knowledge=knowledge)
        self._removed = removed

    def of(self, data: bytes, frame: Frame, exchange: Exchange) -> bytes:
        """The bytes of a frame, its length field included, without what is to go."""
        side = Side.CLIENT if frame is exchange.request else Side.BROKER
        out = bytearray(data)
        if exchange.token:
            if self._secrets:
                self._fill(out, _SIZE, len(out))
                self._removed.secrets += 1
            return bytes(out)
        if exchange.protocol is None and (frame.missing or len(data) < frame.size + 4):
            self._cut(out, data, side, exchange)
            return bytes(out)
        if exchange.protocol is None and exchange.api_key is None and side is Side.BROKER:
            self._orphan(out, data)
            return bytes(out)
        root = frame_tree(
            data,
            side,
            exchange.api_key,
            exchange.api_version,
            self._definitions,
            protocol=exchange.protocol,
            told=exchange.told,
            view=self._view,
        )
        for node in list(root.walk()):
            self._node(out, data, node, exchange, side)
        return bytes(out)

    def _node(self, out: bytearray, data: bytes, node: Node, exchange: Exchange, side: Side) -> None:
        value = node.value
        if node.name in _UNREAD and node.field is None:
            if self._claims(exchange, data, side):
                self._fill(out, node.start, node.end)
            else:
                self._replace(out, data, node.start, node.end)
        elif value is None or isinstance(value, bool | int | float):
            return
        elif node.type == "records":
            self._records(out, node, data)
        elif node.type != "uuid":
            start = _text_start(data, node) if isinstance(value, str) else node.end - len(value)
            if node.secret and self._secrets:
                self._fill(out, start, node.end)
                self._removed.secrets += 1
            elif node.name in PACKED and self._hosts is not None:
                out[start : node.end] = self._hosts.packed(data[start : node.end])
            else:
                self._replace(out, data, start, node.end)

    def _records(self, out: bytearray, node: Node, data: bytes) -> None:
        start = node.end - len(node.value)
        hidden = self._secrets and topic_of(node, self._view.knowledge) in secrets.TOPICS
        if not (hidden or self._payloads or self._hosts is not None):
            return
        if node.name == UNALIGNED:
            self._fill(out, start, node.end)
            self._removed.payloads += 1
            return
        redaction = RecordsRedaction(self._hosts, everything=self._payloads or hidden)
        out[start : node.end] = redaction.field(data[start : node.end])
        self._removed.payloads += redaction.payloads

    def _cut(self, out: bytearray, data: bytes, side: Side, exchange: Exchange) -> None:
        """A frame that misses bytes: nobody knows which, so that fields cannot be told apart."""
        if self._claims(exchange, data, side) or (exchange.api_key is None and (self._secrets or self._payloads)):
            self._fill(out, _REQUEST_HEAD if side is Side.CLIENT else _HEAD, len(out))
            self._removed.secrets += self._secrets
        else:
            self._replace(out, data, _SIZE, len(data))

    def _orphan(self, out: bytearray, data: bytes) -> None:
        """A response whose request is unknown."""
        secret = self._secrets and may_tell_a_secret(data, self._definitions)
        if secret or self._payloads:
            self._fill(out, _HEAD, len(out))
            self._removed.secrets += secret
        else:
            self._replace(out, data, _HEAD, len(data))

    def _claims(self, exchange: Exchange, data: bytes, side: Side) -> bool:
        """Whether bytes of a frame that no field claims may hold what is to go."""
        if exchange.protocol is not None:
            return False
        if self._secrets and secrets.in_frame(exchange.api_key, data, response=side is Side.BROKER):
            return True
        return self._payloads and exchange.api_key in PLACES

    def _replace(self, out: bytearray, data: bytes, start: int, end: int) -> None:
        if self._hosts is not None and start < end:
            out[start:end] = self._hosts.content(data[start:end])

    @staticmethod
    def _fill(out: bytearray, start: int, end: int) -> None:
        if start < end:
            out[start:end] = FILL * (end - start)


def _text_start(data: bytes, node: Node) -> int:
    """Where the characters of a string begin, behind its length: two bytes that say it, else a varint of one more."""
    if int.from_bytes(data[node.start : node.start + 2], "big") == node.end - node.start - 2:
        return node.start + 2
    at = node.start
    while data[at] & 0x80:
        at += 1
    return at + 1
