"""Options that select exchanges, and the selection that they make."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.captures.period import Period
from kproxy.cli.options.types import FILTER, TIME

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange
    from kproxy.decoders.filters import Expression, Matcher, Why
    from kproxy.decoders.knowledge import Knowledge
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")
B = TypeVar("B")

_FAIL_ON = "kproxy.fail-on"


def _fail_on(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[_FAIL_ON] = value


def fails_on(condition: str) -> bool:
    """Whether the running command was given --fail-on with this condition."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.meta.get(_FAIL_ON) == condition


def selecting(command: Command, conditions: Mapping[str, str] = MappingProxyType({})) -> Command:
    """Adds -Y, -c, --since and --until; the command gets Criteria as `criteria`.

    Adds --fail-on as well (`fails_on`), for "empty" and the command's own `conditions`, each with its help.
    """
    named = {how: ", ".join(name for name, its in conditions.items() if its == how) for how in conditions.values()}
    ends = ["with exit code 6 if nothing is found", *(f"{names}: {how}" for how, names in named.items())]
    options = [
        click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Only exchanges that match."),
        click.option("-c", "--count", "count", type=click.IntRange(min=0), metavar="N", help="Stop after N exchanges."),
        click.option("--since", "since", type=TIME, metavar="TIME", help="Only from this time on (RFC 3339, UTC)."),
        click.option("--until", "until", type=TIME, metavar="TIME", help="Only before this time."),
        click.option(
            "--fail-on",
            type=click.Choice(("empty", *conditions)),
            expose_value=False,
            callback=_fail_on,
            help=f"End {'; '.join(ends)}.",
        ),
    ]

    @functools.wraps(command)
    def selected(
        *args: Any, expression: Expression | None, count: int | None, since: int | None, until: int | None, **rest: Any
    ) -> Any:
        return command(*args, criteria=Criteria(expression, count, since, until), **rest)

    wrapped: Any = selected
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which exchanges a command selects: the values of -Y, -c, --since and --until; times are nanoseconds."""

    expression: Expression | None
    count: int | None
    since: int | None
    until: int | None

    def selection(self, number: int | None = None) -> Selection:
        """The selection of one reading; with `number`, only of the exchange that has it."""
        numbers = None if number is None else frozenset({number})
        return Selection(self.expression, self.count, self.since, self.until, numbers)

    @property
    def text(self) -> str:
        """-Y, --since and --until as the text of one filter, for the filter bar."""
        parts = [] if self.expression is None else [str(self.expression)]
        for operator, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                second, rest = divmod(moment, 1_000_000_000)
                clock = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
                parts.append(f'time {operator} "{clock}.{rest:09d}Z"')
        return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


@dataclass(slots=True)
class Selection:
    """Selects the exchanges of one reading by -Y, -c, --since and --until.

    Raises Failure (exit 2) for a filter relative to the end of the capture, which is unknown until all is read.
    """

    expression: Expression | None = None
    count: int | None = None
    since: int | None = None
    until: int | None = None
    numbers: frozenset[int] | None = None
    """Numbers of the only exchanges to select, None for all."""
    unknown: Counter[Why] = field(default_factory=Counter)
    """Number of exchanges that the filter could not decide, by reason."""
    taken: int = 0
    """Number of exchanges selected so far."""
    _matcher: Matcher | None = None
    _period: Period = field(init=False)

    def __post_init__(self) -> None:
        self._period = Period(self.since, self.until)
        if self.expression is not None and self.expression.relative:
            from kproxy.cli.exits import Exit, Failure

            raise Failure(
                f"{self.expression}: the end of the capture is not known until all of it is read; "
                "give a time, or --since",
                Exit.USAGE,
            )

    def of(
        self, items: Iterable[T], source: Source, definitions: Definitions, knowledge: Knowledge | None = None
    ) -> Iterator[T]:
        """The items of a reading, or of its next part, without excluded exchanges; ends after `count` exchanges.

        `knowledge` learns from excluded exchanges too.
        """
        from kproxy.decoders.exchange import Exchange
        from kproxy.decoders.learning import learn

        if self.everything:
            for item in items:
                self.taken += isinstance(item, Exchange)
                yield item
            return
        matcher = self._asked(source, definitions)
        for item in items:
            if self.done:
                return
            if not isinstance(item, Exchange):
                yield item
                continue
            selected: bool | None = self.in_time(item) and (self.numbers is None or item.number in self.numbers)
            if matcher is not None and selected:
                selected = matcher.matches(item)
            elif matcher is not None:
                matcher.learn(item)
            if not selected:
                if knowledge is not None:
                    learn(item, source, definitions, knowledge)
                continue
            self.taken += 1
            yield item

    def pass_over(self, items: Iterable[object], source: Source, definitions: Definitions) -> None:
        """Lets the filter learn facts such as topic names from items that an earlier run has exported."""
        from kproxy.decoders.exchange import Exchange

        matcher = self._asked(source, definitions)
        if matcher is not None and matcher.learns:
            for item in items:
                if isinstance(item, Exchange):
                    matcher.learn(item)

    def _asked(self, source: Source, definitions: Definitions) -> Matcher | None:
        """The filter's matcher, None without a filter."""
        if self.expression is not None and self._matcher is None:
            from kproxy.decoders.filters import Matcher

            self._matcher = Matcher(self.expression, source, definitions)
            self._matcher.unknown = self.unknown
        return self._matcher

    def in_time(self, exchange: Exchange) -> bool:
        return self._period.has(exchange)

    @property
    def done(self) -> bool:
        """Whether no further exchange will be selected: `count` is reached, or all `numbers` were found."""
        counts = (self.count, None if self.numbers is None else len(self.numbers))
        return any(count is not None and self.taken >= count for count in counts)

    def until_done(self, batches: Iterable[B]) -> Iterator[B]:
        """The batches of a reading, up to the one after which no further exchange will be selected."""
        for batch in batches:
            yield batch
            if self.done:
                return

    @property
    def everything(self) -> bool:
        return self.everything_else and self.numbers is None

    @property
    def everything_else(self) -> bool:
        """Whether `numbers` is the only option that excludes exchanges."""
        return self.expression is None and self.count is self.since is self.until is None

    @property
    def in_order(self) -> bool:
        """Whether the selection of an exchange depends on earlier ones."""
        from kproxy.decoders.filters import learns

        return self.count is not None or (self.expression is not None and learns(self.expression))

    @property
    def note(self) -> str | None:
        """The message about exchanges that the filter could not decide; None if there are none."""
        from kproxy.decoders.filters import left_out

        return left_out(self.unknown)
