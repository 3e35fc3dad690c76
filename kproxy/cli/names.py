"""Names of APIs and messages as arguments: accepts every name Kafka has ever used, completes, and hints at typos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kproxy.cli import settings

if TYPE_CHECKING:
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.schema.naming import Named


def definitions_of(ctx: click.Context | None) -> Definitions:
    """The definitions in which names are looked up: Kafka's and those of --definitions."""
    from kproxy.captures.definitions import definitions

    return definitions(None, (ctx.params.get("user_definitions") or ()) if ctx is not None else ())


class NameType(click.ParamType["Named"]):
    """An API by its present or a former name or by its key, or a message by its name."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        from kproxy.decoders.schema.naming import Named

        if isinstance(value, Named):
            return value
        from kproxy.decoders.schema.names import folded
        from kproxy.decoders.schema.naming import api_names, message_names, named

        definitions = definitions_of(ctx)
        text = str(value)
        found = named(text, definitions)
        if found is not None:
            return found
        names = message_names(definitions)
        known = {folded(name): name for name in (*api_names(definitions), *names)}
        near = settings.nearest(folded(text), known)
        hint = f"; did you mean {known[near]}?" if near else " (kproxy schema list shows all)"
        return self.fail(f"no API and no message is called {text!r}{hint}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kproxy.decoders.schema.naming import api_names, message_names

        del param
        known, start = definitions_of(ctx), incomplete.lower()
        names = (*api_names(known), *message_names(known))
        return [CompletionItem(name) for name in names if name.lower().startswith(start)]


class VersionType(click.ParamType[int]):
    """A version; completes the versions of the message named before it."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(str(value).removeprefix("v"))
        except ValueError:
            self.fail(f"{value!r} is not a version", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kproxy.decoders.schema.naming import Named, by_version

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


NAME = NameType()
VERSION = VersionType()
