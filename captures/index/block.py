"""Index rows of some exchanges as bytes, made by a process that does not know the other rows of the index.

In a block, a string's id is its position among the block's strings, and offsets of details count from the block's
beginning. The writer replaces both by those of its files.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, Final, Self

import numpy as np

from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag
from kproxy.captures.index.summary import Summary
from kproxy.decoders.conversation.comments import CHANGED
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.stream import Side

_STRINGS: Final = ("client", "label", "subject")
_NAMES: Final = (*layout.Row._fields, *layout.STORED_NAMES)
_TYPE: Final = np.dtype(
    {
        "names": _NAMES,
        "formats": [f"<{layout.COLUMNS[name][0]}" for name in _NAMES],
        "offsets": [layout.COLUMNS[name][1] for name in _NAMES],
        "itemsize": layout.ROW_SIZE,
    }
)
_PROBLEMS, _TOKEN, _NO_CORRELATION, _PARTIAL, _COMMENTED, _MODIFIED = map(
    int, (Flag.PROBLEMS, Flag.TOKEN, Flag.NO_CORRELATION, Flag.PARTIAL, Flag.COMMENTED, Flag.MODIFIED)
)


class Block:
    """Index rows in the order of writing, and the strings and details that they refer to."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """For each row, the number of its exchange."""
        self.undecoded = 0
        """Number of frames in complete exchanges whose body fits no definition."""
        self._rows = bytearray()
        self.details = bytearray()
        self._strings: dict[str, int] = {"": 0}

    def add(self, exchange: Exchange, summary: Summary, protocol: int = 0) -> None:
        """Append the row of an exchange in its present state; `protocol` is the number of its dialect in the index."""
        request, response = exchange.request, exchange.response
        first = request or response
        status = exchange.status
        if status is Status.OK and summary.status is not None:
            status = summary.status
        if status is not Status.WAITING:
            self.undecoded += summary.undecoded
        subject = summary.subject
        errors = summary.errors
        strings = self._strings
        detail = self._detail(exchange, summary)
        self.numbers.append(exchange.number)
        self._rows += layout.WRITTEN_ROW.pack(
            first.time if first else 0,
            response.time - request.time if request is not None and response is not None else layout.NO_LATENCY,
            layout.NO_SIZE if request is None else request.size & 0xFFFFFFFF,
            layout.NO_SIZE if response is None else response.size & 0xFFFFFFFF,
            exchange.correlation_id or 0,
            layout.NO_NUMBER if exchange.api_key is None else exchange.api_key,
            layout.NO_NUMBER if exchange.api_version is None else exchange.api_version,
            exchange.connection.number,
            strings.setdefault(exchange.client_id or "", len(strings)),
            strings.setdefault(summary.label, len(strings)),
            layout.NO_RECORDS if summary.records is None else min(summary.records, layout.NO_RECORDS - 1),
            detail,
            errors[0] if errors else 0,
            min(len(errors) - 1, 255) if errors else 0,
            layout.STATE_OF[status],
            _flags(exchange, summary),
            protocol,
            0,
            0 if subject is None or len(subject) > layout.SUBJECT_LIMIT else strings.setdefault(subject, len(strings)),
            *summary.stored,
        )

    @property
    def strings(self) -> list[str]:
        """The strings that rows refer to; the index of a string is its id in the block."""
        return list(self._strings)

    def rows(self, ids: Sequence[int], details: int) -> Iterator[tuple[int, bytes]]:
        """Runs of rows whose numbers follow one another: (number of the run's first exchange, bytes of its rows).

        If an exchange has several rows, the newest comes last. `ids` are the strings' ids in the file, by their ids in
        the block; `details` is the offset in the file at which the block's details begin, divided by 8 (see `format`).
        """
        if not self.numbers:
            return
        order = np.argsort(np.array(self.numbers, np.int64), kind="stable")
        numbers = np.array(self.numbers, np.int64)[order]
        rows = np.frombuffer(self._rows, _TYPE)[order]
        known = np.array(ids, np.uint32)
        for name in _STRINGS:
            rows[name] = known[rows[name]]
        at = rows["details"].astype(np.int64) + details
        rows["details"] = at & 0xFFFFFFFF
        rows["details_high"] = at >> 32
        borders = np.flatnonzero(np.diff(numbers) != 1) + 1
        for start, end in zip([0, *borders.tolist()], [*borders.tolist(), len(numbers)], strict=True):
            yield int(numbers[start]), rows[start:end].tobytes()

    def join(
        self, other: Block, numbers: Sequence[int], connections: Mapping[int, int], labels: Mapping[int, str]
    ) -> None:
        """Append the rows of another block, and give their exchanges and connections other numbers.

        `numbers` has the exchange's number for each row; `connections` maps old to new numbers. `labels` maps positions
        of rows in `other` to texts that replace the rows' labels.
        """
        keep = {place: self._string(text) for place, text in labels.items()}
        own = set(np.frombuffer(other._rows, _TYPE)["label"][list(labels)].tolist()) if labels else set()
        texts = enumerate(other.strings)
        ids = np.array([0 if place in own else self._string(text) for place, text in texts], np.uint32)
        rows = np.frombuffer(other._rows, _TYPE).copy()
        for name in _STRINGS:
            rows[name] = ids[rows[name]]
        if keep:
            rows["label"][list(keep)] = list(keep.values())
        rows["details"] += len(self.details) // 8
        which, places = np.unique(rows["connection"], return_inverse=True)
        rows["connection"] = np.array([connections[one] for one in which.tolist()], np.uint32)[places]
        self.numbers += numbers
        self.undecoded += other.undecoded
        self._rows += rows.tobytes()
        self.details += other.details

    def label(self, place: int) -> int:
        """The string id, in this block, of the label of the row at position `place`."""
        at = layout.COLUMNS["label"][1] + place * layout.ROW_SIZE
        return int.from_bytes(self._rows[at : at + 4], "little")

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def pack(self) -> bytes:
        """The block as bytes, which `unpack` turns into a block in another process."""
        return marshal.dumps((self.numbers, self.undecoded, self._rows, self.details, self._strings))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The block from the bytes that `pack` returned."""
        block = cls()
        block.numbers, block.undecoded, block._rows, block.details, block._strings = marshal.loads(packed)  # noqa: S302 (ours)
        return block

    def _detail(self, exchange: Exchange, summary: Summary) -> int:
        """Append the details of an exchange; returns their offset in the block divided by 8."""
        sides = [frame for frame in (exchange.request, exchange.response) if frame is not None]
        which = (1 if exchange.request is not None else 0) | (2 if exchange.response is not None else 0)
        body = b"".join(map(_side, sides))
        extra = _extra(exchange, summary)
        text = json.dumps(extra, separators=(",", ":")).encode() if extra else b""
        padding = -(len(body) + len(text)) % 8
        at = len(self.details) // 8
        self.details += layout.DETAIL.pack(len(body) + len(text) + padding, which, 0, 0, len(text), 0) + body
        self.details += text + bytes(padding)
        return at


@lru_cache(maxsize=64)
def _struct(spans: int) -> Struct:
    return Struct(layout.SIDE.format + layout.SPAN.format.removeprefix("<") * spans)


_ONE_SPAN: Final = _struct(1).pack


def _side(frame: Frame) -> bytes:
    spans = frame.spans
    if len(spans) == 1:
        return _ONE_SPAN(
            frame.stream_offset,
            frame.first_time,
            frame.time,
            frame.at,
            frame.size & 0xFFFFFFFF,
            min(frame.missing, 0xFFFFFFFF),
            1,
            *spans[0],
        )
    return _struct(len(spans)).pack(
        frame.stream_offset,
        frame.first_time,
        frame.time,
        frame.at,
        frame.size & 0xFFFFFFFF,
        min(frame.missing, 0xFFFFFFFF),
        len(spans),
        *chain.from_iterable(spans),
    )


def _extra(exchange: Exchange, summary: Summary) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if exchange.problems or summary.problems:
        extra["problems"] = [problem.to_json() for problem in (*exchange.problems, *summary.problems)]
    request, response = exchange.request, exchange.response
    comments = {
        side: frame.comments
        for side, frame in (("request", request), ("response", response))
        if frame is not None and frame.comments
    }
    if comments:
        extra["comments"] = comments
    if exchange.reason:
        extra["reason"] = exchange.reason
    if exchange.asked_by is Side.BROKER:
        extra["asked_by"] = "broker"
    if exchange.truths:
        extra["truths"] = exchange.truths
    if exchange.session is not None:
        extra["session"] = exchange.session.to_json()
    if len(summary.errors) > 1:
        extra["errors"] = list(summary.errors)
    if summary.throttle_ms:
        extra["throttle_ms"] = summary.throttle_ms
    return extra


def _flags(exchange: Exchange, summary: Summary) -> int:
    flags = int(summary.flags)  # int(), because operations on an IntFlag are slow
    if exchange.problems or summary.problems:
        flags |= _PROBLEMS
    if exchange.token:
        flags |= _TOKEN
    if exchange.correlation_id is None:
        flags |= _NO_CORRELATION
    for frame in (exchange.request, exchange.response):
        if frame is None:
            continue
        if frame.missing:
            flags |= _PARTIAL
        if frame.comments:
            flags |= _COMMENTED
            if any(comment.startswith(CHANGED) for comment in frame.comments):
                flags |= _MODIFIED
    return flags
