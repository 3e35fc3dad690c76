"""Stores the state of a flow between two batches of a stream as bytes.

The state is the flow's objects as JSON (captures.spark.follow.state). Objects that each reading makes again
(definitions, order, options) are stored as names. Captured bytes are kept only where an object in the state refers to
them by address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kproxy.captures.spark.follow.state import Reader, StateError, Writer, pack, unpack
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read.flows import Beginning, Flow, Held, Options, items, of_state
from kproxy.captures.spark.read.packing import PARCELS, STATE
from kproxy.captures.tcp.direction import Direction, Piece
from kproxy.decoders.conversation.dialect_framer import DialectFramer
from kproxy.decoders.conversation.framer import Framer
from kproxy.decoders.conversation.recognition import Known, known
from kproxy.decoders.conversation.requests import Requests
from kproxy.decoders.conversation.responses import Responses
from kproxy.decoders.conversation.stretch import Stretch
from kproxy.decoders.exchange import Frame
from kproxy.decoders.filters import Matcher
from kproxy.decoders.schema import Definitions
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.stream import Copy, Run

COMPARED: Final = 1 << 15
"""Number of delivered bytes in each direction that are kept, the last ones, to compare retransmissions with them."""

STATE_KIND: Final = "state"

Span = tuple[int, int]
"""(address, number of bytes from it on)."""


def dump(flow: Flow) -> bytes:
    """The state of a flow as bytes; drops delivered bytes that are too old to be compared with retransmissions."""
    if flow.over:
        return pack({"number": flow.number, "epochs": list(flow.epochs.items())}, ())
    for direction in flow.directions:
        _forget(direction)
    needed: list[Span] = []

    def note(one: Any) -> None:
        spans = _SPANS.get(type(one))
        if spans is not None:
            needed.extend(spans(one))

    values = Writer(_anew, note).objects(flow)
    moves = flow.source.moves(at for at, _ in needed)
    return pack(values | {"moves": moves} if moves else values, flow.source.kept(needed))


def load(state: bytes, options: Options, order: Order, numbers: Mapping[Beginning, int]) -> Flow:
    """The flow from the bytes that `dump` returned; `numbers` were given to items by earlier batches.

    Raises StateError.
    """
    values, held = unpack(state)
    if "number" in values:
        try:
            epochs = {int(connection): int(epoch) for connection, epoch in values["epochs"]}
            return Flow(int(values["number"]), options, order, epochs)
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"cannot be read ({error})") from None
    source = Held(held, order=order)
    try:
        moves = [(int(reached), int(move)) for reached, move in values.get("moves", ())]
        source.place(*np.array(moves, np.int64).reshape(-1, 2).T)
    except (ValueError, TypeError, OverflowError) as error:
        raise StateError(f"cannot be read ({error})") from None

    def made_anew(values: Sequence[Any]) -> Any:
        return _made_anew(values, source, options, order)

    restored: Flow = Reader(made_anew).object(values, Flow)
    restored.resume(order, numbers)
    return restored


def carried(batches: Iterable[Any], options: Options, order: Order, numbers: Mapping[Beginning, int]) -> Iterator[Any]:
    """The items of a batch of a stream, as captures.spark.read.flows.items gives them.

    In `batches`, the state of a flow precedes its segments. In the result, each flow's items are followed by its state
    for the next batch, and by the items that the flow has if the capture ends here.
    """

    def restore(state: bytes) -> Flow:
        return load(state, options, order, numbers)

    return items(batches, options, order, restore=restore, end=_left)


def state_rows(states: Mapping[int, bytes]) -> Any:
    """States of flows as rows that precede the flows' parcels: a batch of captures.spark.read.packing.PARCELS."""
    given = {"flow_id": list(states), "position": [STATE] * len(states), "data": list(states.values())}
    columns = [pa.array(given.get(field.name, [None] * len(states)), field.type) for field in PARCELS]
    return pa.record_batch(columns, schema=PARCELS)


def _left(number: int, flow: Flow) -> Iterator[Any]:
    yield of_state(STATE_KIND, dump(flow), number)
    if not flow.over:
        flow.presume()
    yield from flow.end()


def _anew(one: Any) -> Sequence[Any] | None:
    """The name of an object that each reading makes again; None for an object that is stored in the state."""
    if not isinstance(one, _ANEW):
        return None
    return [type(one).__name__, one.name] if isinstance(one, Dialect) else [type(one).__name__]


def _made_anew(values: Sequence[Any], source: Held, options: Options, order: Order) -> Any:
    """The object whose name `_anew` returned as `values`. Raises KeyError or ValueError for other values."""
    kind, *name = values
    definitions = options.definitions
    if kind == Dialect.__name__:
        return definitions.dialects[name[0]]
    if kind == Matcher.__name__ and options.filter is not None:
        return Matcher(options.filter, source, definitions)
    made = {Held: source, Options: options, Order: order, Definitions: definitions, Known: known(definitions)}
    return {one.__name__: value for one, value in made.items()}[kind]


_ANEW: Final = (Held, Options, Order, Definitions, Known, Dialect, Matcher)


def _of_frame(frame: Frame) -> Iterator[Span]:
    yield from frame.spans


def _of_piece(piece: Piece) -> Iterator[Span]:
    yield piece.at, piece.stored


def _of_run(run: Run) -> Iterator[Span]:
    yield run.released, 0
    lengths = (end - start for start, end in pairwise([run.start, *run.ends]))
    yield from zip(run.at, lengths if run.stored is None else run.stored, strict=True)


def _of_copy(copy: Copy) -> Iterator[Span]:
    yield copy.at, copy.end - copy.start


def _of_stretch(stretch: Stretch) -> Iterator[Span]:
    yield stretch.top, 0
    lengths = (end - start for start, end in pairwise(stretch.ends))
    yield from zip(stretch.ats[1:], lengths, strict=True)


def _of_framer(framer: Framer) -> Iterator[Span]:
    yield framer.floor, 0


def _of_requests(requests: Requests) -> Iterator[Span]:
    yield requests.floor, 0
    yield requests.floor_at_start, 0


def _of_responses(responses: Responses) -> Iterator[Span]:
    yield responses.floor, 0
    yield responses.late, 0


def _of_direction(direction: Direction) -> Iterator[Span]:
    yield from direction.recent.spans()


_SPANS: Final[dict[type, Any]] = {
    Copy: _of_copy, Frame: _of_frame, Piece: _of_piece, Run: _of_run, Stretch: _of_stretch, Direction: _of_direction,
    Requests: _of_requests, Responses: _of_responses, DialectFramer: _of_framer,
}  # fmt: skip
"""By class of an object, the function that gives the spans of captured bytes to which it refers.

A span of 0 bytes is an address at which a problem may be found later.
"""


def _forget(direction: Direction) -> None:
    """Forget the delivered bytes of a direction, except the last COMPARED."""
    least = direction.next - COMPARED
    direction.recent.keep(sum(end > least for end in direction.recent.ends))
