"""Event rows, which stage 2 makes of flows for the table findings.

One task reads those of all flows, because findings depend on all flows, in the order in which exchanges were complete.
So each exchange, stream problem and end of a connection becomes a row with all data from which facts are made,
including the bytes of frames (captures.spark.read.folding). A row for the beginning of each exchange tells when it is
numbered.
"""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Final

from kproxy.captures.findings.making import when
from kproxy.captures.reader import Closing, Item
from kproxy.captures.redaction.exchanges import HeldFrame
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.stream import END_OF_CAPTURE, Source

BEGUN: Final = "event 1 begun"
DONE: Final = "event 2 done"
ENDED: Final = "event 3 ended"
"""Kinds of rows, in the order of rows at one address. `DONE` without data: the filter left the exchange out."""
ORDER: Final = ("ended", "started", "kind", "done", "born", "nth", "flow_id")
"""Columns by which the rows are sorted, of captures.spark.read.flows.ITEMS.

For items that only the capture's end completes, `ended` is their time (ns) and `started` is 0. For all other rows
`ended` is 0 and `started` the address of the event. `done` is that address, or for the end of a connection its time.
"""
COLUMNS: Final = (*ORDER, "rank", "event")
_FRAME: Final = [field.name for field in fields(Frame)]


def of_item(item: Item, closing: Closing | None, source: Source, *, selected: bool) -> tuple[int, bytes]:
    """(value of `ended`, data) of a complete item; `closing` is how its connection ended, if that became known together
    with the item.

    An exchange that the filter has not `selected` has no data, and its bytes are not read.
    """
    time = when(item)
    ended = time if closing is not None and closing.how == END_OF_CAPTURE else 0
    if not selected:
        return ended, b""
    if isinstance(item, Exchange):
        item = replace(item, request=_held(item, item.request, source), response=_held(item, item.response, source))
    return ended, _dumped(item, time)


def of_closing(closing: Closing) -> tuple[int, bytes]:
    """(value of `ended`, data) of the end of a connection."""
    return closing.time if closing.how == END_OF_CAPTURE else 0, _dumped(closing, closing.time)


def load(data: bytes) -> tuple[Item | Closing, int]:
    """(item or end of a connection, its time) from the data of a row."""
    one, time = pickle.loads(data)  # noqa: S301  # of our own stage 2
    return one, time


def _dumped(one: Item | Closing, time: int) -> bytes:
    return pickle.dumps((one, time), pickle.HIGHEST_PROTOCOL)


def _held(item: Exchange, frame: Frame | None, source: Source) -> Frame | None:
    """A frame that holds its bytes; without bytes if no fact is made of them."""
    if frame is None:
        return None
    values = {name: getattr(frame, name) for name in _FRAME} | {"spans": []}
    unread = item.token or item.protocol is not None or item.status is Status.TLS
    return HeldFrame(**values, held=b"" if unread else bytes(frame.data(source)))
