"""A flow between two batches of a stream: its state as bytes, and back.

The state is pickled as it is. What a reading makes anew each time (definitions, order, options) is left out, and of the
captured bytes only those are kept that something in the state refers to by their address.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from captures.spark.flows import ITEMS, OPEN, STATE, Flow, Held, Options, Place, items
from captures.spark.order import Order
from captures.spark.reading import SEGMENTS
from captures.tcp.direction import Direction, Piece
from decoders.conversation.recognition import Known, known
from decoders.conversation.stream import Run
from decoders.conversation.stretch import Stretch
from decoders.dialects.model import Dialect
from decoders.exchange import Frame
from decoders.filters import Matcher
from decoders.schema import Definitions

COMPARED: Final = 1 << 15
"""Bytes of a direction, of those delivered last, that are kept to be compared with what is sent again."""

STATE_KIND: Final = "state"

Span = tuple[int, int]
"""An address, and how many bytes from it on."""


def dump(flow: Flow) -> bytes:
    """The state of a flow, which goes on without what it compares with no more."""
    if flow.over:
        return pickle.dumps((flow.number, dict(flow.epochs)), pickle.HIGHEST_PROTOCOL)
    for direction in flow.directions:
        _forget(direction)
    out = io.BytesIO()
    pickler = _Pickler(out)
    pickler.dump(flow)
    return pickle.dumps((flow.source.kept(pickler.needed), out.getvalue()), pickle.HIGHEST_PROTOCOL)


def load(state: bytes, options: Options, order: Order, numbers: Mapping[Place, int]) -> Flow:
    """The flow of a state that `dump` made; `numbers` are those of items that were numbered in batches before."""
    held, flow = pickle.loads(state)  # noqa: S301  # of our own stage 2
    if isinstance(flow, dict):
        return Flow(held, options, order, flow)
    restored: Flow = _Unpickler(io.BytesIO(flow), Held(held), options, order).load()
    restored.resume(order, numbers)
    return restored


def carried(batches: Iterable[Any], options: Options, order: Order, numbers: Mapping[Place, int]) -> Iterator[Any]:
    """The items of a batch of a stream: captures.spark.flows.items, with states before segments and behind items.

    Behind its state are the items that a flow has if the capture ends here.
    """

    def restore(state: bytes) -> Flow:
        return load(state, options, order, numbers)

    return items(batches, options, order, restore, _left)


def state_rows(states: Mapping[int, bytes]) -> Any:
    """States of flows as rows to stand before their segments: a batch of captures.spark.reading.SEGMENTS."""
    given = {"flow_id": list(states), "position": [STATE] * len(states), "payload": list(states.values())}
    columns = [pa.array(given.get(field.name, [None] * len(states)), field.type) for field in SEGMENTS]
    return pa.record_batch(columns, schema=SEGMENTS)


def _left(number: int, flow: Flow) -> Iterator[Any]:
    held = {"kind": STATE_KIND, "range": 0, "nth": 0, "rank": 0, "standing": OPEN, "flow_id": number}
    yield tuple((held | {"state": dump(flow)}).get(name) for name in ITEMS.names)
    if not flow.over:
        flow.presume()
    yield from flow.end()


class _Pickler(pickle.Pickler):
    """Names what is made anew, and notes which bytes the rest refers to."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.needed: list[Span] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _ANEW):
            return type(obj).__name__, obj.name if isinstance(obj, Dialect) else None
        note = _SPANS.get(type(obj))
        if note is not None:
            self.needed += note(obj)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, state: io.BytesIO, source: Held, options: Options, order: Order) -> None:
        super().__init__(state)
        self._source = source
        self._options = options
        self._order = order

    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        if kind == Held.__name__:
            return self._source
        if kind == Options.__name__:
            return self._options
        if kind == Order.__name__:
            return self._order
        definitions = self._options.definitions
        if kind == Definitions.__name__:
            return definitions
        if kind == Known.__name__:
            return known(definitions)
        if kind == Dialect.__name__:
            return definitions.dialects[name]
        assert self._options.filter is not None  # noqa: S101  # a flow without one has no matcher
        return Matcher(self._options.filter, self._source, definitions)


_ANEW: Final = (Held, Options, Order, Definitions, Known, Dialect, Matcher)


def _of_frame(frame: Frame) -> Iterator[Span]:
    yield from frame.spans


def _of_piece(piece: Piece) -> Iterator[Span]:
    yield piece.at, piece.stored


def _of_run(run: Run) -> Iterator[Span]:
    lengths = (end - start for start, end in pairwise([run.start, *run.ends]))
    yield from zip(run.at, lengths if run.stored is None else run.stored, strict=True)


def _of_stretch(stretch: Stretch) -> Iterator[Span]:
    lengths = (end - start for start, end in pairwise(stretch.ends))
    yield from zip(stretch.ats[1:], lengths, strict=True)


def _of_direction(direction: Direction) -> Iterator[Span]:
    held = zip(direction.recent_starts, direction.recent_held, strict=True)
    yield from zip(direction.recent_at, (end - start for start, end in held), strict=True)


_SPANS: Final[dict[type, Any]] = {
    Frame: _of_frame, Piece: _of_piece, Run: _of_run, Stretch: _of_stretch, Direction: _of_direction,
}  # fmt: skip
"""What refers to bytes, and which they are."""


def _forget(direction: Direction) -> None:
    """Leave of what was delivered the last COMPARED bytes."""
    ends = direction.recent_ends
    least = direction.next - COMPARED
    count = sum(end <= least for end in ends)
    for recent in (direction.recent_starts, ends, direction.recent_at, direction.recent_held):
        del recent[:count]
