"""Shared code of the commands that summarise exchanges: the selected exchanges, and the messages at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import progress, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.selecting import fails_on

if TYPE_CHECKING:
    from kproxy.captures.errors import CaptureError
    from kproxy.captures.reader import Item, Reader
    from kproxy.cli.options.selecting import Selection
    from kproxy.decoders.exchange import Exchange

Objects = Iterable[dict[str, Any]]


def exchanges(reader: Reader, selection: Selection) -> Iterator[Exchange]:
    """The selected exchanges of a reading; shows a progress bar meanwhile."""
    from kproxy.decoders.exchange import Exchange

    for batch in items(reader, selection):
        for item in batch:
            if isinstance(item, Exchange):
                yield item


def items(reader: Reader, selection: Selection) -> Iterator[Sequence[Item]]:
    """The selected exchanges of a reading and the problems of its streams, batch by batch, as `exchanges`."""
    for batch in selection.until_done(progress.batches(reader)):
        yield list(selection.of(batch, reader.source, reader.definitions))


def tell(
    reader: Reader, selection: Selection, what: str, objects: Objects, text: Callable[[Objects], Iterable[str]]
) -> None:
    """Prints a summary of exchanges as `text`, or with --json one object per line, the reading's health last.

    `what` is the noun for an object ("topic"), for the message that no exchange mentions one. After printing, raises
    CaptureError if the capture could not be read to its end.
    """
    shown_any = False

    def counted_objects() -> Objects:
        nonlocal shown_any
        for one in objects:
            shown_any = True
            yield one

    if settings.current().json:
        from kproxy.decoders.exchange_json import health_json

        for line in chain(counted_objects(), [health_json(reader.health)]):
            click.echo(json.dumps(line))
    else:
        for shown in text(counted_objects()):
            click.echo(shown)
    if selection.taken and not shown_any:
        settings.warn(f"no exchange mentions a {what}")
    conclude(reader, selection, health=not settings.current().json)


def _say_nothing_found(reader: Reader, selection: Selection) -> None:
    """Prints on standard error that no exchange was found, and what the capture has instead."""
    there = reader.numbering.exchanges
    numbers = selection.numbers
    if numbers and (min(numbers) > there or selection.everything_else):
        what = f"there is no exchange {min(numbers)}"
    else:
        what = "no Kafka exchange" + ("" if selection.everything else " that matches")
    settings.warn(f"{what}: {reader.seen.words(there)}")


def raise_first(errors: Sequence[CaptureError]) -> None:
    """Raises the first error, if there is one, after it has printed the others on standard error."""
    for error in errors[1:]:
        settings.warn(str(error))
    if errors:
        raise errors[0]


def conclude(reader: Reader, selection: Selection, *, health: bool) -> None:
    """Prints what is wrong with a reading on standard error: nothing found, exchanges that a filter could not decide.

    With `health`, also gaps, dropped packets and other health counts.

    Then raises CaptureError if the capture could not be read to its end, and Failure (Exit.EMPTY) if nothing was found
    and --fail-on empty was given.
    """
    from kproxy.captures.export.oneline import health_note

    found = reader.numbering.exchanges if selection.everything else selection.taken
    empty = not found and selection.count != 0
    if empty and reader.error is None:
        _say_nothing_found(reader, selection)
    if selection.note:
        settings.warn(selection.note)
    if health and (note := health_note(reader.health)):
        settings.warn(note)
    raise_first(reader.errors)
    if empty and fails_on("empty"):
        raise Failure("nothing was found (--fail-on empty)", Exit.EMPTY)
