"""Frames of an exchange, read through the index and decoded: the content of the detail panes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kproxy.captures.errors import CaptureError
from kproxy.captures.index.format import NO_NUMBER, Flag, Row, State
from kproxy.captures.index.reader import Detail, IndexReader
from kproxy.decoders import secrets
from kproxy.decoders.exchange import Frame
from kproxy.decoders.plurals import are, counted, were
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.tui.detail.records import RecordLines

if TYPE_CHECKING:
    from kproxy.captures.source import FileSource
    from kproxy.decoders.meanings.remarks import Remark
    from kproxy.decoders.records.places import Place
    from kproxy.decoders.tree import Node

Ranges = list[tuple[int, int]]

_WHERE = {Side.CLIENT: "request", Side.BROKER: "response"}


@dataclass(slots=True)
class Opened:
    """One frame: its bytes as far as the capture holds them, and its fields.

    `unparsed` are the ranges of bytes [start, end) outside of all fields, `secret` the ranges to withhold; `notes` says
    in words which bytes are absent or where decoding stopped. `version` is the version of the API; `remarks` are about
    this side of the exchange.
    """

    side: Side
    frame: Frame
    data: bytes
    root: Node | None = None
    unparsed: Ranges = field(default_factory=list)
    secret: Ranges = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    version: int = 0
    remarks: list[Remark] = field(default_factory=list)


class Opener:
    """Reads the bytes that rows point at and decodes them.

    The captures are opened when first needed, and checked for growth when an address lies beyond their end.
    """

    def __init__(self, index: IndexReader, definitions: Definitions, *, show_secrets: bool = False) -> None:
        self._index = index
        self._definitions = definitions
        self._show_secrets = show_secrets
        self._source: FileSource | None = None

    def open(self, row: Row, detail: Detail, side: Side) -> Opened | None:
        """One side's frame, decoded; None if the capture does not have it. Never raises on bad bytes."""
        frame = detail.request if side is Side.CLIENT else detail.response
        if frame is None:
            return None
        data, note = self.bytes_of(frame)
        opened = Opened(side, frame, data)
        if note:
            opened.notes.append(note)
        if row.state == State.TLS or not data:
            opened.unparsed = _whole(data)
            return opened
        if row.flags & Flag.TOKEN:
            from kproxy.decoders.frames import TOKEN_START, token_tree

            opened.root = token_tree(data, side, self._definitions, view=self._view())
            if not self._show_secrets:
                opened.secret = [(TOKEN_START, len(data))]
            return opened
        self._decode(opened, row, detail)
        opened.remarks = [remark for remark in self.remarks(row, detail) if remark.where == _WHERE[side]]
        opened.notes += [
            f"byte {problem.offset}: {problem.message}"
            for problem in detail.problems
            if problem.where == _WHERE[side] and not _is_shown(opened.root, problem.message)
        ]
        return opened

    def remarks(self, row: Row, detail: Detail) -> list[Remark]:
        """Remarks about the exchange as a whole (decoders.meanings.remarks). Never raises on bad bytes."""
        from kproxy.decoders import message
        from kproxy.decoders.meanings.remarks import MAKERS, remarks

        request, response = detail.request, detail.response
        if (
            row.protocol
            or row.api_key not in MAKERS
            or row.state in {State.TLS, State.ORPHAN_RESPONSE}
            or row.flags & Flag.TOKEN
        ):
            return []
        asked = answered = elapsed = None
        if request is not None:
            asked = message.decode_request(self.bytes_of(request)[0], self._definitions).body
        if response is not None:
            data, _ = self.bytes_of(response)
            answered = message.decode_response(data, row.api_key, row.api_version, self._definitions).body
        if request is not None and response is not None:
            elapsed = response.time - request.time
        return remarks(row.api_key, asked, answered, elapsed, self._index.knowledge)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def bytes_of(self, frame: Frame) -> tuple[bytes, str]:
        """The bytes of a frame, and a note if some are absent, else ""."""
        try:
            if self._source is None:
                from kproxy.captures.opening import open_source

                self._source = open_source(self._index.meta["sources"], ordered=True)
            wanted = sum(length for _, length in frame.spans)
            data = bytes(frame.data(self._source))
            if len(data) < wanted:
                # finds ring segments that were begun since then; deleted segments stay absent
                self._source.grow()
                data = bytes(frame.data(self._source))
        except CaptureError as error:
            return b"", f"the capture cannot be read: {error}"
        if len(data) < wanted:
            gone = wanted - len(data)
            why = "their recording segment was deleted, or the file was cut"
            return data, f"{gone} of {counted(wanted, 'byte')} {are(gone)} gone: {why}"
        if frame.missing:
            return data, f"{counted(frame.missing, 'byte')} of this frame {were(frame.missing)} never captured"
        return data, ""

    def places(self, row: Row, detail: Detail) -> list[Place]:
        """The records fields of an exchange, each with facts about its records from both frames; [] if it has none."""
        from kproxy.decoders.records.places import PLACES, places
        from kproxy.decoders.schema import api_keys

        if row.protocol or row.api_key not in {*PLACES, api_keys.ENVELOPE} or row.state == State.ORPHAN_RESPONSE:
            return []
        from kproxy.decoders import message

        asked = answered = None
        if detail.request is not None:
            asked = message.decode_request(self.bytes_of(detail.request)[0], self._definitions).body
        if detail.response is not None:
            data, _ = self.bytes_of(detail.response)
            answered = message.decode_response(data, row.api_key, row.api_version, self._definitions).body
        return places(row.api_key, asked, answered, self._index.knowledge, self._definitions)

    def records(self, row: Row, detail: Detail) -> tuple[RecordLines | None, str]:
        """The records of an exchange, not read yet; or None and the reason in words."""
        from kproxy.decoders.records.places import PLACES
        from kproxy.decoders.schema import api_keys

        if row.protocol or row.api_key not in {*PLACES, api_keys.ENVELOPE}:
            return None, "no message of this API carries records"
        lists = PLACES.get(row.api_key)
        if lists is not None and (detail.request if lists.in_request else detail.response) is None:
            return None, f"no {'request' if lists.in_request else 'response'} was seen"
        found = self.places(row, detail)
        if not any(len(place.records) for place in found):
            return None, "no records"
        return RecordLines(found, self._view()), ""

    def max_wait(self, row: Row, detail: Detail) -> int | None:
        """Milliseconds that a Fetch lets the broker wait for data (maxWaitMs); None for other exchanges."""
        from kproxy.captures.index.summary import FETCHES

        if row.protocol or row.api_key not in FETCHES or detail.request is None:
            return None
        from kproxy.decoders import message

        asked = message.decode_request(self.bytes_of(detail.request)[0], self._definitions).body
        wait = None if asked is None else asked.get("maxWaitMs")
        return wait if isinstance(wait, int) else None

    def _view(self) -> View:
        return View(show_secrets=self._show_secrets, knowledge=self._index.knowledge)

    def _decode(self, opened: Opened, row: Row, detail: Detail) -> None:
        from kproxy.decoders import frames, guessing, message
        from kproxy.decoders.records.nodes import topic_of

        api_key = version = None
        if row.state != State.ORPHAN_RESPONSE:
            api_key = row.api_key
            version = None if row.api_version == NO_NUMBER else row.api_version
        protocol = self._index.protocol(row)
        if row.state == State.ORPHAN_RESPONSE and not protocol and not opened.frame.missing:
            found = guessing.guess(opened.data, self._definitions)
            if found is not None:
                api_key, version = found.api_key, found.versions[-1]
                opened.notes.append(found.text(self._definitions))
        request = detail.request if opened.side is Side.BROKER else None
        opened.version = row.api_version
        opened.root = root = frames.frame_tree(
            opened.data,
            opened.side,
            api_key,
            version,
            self._definitions,
            protocol=protocol,
            truths=detail.truths,
            view=self._view(),
            request=None if request is None else self.bytes_of(request)[0],
            places=self.places(row, detail),
        )
        opened.unparsed = _unclaimed(root, len(opened.data))
        if protocol is not None or self._show_secrets:
            return
        response, knowledge = opened.side is Side.BROKER, self._index.knowledge
        if api_key is None and message.may_tell_a_secret(opened.data, self._definitions):
            opened.secret = [(root.children[-1].start, len(opened.data))]
        elif secrets.in_frame(api_key, opened.data, response=response):
            hidden = (node for node in root.walk() if node.secret or topic_of(node, knowledge) in secrets.TOPICS)
            opened.secret = [(node.start, node.end) for node in hidden]
            # bytes that could not be decoded may hold the secret
            opened.secret += opened.unparsed


def _whole(data: bytes) -> Ranges:
    return [(0, len(data))] if data else []


UNREAD = frozenset({"unread", "trailing"})
"""Names of nodes that stand for bytes outside of all fields."""


def _unclaimed(root: Node, length: int) -> Ranges:
    """Ranges of bytes of a frame of `length` bytes that no child of `root` covers."""
    ranges: Ranges = []
    position = 0
    for child in root.children:
        if child.name in UNREAD:
            continue
        if child.start > position:
            ranges.append((position, child.start))
        position = max(position, child.end)
    if position < length:
        ranges.append((position, length))
    return ranges


def _is_shown(root: Node | None, message: str) -> bool:
    """Whether the tree already has a problem with the text `message`.

    Searches the root, its children, and below each child the chain of last children, which ends where decoding stopped.
    """
    if root is None:
        return False
    ways = [root, *root.children]
    for top in root.children:
        node = top
        while not node.closed and node.children:
            node = node.children[-1]
            ways.append(node)
    return any(node.problem is not None and node.problem.message == message for node in ways)
