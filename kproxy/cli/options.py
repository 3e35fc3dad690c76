"""Options that several commands share, so that they read, complete and fail alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from captures.ports import Ports
    from decoders.conversation.stream import Source
    from decoders.exchange import Exchange
    from decoders.filters import Expression
    from decoders.schema import Definitions

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


class FilterType(click.ParamType["Expression"]):
    """A display filter; completes fields, operators and names."""

    name = "expression"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Expression:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # a default that is an expression already
        from decoders.filters import parse

        result = parse(value)
        if result.expression is None:
            message = result.message or "an empty filter"
            self.fail(f"{message} (column {result.span[0] + 1} of {value!r})", param, ctx)
        return result.expression

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        from decoders.filters import parse

        result = parse(incomplete)
        head = incomplete[: result.word]
        return [
            CompletionItem(head + item.text, help=item.doc or None)
            for item in result.expected
            if item.kind != "example"
        ]


class TimeType(click.ParamType[int]):
    """A time (RFC 3339, or seconds since the epoch) as nanoseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from datetime import datetime

        from decoders.filters.values import BadLiteral, time

        text = value.isoformat() if isinstance(value, datetime) else str(value)
        try:
            return time(text)
        except BadLiteral as bad:
            self.fail(bad.message, param, ctx)


class PortsType(click.ParamType["Ports"]):
    """Ports: "9092", "9092-9094", or several separated by commas."""

    name = "ports"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ports:
        from captures.ports import Ports

        if isinstance(value, Ports):
            return value
        try:
            return Ports.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ReleaseType(click.ParamType[str]):
    """A Kafka release whose definitions we hold, such as "3.9"."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from decoders.schema import resolve

        try:
            return resolve(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class SizeType(click.ParamType[int]):
    """Bytes: "1048576", "256M", "1GiB"."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from kproxy.settings import size

        try:
            return size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


FILTER = FilterType()
SIZE = SizeType()
TIME = TimeType()
PORTS = PortsType()
RELEASE = ReleaseType()


def selecting(command: Command) -> Command:
    """Add -Y, -c, --since and --until; the command gets `expression`, `count`, `since` and `until`."""
    options = [
        click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Only exchanges that match."),
        click.option("-c", "--count", "count", type=click.IntRange(min=0), metavar="N", help="Stop after N exchanges."),
        click.option("--since", "since", type=TIME, metavar="TIME", help="Only from this time on (RFC 3339, UTC)."),
        click.option("--until", "until", type=TIME, metavar="TIME", help="Only before this time."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(slots=True)
class Selection:
    """The exchanges that -Y, -c, --since and --until leave; `unknown` counts those that the filter cannot tell."""

    expression: Expression | None = None
    count: int | None = None
    since: int | None = None
    until: int | None = None
    unknown: int = 0

    def of(self, items: Iterable[T], source: Source, definitions: Definitions) -> Iterator[T]:
        """The selected exchanges of a reading, everything that is no exchange passed on; ends after `count`."""
        from decoders.exchange import Exchange
        from decoders.filters import ExchangeRow, Unavailable

        matches = None if self.expression is None else self.expression.compile()
        left = self.count
        for item in items:
            if left is not None and left <= 0:
                return
            if not isinstance(item, Exchange):
                yield item
                continue
            if not self.in_time(item):
                continue
            if matches is not None:
                try:
                    if not matches(ExchangeRow(item, source, definitions)):
                        continue
                except Unavailable:
                    self.unknown += 1
                    continue
            if left is not None:
                left -= 1
            yield item

    def in_time(self, exchange: Exchange) -> bool:
        frame = exchange.request or exchange.response
        if frame is None:
            return True
        return (self.since is None or frame.time >= self.since) and (self.until is None or frame.time < self.until)

    @property
    def everything(self) -> bool:
        return self.expression is None and self.count is self.since is self.until is None

    @property
    def note(self) -> str | None:
        """What to say on standard error about exchanges that the filter could not tell."""
        if not self.unknown:
            return None
        return f"{self.unknown} exchange{'s' if self.unknown > 1 else ''} left out: the filter cannot tell"
