"""The progress of a command: shown as a bar, or sent to the process that started it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

if TYPE_CHECKING:
    from kproxy.captures.reader import Item, Reader

Command = TypeVar("Command", bound=Callable[..., Any])

LEAST = 16 << 20
"""Size of captures in bytes below which no progress is shown."""
_TOLD = "kproxy.progress"
_INTERVAL = 0.2
"""Seconds between two progress lines."""


def telling(command: Command) -> Command:
    """Adds --tell DESCRIPTOR, which gets the progress and result of a reading as JSON lines (`tell`)."""

    def keep(ctx: click.Context, param: click.Parameter, descriptor: int | None) -> None:
        del param
        ctx.meta[_TOLD] = descriptor

    option = click.option(
        "--tell",
        type=int,
        hidden=True,
        expose_value=False,
        callback=keep,
        help="Write the progress to this file descriptor.",
    )
    return option(command)


def tell(**facts: Any) -> None:
    """Writes facts as a JSON line to the descriptor of --tell; does nothing without --tell, or if its reader ended."""
    context = click.get_current_context(silent=True)
    descriptor = None if context is None else context.meta.get(_TOLD)
    if descriptor is not None:
        try:
            os.write(descriptor, json.dumps(facts).encode() + b"\n")
        except OSError:
            context.meta[_TOLD] = None  # type: ignore[union-attr]  # it had the descriptor


def batches(reader: Reader, out: BinaryIO | None = None) -> Iterable[Sequence[Item]]:
    """The batches of a reading, with a progress bar if standard error is a terminal and `out` is not.

    With --tell, progress lines are sent instead.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_TOLD) is not None:
        return _reporting(reader)
    seen = sys.stderr is not None and sys.stderr.isatty()
    if reader.source.streams or not seen or reader.source.written() < LEAST or (out is not None and out.isatty()):
        return reader.batches()
    from kproxy.tui.progress import shown

    return shown(reader.batches(), "reading", reader.source.written(), lambda: reader.position)


def _reporting(reader: Reader) -> Iterator[Sequence[Item]]:
    from kproxy.decoders.exchange import Exchange

    total = reader.source.written()
    said = 0.0
    passed = 0
    for batch in reader.batches():
        passed += sum(isinstance(item, Exchange) for item in batch)
        now = time.monotonic()
        if now - said >= _INTERVAL:
            tell(read=reader.position, total=total)
            said = now
        yield batch
    tell(exchanges=passed)
