"""Names of APIs and messages as arguments: accepts every name Kafka has ever used, completes, and hints at typos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kproxy.cli import settings

if TYPE_CHECKING:
    from kproxy.decoders.schema import Definitions, Message, Versions


@dataclass(frozen=True, slots=True)
class Named:
    """The API or message that a name denotes; `kind` is "request" or "response" if the name includes it."""

    api_key: int | None
    kind: str | None
    message: str | None = None

    def messages(self, definitions: Definitions, kind: str | None = None) -> list[list[Message]]:
        """For each message that the name denotes, all its definitions; `kind` selects request or response."""
        if self.message is not None:
            return [[one for one in definitions.messages() if one.name == self.message]]
        kinds = [self.kind or kind] if self.kind or kind else ["request", "response"]
        return [
            [one for one in definitions.messages() if (one.api_key, one.kind) == (self.api_key, wanted)]
            for wanted in kinds
        ]


def definitions_of(ctx: click.Context | None) -> Definitions:
    """The definitions in which names are looked up: Kafka's and those of --definitions."""
    from kproxy.captures.definitions import definitions

    return definitions(None, (ctx.params.get("user_definitions") or ()) if ctx is not None else ())


def message_names(known: Definitions) -> list[str]:
    """Names of all messages that are not a request or response."""
    return sorted({one.name for one in known.messages() if one.kind not in {"request", "response"}})


def api_names(known: Definitions) -> list[str]:
    return [api.name for api in known.apis.values()]


class NameType(click.ParamType["Named"]):
    """An API by its present or a former name or by its key, or a message by its name."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        if isinstance(value, Named):
            return value
        from kproxy.decoders.schema import apis
        from kproxy.decoders.schema.names import folded, lookup

        definitions = definitions_of(ctx)
        text = str(value)
        if text.isdecimal() and len(text) < 6 and int(text) in definitions.apis:
            return Named(int(text), None)
        names = message_names(definitions)
        for name in names:
            if folded(name) == folded(text):
                return Named(None, None, name)
        key = apis.by_name(text)
        if key is None:
            given = {folded(one.name): one.key for one in definitions.apis.values()}
            key = lookup(given, text, ("request", "response"))
        if key is not None:
            kind = next((kind for kind in ("request", "response") if folded(text).endswith(kind)), None)
            return Named(key, kind)
        known = {folded(name): name for name in (*api_names(definitions), *names)}
        near = settings.nearest(folded(text), known)
        hint = f"; did you mean {known[near]}?" if near else " (kproxy schema list shows all)"
        return self.fail(f"no API and no message is called {text!r}{hint}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        known, start = definitions_of(ctx), incomplete.lower()
        names = (*api_names(known), *message_names(known))
        return [CompletionItem(name) for name in names if name.lower().startswith(start)]


def by_version(messages: list[Message], known: Definitions) -> dict[int, Message]:
    """The definition that applies to each version of a message."""
    ruling: dict[int, Message] = {}
    for one in messages:
        for version in numbers(one.versions):
            if one.api_key is None:
                found = known.message(one.name, version)
            else:
                found = (known.request if one.kind == "request" else known.response)(one.api_key, version)
            ruling[version] = found or one
    return dict(sorted(ruling.items()))


class VersionType(click.ParamType[int]):
    """A version; completes the versions of the message named before it."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(str(value).removeprefix("v"))
        except ValueError:
            self.fail(f"{value!r} is not a version", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        named = ctx.params.get("api") or ctx.params.get("named")
        if isinstance(named, str):
            named = NAME.convert(named, None, ctx)
        if not isinstance(named, Named):
            return []
        known = definitions_of(ctx)
        return [
            CompletionItem(str(version))
            for version in by_version(named.messages(known)[0], known)
            if str(version).startswith(incomplete)
        ]


def numbers(of: Versions) -> range:
    return range(of.low, of.high + 1)


NAME = NameType()
VERSION = VersionType()
