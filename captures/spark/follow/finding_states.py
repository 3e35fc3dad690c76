"""Stores the state of findings between two batches of a stream as bytes (see captures.spark.follow.state)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kproxy.captures.findings.analyzer import Analysis
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.spark.follow.state import Reader, Writer, pack, unpack
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.folding import Fold


def dump(fold: Fold) -> bytes:
    """The state of a fold as bytes."""
    return pack(Writer(_anew, lambda _: None).objects(fold), ())


def load(state: bytes | None, options: Options) -> Fold:
    """The fold from the bytes that `dump` returned, or a new one. Raises StateError."""
    if state is None:
        return Fold(options, decrypted=False)
    values, _ = unpack(state)
    fold: Fold = Reader(_made_anew).object(values, Fold)
    fold.resume(options, decrypted=False)
    return fold


def _anew(one: Any) -> Sequence[Any] | None:
    """The index of an analysis in ANALYSES; None for all other objects.

    A state cannot hold an analysis: it has functions.
    """
    return [ANALYSES.index(one)] if isinstance(one, Analysis) else None


def _made_anew(values: Sequence[Any]) -> Analysis:
    """The analysis whose index `_anew` returned. Raises IndexError or TypeError for another value."""
    (place,) = values
    analysis: Analysis = ANALYSES[place]
    return analysis
