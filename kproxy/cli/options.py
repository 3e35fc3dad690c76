"""Options that several commands share, so that they read, complete and fail alike."""

from __future__ import annotations

import functools
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.captures.ports import Ports
    from kproxy.decoders.exchange import Exchange
    from kproxy.decoders.filters import Expression, Matcher, Why
    from kproxy.decoders.knowledge import Knowledge
    from kproxy.decoders.payloads.choose import Chooser, Rule
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source
    from kproxy.tui.detail.viewing import Viewers

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


class FilterType(click.ParamType["Expression"]):
    """A display filter; completes fields, operators and names."""

    name = "expression"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Expression:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # a default that is an expression already
        from kproxy.decoders.filters import parse

        result = parse(value, self._saved(value))
        if result.expression is None:
            self.fail("\n".join((result.message or "an empty filter", *result.pointer(value))), param, ctx)
        return result.expression

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        from kproxy.decoders.filters import complete

        completion = complete(incomplete, saved=self._saved(incomplete))
        return [
            CompletionItem(completion.accept(incomplete, one)[0], help=one.doc or None)
            for one in completion.candidates
            if one.kind != "example"
        ]

    @staticmethod
    def _saved(text: str) -> Mapping[str, str]:
        """The saved filters, if the text refers to one."""
        from kproxy.cli.interface import saved_filters

        return saved_filters() if "$" in text else {}


class TimeType(click.ParamType[int]):
    """A time (RFC 3339, or seconds since the epoch) as nanoseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from datetime import datetime

        from kproxy.decoders.filters.values import BadLiteral, time

        text = value.isoformat() if isinstance(value, datetime) else str(value)
        try:
            return time(text)
        except BadLiteral as bad:
            self.fail(bad.message, param, ctx)


class DurationType(click.ParamType[int]):
    """A positive duration ("50ms", "1.5s", "2m"; a bare number is milliseconds) as nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from kproxy.decoders.filters.values import BadLiteral, duration

        try:
            found = duration(str(value))
        except BadLiteral as bad:
            self.fail(bad.message, param, ctx)
        if found <= 0:
            self.fail("a duration must be more than none", param, ctx)
        return found


class PortsType(click.ParamType["Ports"]):
    """Ports: "9092", "9092-9094", or several separated by commas."""

    name = "ports"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ports:
        from kproxy.captures.ports import Ports

        if isinstance(value, Ports):
            return value
        try:
            return Ports.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ReleaseType(click.ParamType[str]):
    """A Kafka release whose definitions kproxy has, such as "3.9"."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kproxy.decoders.schema import resolve

        try:
            return resolve(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class DefinitionsType(click.ParamType[str]):
    """Definitions besides Kafka's: a file, a folder, or the name of a dialect that comes with kproxy."""

    name = "definitions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pathlib import Path

        from kproxy.decoders.dialects import shipped

        del param, ctx
        given = str(value)
        # Absolute, because processes with other working directories read it too.
        return given if given in shipped() and not Path(given).exists() else str(Path(given).absolute())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        from kproxy.decoders.dialects import shipped

        names = [CompletionItem(name) for name in shipped() if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


class SizeType(click.ParamType[int]):
    """Bytes: "1048576", "256M", "1GiB"."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from kproxy.runs.settings import size

        try:
            return size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class RegistryType(click.ParamType[str]):
    """The address of a schema registry."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kproxy.schemas.http import address

        try:
            return address(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ViewType(click.ParamType["Rule"]):
    """The viewer for a topic's payloads: "orders=json", "orders.key=integer"."""

    name = "rule"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rule:
        from kproxy.decoders.payloads.choose import Rule

        if isinstance(value, Rule):
            return value
        try:
            return Rule.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_FAIL_ON = "kproxy.fail-on"

FILTER = FilterType()
SIZE = SizeType()
TIME = TimeType()
DURATION = DurationType()
PORTS = PortsType()
RELEASE = ReleaseType()
REGISTRY = RegistryType()
VIEW = ViewType()
DEFINITIONS = DefinitionsType()


captured = click.argument(
    "captures",
    nargs=-1,
    required=True,
    metavar="CAPTURE...",
    # click does not check readability: opening the file reports a better error
    type=click.Path(path_type=pathlib.Path, allow_dash=True, readable=False),
)
"""The captures that a command reads, as `captures`: paths, or "-" for standard input."""
porting = click.option(
    "--port", "ports", type=PORTS, metavar="PORTS", help="Only connections to these ports (9092, 9092-9094)."
)
headless = click.option(
    "--headless", is_flag=True, help="No terminal UI: one line an exchange (exchange JSON with --json)."
)
releasing = click.option(
    "--release", type=RELEASE, metavar="RELEASE", help="Read with the names and layouts of this Kafka release (3.9)."
)
revealing = click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and keys as they are.")


def _together(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Reads all given definitions, so that filters know their names and conflicts are reported."""
    if given:
        from kproxy.captures.definitions import definitions
        from kproxy.decoders.schema.jsontext import DefinitionError

        try:
            definitions(None, given)
        except DefinitionError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    return given


def defining(command: Command) -> Command:
    """Adds --definitions; the command gets `given`. Filters know the names that these define."""
    option = click.option(
        "--definitions",
        "--dialect",
        "given",
        multiple=True,
        is_eager=True,
        type=DEFINITIONS,
        callback=_together,
        metavar="PATH",
        help="Message definitions of further API keys, or a dialect: a file, a folder, or the name of a dialect that "
        "comes with kproxy (repeatable).",
    )
    return option(command)


def decrypting(command: Command) -> Command:
    """Adds --keylog; the command gets `keylog`."""
    option = click.option(
        "--keylog",
        type=click.Path(path_type=pathlib.Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE, kproxy run --tls-keylog).",
    )
    return option(command)


def spooling(command: Command) -> Command:
    """Adds --spool-dir and --spool-max; the command gets a `captures.spool.Spooling` as `spooling`."""

    @functools.wraps(command)
    def spooled(*args: Any, spool_dir: Path | None, spool_max: int | None, **rest: Any) -> Any:
        from kproxy.captures.spool import MOST, Spooling
        from kproxy.cli import settings

        directory = None if spool_dir is None else spool_dir.absolute()
        made = Spooling(directory, MOST if spool_max is None else spool_max, settings.warn)
        return command(*args, spooling=made, **rest)

    options = [
        click.option(
            "--spool-dir",
            type=click.Path(path_type=pathlib.Path, file_okay=False),
            metavar="DIR",
            help="Unpack what is compressed, or comes through a pipe, to this folder (else: the cache directory).",
        ),
        click.option(
            "--spool-max", type=SIZE, metavar="SIZE", help="Unpack and keep no more than this (20GB, unless given)."
        ),
    ]
    wrapped: Any = spooled
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)


def _fail_on(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[_FAIL_ON] = value


def fails_on_empty() -> bool:
    """Whether the running command was given --fail-on empty."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.meta.get(_FAIL_ON) == "empty"


def selecting(command: Command) -> Command:
    """Adds -Y, -c, --since and --until; the command gets `expression`, `count`, `since` and `until`.

    Adds --fail-on as well (`fails_on_empty`).
    """
    options = [
        click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Only exchanges that match."),
        click.option("-c", "--count", "count", type=click.IntRange(min=0), metavar="N", help="Stop after N exchanges."),
        click.option("--since", "since", type=TIME, metavar="TIME", help="Only from this time on (RFC 3339, UTC)."),
        click.option("--until", "until", type=TIME, metavar="TIME", help="Only before this time."),
        click.option(
            "--fail-on",
            type=click.Choice(("empty",)),
            expose_value=False,
            callback=_fail_on,
            help="End with exit code 6 where nothing is found.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Viewing:
    """The options for payloads: --schemas, --registry, --registry-wait and --view."""

    schemas: Path | None = None
    registry: str | None = None
    registry_wait: float = 0.0
    rules: tuple[Rule, ...] = ()

    def payloads(self) -> Chooser | None:
        """Viewers for printed output; None if no option asks for them. Raises Failure (exit 2)."""
        if self.schemas is None and self.registry is None and not self.rules:
            return None
        return self.chooser(wait=self.registry_wait)

    def for_screen(self, *, warn: Callable[[str], None], arrived: Callable[[], None] = lambda: None) -> Viewers:
        """As `chooser`; if no option asks for viewers, they are loaded when the first payload is shown."""
        if self.schemas is None and self.registry is None and not self.rules:
            from kproxy.cli.late_viewers import LateViewers

            return LateViewers(functools.partial(self.chooser, warn=warn, arrived=arrived))
        return self.chooser(warn=warn, arrived=arrived)

    def chooser(
        self,
        *,
        wait: float = 0.0,
        warn: Callable[[str], None] | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> Chooser:
        """Viewers, whether or not an option asks for them. Raises Failure (exit 2).

        `arrived` is called from a thread when a requested schema has come; `warn` may be called from a thread too, and
        prints on standard error by default.
        """
        from kproxy.cli import settings
        from kproxy.cli.exits import Exit, Failure
        from kproxy.schemas.payloads import chooser

        try:
            return chooser(
                schemas=self.schemas,
                registry=self.registry,
                rules=self.rules,
                wait=wait,
                warn=warn or settings.warn,
                arrived=arrived,
            )
        except ValueError as error:
            raise Failure(f"--view: {error}", Exit.USAGE) from None
        except OSError as error:
            raise Failure(f"--schemas {self.schemas}: {error.strerror}", Exit.USAGE) from None


def viewing(command: Command) -> Command:
    """Adds --view, --schemas, --registry and --registry-wait; the command gets a `Viewing` as `viewing`.

    It must be the innermost decorator, next to the function.
    """

    @functools.wraps(command)
    def viewed(
        *args: Any,
        views: tuple[Rule, ...],
        schemas: Path | None,
        registry: str | None,
        registry_wait: float,
        **rest: Any,
    ) -> Any:
        return command(*args, viewing=Viewing(schemas, registry, registry_wait, views), **rest)

    options = [
        click.option(
            "--view",
            "views",
            type=VIEW,
            multiple=True,
            metavar="TOPIC[.PART]=VIEWER",
            help="Show payloads of a topic (PART: key, value or header) by this viewer: text, json, avro, hex, …",
        ),
        click.option(
            "--schemas",
            type=click.Path(path_type=pathlib.Path, exists=True, file_okay=False),
            metavar="DIR",
            help="Read payloads by the schemas of this folder (orders-value.avsc, 42.avsc, orders-key.desc).",
        ),
        click.option(
            "--registry",
            type=REGISTRY,
            metavar="URL",
            help="Read payloads by the schemas of this registry (KPROXY_REGISTRY_USER and _PASSWORD, or _TOKEN).",
        ),
        click.option(
            "--registry-wait",
            type=click.FloatRange(min=0, max=60),
            default=2.0,
            show_default=True,
            metavar="SECONDS",
            help="Wait for a schema that the registry has not given yet at most this long.",
        ),
    ]
    wrapped: Any = viewed
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)


@dataclass(slots=True)
class Selection:
    """Selects the exchanges of one reading by -Y, -c, --since and --until.

    Raises Failure (exit 2) for a filter relative to the end of the capture, which is unknown until all is read.
    """

    expression: Expression | None = None
    count: int | None = None
    since: int | None = None
    until: int | None = None
    number: int | None = None
    """Number of the only exchange to select, None for all."""
    unknown: Counter[Why] = field(default_factory=Counter)
    """Number of exchanges that the filter could not decide, by reason."""
    taken: int = 0
    """Number of exchanges selected so far."""
    _matcher: Matcher | None = None

    def __post_init__(self) -> None:
        if self.expression is not None and self.expression.relative:
            from kproxy.cli.exits import Exit, Failure

            raise Failure(
                f"{self.expression}: the end of the capture is not known before all is read; give a time, or --since",
                Exit.USAGE,
            )

    def of(
        self, items: Iterable[T], source: Source, definitions: Definitions, knowledge: Knowledge | None = None
    ) -> Iterator[T]:
        """The selected exchanges of a reading or its next part, and all other items; ends after `count` exchanges.

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
            selected: bool | None = self.in_time(item) and self.number in {None, item.number}
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
        """Learns what the filter needs from items that an earlier run has handled."""
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
        frame = exchange.request or exchange.response
        if frame is None:
            return True
        return (self.since is None or frame.time >= self.since) and (self.until is None or frame.time < self.until)

    @property
    def done(self) -> bool:
        """Whether no further exchange will be selected: `count` is reached, or exchange `number` was found."""
        return (self.count is not None and self.taken >= self.count) or (self.number is not None and self.taken > 0)

    @property
    def everything(self) -> bool:
        return self.expression is None and self.count is self.since is self.until is self.number is None

    @property
    def everything_else(self) -> bool:
        """Whether all exchanges match but for `number`."""
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
