"""Types of the values of options and arguments: what they accept, how they complete and fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.decoders.filters import Expression
    from kproxy.decoders.payloads.choose import Rule


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
        """The saved filters by name; {} if `text` refers to none, so that no file is read."""
        from kproxy.cli.interface import saved_filters

        return saved_filters() if "$" in text else {}


class Parsed(click.ParamType[Any]):
    """A value that a function of `kproxy.runs.settings` parses."""

    def __init__(self, name: str, function: str) -> None:
        self.name = name
        self._function = function

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str | int):
            return value
        from kproxy.runs import settings

        try:
            return getattr(settings, self._function)(str(value))  # a port in the configuration file may be a number
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
            self.fail("a duration must be longer than 0", param, ctx)
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


class AddressType(click.ParamType[tuple[str, int]]):
    """An address "host:port" as (host, port); the default port is 9092, and 0 is allowed if `any_port`."""

    name = "address"

    def __init__(self, *, any_port: bool = False) -> None:
        self._any_port = any_port

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        from kproxy.core.brokers import split_address

        if isinstance(value, tuple):
            return value
        try:
            host, port = split_address(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not host or (port == 0 and not self._any_port):
            self.fail(f"{value!r} is not an address: write HOST:PORT", param, ctx)
        return host, 9092 if port is None else port


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


FILTER = FilterType()
SIZE = SizeType()
TIME = TimeType()
DURATION = DurationType()
PORTS = PortsType()
RELEASE = ReleaseType()
ADDRESS = AddressType()
LISTENING = AddressType(any_port=True)
REGISTRY = RegistryType()
VIEW = ViewType()
DEFINITIONS = DefinitionsType()


class _LineType(click.ParamType[str]):
    """Text with spaces, for options that may be repeated: a single text of the configuration or of an environment
    variable holds one value a line.
    """

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 (click's signature)
        return str(value)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [line for line in rv.splitlines() if line.strip()]


LINE = _LineType()


def names_in(text: str, names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names in a list "A,B,C". Raises Failure (exit 2) if one is not in `names`; the message calls it a `what`."""
    chosen = tuple(name.strip() for name in text.split(","))
    for name in chosen:
        if name not in names:
            near = settings.nearest(name, names)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise Failure(f"no {what} {name!r}: {hint}", Exit.USAGE)
    return chosen
