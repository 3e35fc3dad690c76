"""The fields of one frame of an exchange as a tree, with the style in which they are shown."""

from __future__ import annotations

from typing import NamedTuple

from kproxy.captures.export.nodes import Style
from kproxy.decoders import secrets
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.frames import frame_tree
from kproxy.decoders.guessing import guess
from kproxy.decoders.message import may_tell_a_secret
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side, Source
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View


class FrameFields(NamedTuple):
    """A frame's bytes, length field included, and the tree of its fields; `style` shows the tree as text.

    `root` is None for a SASL token, which has no fields. `guess` says which API was guessed for a response without a
    request, and is "" otherwise.
    """

    data: bytes
    root: Node | None
    style: Style
    guess: str


def frame_fields(
    exchange: Exchange, frame: Frame, source: Source, definitions: Definitions, view: View, *, width: int
) -> FrameFields:
    """The decoded fields of a frame; the exchange must not be TLS. `width` is the number of characters of a line."""
    data = bytes(frame.data(source))
    if exchange.token:
        return FrameFields(data, None, Style(show_secrets=view.show_secrets, width=width), "")
    key, version, words = exchange.api_key, exchange.api_version, ""
    if exchange.status is Status.ORPHAN_RESPONSE and exchange.protocol is None and not frame.missing:
        found = guess(data, definitions)
        if found is not None:
            key, version, words = found.api_key, found.versions[-1], found.text(definitions)
    asked = exchange.request
    root = frame_tree(
        data,
        Side.CLIENT if frame is asked else Side.BROKER,
        key,
        version,
        definitions,
        protocol=exchange.protocol,
        truths=exchange.truths,
        view=view,
        request=None if asked is None or asked.missing else asked.data(source),
    )
    style = Style(
        show_secrets=view.show_secrets,
        width=width,
        api=None if key is None or version is None else (key, version),
        version=version,
        may_hold_secrets=_may_hold_secrets(exchange, frame, data, definitions),
    )
    return FrameFields(data, root, style, words)


def _may_hold_secrets(exchange: Exchange, frame: Frame, data: bytes, definitions: Definitions) -> bool:
    if exchange.protocol is not None:
        return False
    if exchange.api_key is None and frame.side is Side.BROKER:
        return frame.missing > 0 or may_tell_a_secret(data, definitions)
    return secrets.in_frame(exchange.api_key, data, response=frame.side is Side.BROKER)
