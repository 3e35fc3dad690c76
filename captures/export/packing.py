"""Items of a reading as bytes, for another process that reads the same source: where frames lie, not what they hold."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from decoders.exchange import Exchange, Frame, StreamProblem

Item = Exchange | StreamProblem


def _as_call(kind: type) -> Callable[[Any], tuple[type, Any]]:
    """How an object is pickled by the arguments that make it, which takes half of the time that its state does."""
    values = attrgetter(*(field.name for field in fields(kind)))
    return lambda one: (kind, values(one))


_CALLS: dict[type, Callable[[Any], Any]] = {kind: _as_call(kind) for kind in (Exchange, Frame)}


def pack(items: Sequence[Item], beside: Any = None) -> bytes:
    """The items, and what is to go with them."""
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _CALLS
    pickler.dump((list(items), beside))
    return packed.getvalue()


def unpack(packed: bytes) -> tuple[list[Item], Any]:
    items, beside = pickle.loads(packed)  # noqa: S301 (ours)
    return items, beside
