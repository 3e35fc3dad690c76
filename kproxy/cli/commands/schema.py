"""`kproxy schema`: shows Kafka's message definitions, for authors of clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.names import NAME, VERSION
from kproxy.cli.options.reading import defining
from kproxy.cli.options.types import RELEASE
from kproxy.cli.tables import table

if TYPE_CHECKING:
    from kproxy.decoders.schema import Api, Definitions, Message
    from kproxy.decoders.schema.described import FieldRow
    from kproxy.decoders.schema.errors import KafkaError
    from kproxy.decoders.schema.naming import Named

FORMATS = ("table", "bnf", "json")
SIDES = ("request", "response")
release_option = click.option(
    "--release", type=RELEASE, metavar="RELEASE", help="Show the definitions of this Kafka release (3.9)."
)
request_option = click.option("--request", "side", flag_value="request", default=None, help="Show only the request.")
response_option = click.option("--response", "side", flag_value="response", help="Show only the response.")


@click.group()
def command() -> None:
    """Look up Kafka's messages: APIs, fields by version, differences, releases, error codes.

    A NAME is an API (Fetch, or its key 1), an older name of one (Offsets), a request or response (FetchResponse), or a
    message without API (RequestHeader, ConsumerProtocolAssignment).

    \b
    kproxy schema list
    kproxy schema show Fetch 13 --request
    kproxy schema show Fetch 6 --format bnf
    kproxy schema diff Fetch 12 13
    kproxy schema errors NOT_LEADER_OR_FOLLOWER
    """  # noqa: D301 (\b keeps click from joining the lines)
    settings.read_sources()


def _print(lines: Iterator[str] | Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _print_json(schema: str, facts: dict[str, Any]) -> None:
    click.echo(json.dumps({"schema": schema, **facts}, ensure_ascii=False))


# --- list ------------------------------------------------------------------------------------------------------------


@command.command("list")
@release_option
@defining
def list_(release: str | None, user_definitions: tuple[str, ...]) -> None:
    """List the APIs and their versions.

    One per line: key, name, class, versions, the first release with it, older names. The versions are those that the
    release speaks, "-" if it does not have the API. A * marks APIs whose newest versions are unstable: brokers serve
    them only with unstable.api.versions.enable.

    \b
    kproxy schema list
    kproxy schema list --release 3.9
    kproxy schema list --json | jq -r 'select(.class == "group") | .name'
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.definitions import definitions

    known = definitions(release, user_definitions)
    if settings.current().json:
        for api in known.apis.values():
            _print_json("kproxy.api/1", _api_json(api, known))
        return
    rows = [
        (
            str(key),
            api.name,
            api.klass,
            _spoken(api, known.release),
            api.releases[0] or "-",
            _later(api),
        )
        for key, api in known.apis.items()
    ]
    head = ("key", "name", "class", known.release, "since", "")
    _print(table(head, rows, left=len(head)))
    if any("*" in row[3] for row in rows):
        click.echo("\n* the newest versions are unstable: brokers serve them only with unstable.api.versions.enable")
    messages = sorted({one.name for one in known.messages() if one.kind not in SIDES})
    click.echo("\nMessages without API:")
    _print(wrap(", ".join(messages), 78, initial_indent="  ", subsequent_indent="  "))


def _spoken(api: Api, release: str) -> str:
    spoken = api.spoken.get(release)
    if spoken is None:
        return "-"
    return f"{spoken}{'*' if any(version in spoken for version in (api.unstable.low, api.unstable.high)) else ''}"


def _later(api: Api) -> str:
    """Remarks on an API: its last release and older names."""
    words = []
    if api.releases[1] is not None:
        words.append(f"until {api.releases[1]}")
    if api.older_names:
        words.append(f"was {', '.join(api.older_names)}")
    return "; ".join(words)


def _api_json(api: Api, known: Definitions) -> dict[str, Any]:
    spoken = api.spoken.get(known.release)
    return {
        "key": api.key,
        "name": api.name,
        "older_names": list(api.older_names),
        "class": api.klass,
        "release": known.release,
        "versions": None if spoken is None else [spoken.low, spoken.high],
        "stable": api.stable,
        "unstable_versions": None if api.stable else str(api.unstable),
        "first_release": api.releases[0] or None,
        "last_release": api.releases[1],
        "listeners": list(api.listeners),
        "spoken": {release: [one.low, one.high] for release, one in api.spoken.items()},
    }


# --- show ------------------------------------------------------------------------------------------------------------


@command.command()
@click.argument("named", type=NAME, metavar="NAME")
@click.argument("version", type=VERSION, required=False, metavar="[VERSION]")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.")
@click.option("--explain", is_flag=True, help="Explain each field whose name does not say what it is for.")
@request_option
@response_option
@release_option
@defining
def show(
    named: Named,
    version: int | None,
    form: str,
    explain: bool,
    side: str | None,
    release: str | None,
    user_definitions: tuple[str, ...],
) -> None:
    """Show the fields of a message.

    Without VERSION, every field is shown with the versions that have it.

    "3+" means since version 3. A tagged field is on the wire only if its value differs from the default. --format bnf
    shows one version (default: the newest) as Kafka's protocol guide does: [a] is an array after an INT32 count,
    (a) one after an unsigned varint of count + 1, ? marks what may be null.

    \b
    kproxy schema show Fetch
    kproxy schema show Fetch 6 --format bnf
    kproxy schema show Metadata 12 --response --explain
    kproxy schema show ConsumerProtocolSubscription
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.definitions import definitions

    known = definitions(release, user_definitions)
    form = "json" if settings.current().json else form
    blocks = []
    for messages in _messages(named, side, known):
        at = _at(messages, version, known)
        if form == "bnf":
            from kproxy.decoders.schema.described import grammar

            one = max(at) if version is None else version
            blocks.append(grammar(at[one], one))
        elif form == "json":
            from kproxy.decoders.schema.described import message_json

            _print_json("kproxy.schema/1", message_json(at, version, known))
        else:
            blocks.append(list(_message_lines(at, version, known, explain=explain)))
    if form == "table" and named.api_key is not None:
        blocks.insert(0, list(_api_lines(known.apis[named.api_key], known)))
    _print("\n\n".join("\n".join(block) for block in blocks).splitlines())


def _messages(named: Named, side: str | None, known: Definitions) -> list[list[Message]]:
    if side is not None and (named.message is not None or named.kind not in {None, side}):
        raise Failure(f"--{side}: {named.message or named.kind} is not a {side}", Exit.USAGE)
    return named.messages(known, side)


def _at(messages: list[Message], version: int | None, known: Definitions) -> dict[int, Message]:
    """The definition of a message by version. Raises Failure if `version` is given and the message does not have it."""
    from kproxy.decoders.schema.naming import by_version

    every = by_version(messages, known)
    if version is not None and version not in every:
        from kproxy.decoders.schema.described import ranges

        raise Failure(f"{every[max(every)].name} has versions {ranges(sorted(every))}, not {version}", Exit.USAGE)
    return every


def _api_lines(api: Api, known: Definitions) -> Iterator[str]:
    words = [f"{api.name}, API key {api.key}, {api.klass}"]
    if api.releases[0]:
        words.append(f"since {api.releases[0]}")
    if later := _later(api):
        words.append(later)
    yield ", ".join(words)
    if api.spoken:
        yield "spoken by " + "; ".join(f"{release}: {spoken}" for release, spoken in api.spoken.items())
    if not api.stable:
        yield f"unstable in {known.release}: {api.unstable}"


def _message_lines(at: dict[int, Message], version: int | None, known: Definitions, *, explain: bool) -> Iterator[str]:
    from kproxy.decoders.schema.described import fields

    name = at[max(at)].name if version is None else f"{at[version].name} v{version}"
    yield f"{name}: {', '.join(_facts(at, version, known))}"
    rows = [row for row in fields(at) if version is None or version in row.types]
    if not rows:
        yield "  no fields"
        return
    head = ("field", "type", "versions", "")
    cells = [("  " * row.depth + row.name, *_cells(row, version, at)) for row in rows]
    heading, *lines = table(head, cells, left=len(head))
    yield "  " + heading
    for row, line in zip(rows, lines, strict=True):
        yield "  " + line
        if explain:
            yield from _help(row, at, version)


def _help(row: FieldRow, at: dict[int, Message], version: int | None) -> Iterator[str]:
    """Lines that explain a field."""
    from kproxy.decoders.meanings.table import field_help

    one = max(row.types) if version is None else version
    text = field_help(at[one].name, row.path, one)
    if text is not None:
        indent = " " * (2 * row.depth + 6)
        yield from wrap(text, 78, initial_indent=indent, subsequent_indent=indent)


def _facts(at: dict[int, Message], version: int | None, known: Definitions) -> Iterator[str]:
    from kproxy.decoders.schema.described import ranges, since

    every = sorted(at)
    flexible = [one for one, message in at.items() if one in message.flexible]
    if version is None:
        yield f"versions {ranges(every)}"
        yield f"flexible {since(flexible, every)}" if flexible else "never flexible"
        message = at[every[-1]]
    else:
        message = at[version]
        yield "flexible" if version in flexible else "not flexible"
        if message.api_key is not None and message.kind == "request":
            yield f"header v{known.request_header_version(message.api_key, version)}"
        elif message.api_key is not None:
            yield f"header v{known.response_header_version(message.api_key, version)}"
        older = known.older(message.name, version)
        if older is not None:
            yield f"another layout in {older.release} (--release)"
        if message.release and message.release != known.release:
            yield f"as {message.release} defines it"
    if message.topic is not None:
        yield f"type {message.record_type} in {message.topic}"


def _cells(row: FieldRow, version: int | None, at: dict[int, Message]) -> tuple[str, str, str]:
    """(type, versions, notes) of a field."""
    from kproxy.decoders.schema.described import since

    every = sorted(at)
    types = dict.fromkeys(row.types.values())
    if version is not None:
        kind = row.types[version]
    elif len(types) == 1:
        kind = next(iter(types))
    else:
        kind = ", ".join(
            f"{one} {since([v for v, type_ in row.types.items() if type_ == one], every)}" for one in types
        )
    return kind, since(row.versions, every), ", ".join(_notes(row, version, every))


def _notes(row: FieldRow, version: int | None, every: list[int]) -> Iterator[str]:
    """Notes on a field (tag, nullable, default), with the versions if they hold for some of them only."""
    from kproxy.decoders.schema.described import since

    def where(special: frozenset[int]) -> str:
        return "" if version is not None or special == set(row.types) else f" {since(sorted(special), every)}"

    tagged = frozenset(row.tagged)
    if tagged if version is None else version in tagged:
        yield f"tag {row.tagged[max(tagged)]}{where(tagged)}"
    if row.nullable if version is None else version in row.nullable:
        yield f"nullable{where(row.nullable)}"
    default = row.slot.field.default
    if default is not None:
        yield f"default {default if isinstance(default, str) and default else json.dumps(default)}"


# --- diff ------------------------------------------------------------------------------------------------------------


@command.command()
@click.argument("named", type=NAME, metavar="NAME")
@click.argument("before", type=VERSION, metavar="VERSION")
@click.argument("after", type=VERSION, metavar="VERSION")
@request_option
@response_option
@release_option
@defining
def diff(
    named: Named, before: int, after: int, side: str | None, release: str | None, user_definitions: tuple[str, ...]
) -> None:
    """Show how two versions of a message differ.

    "+" is a field that was added, "-" one that was removed, "~" one whose type or encoding changed. The exit code is 1
    if the versions differ. A new version with the same fields may still change a broker's behaviour.

    \b
    kproxy schema diff Fetch 12 13
    kproxy schema diff Metadata 0 12 --response
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.definitions import definitions
    from kproxy.decoders.schema.described import differences

    known = definitions(release, user_definitions)
    different = False
    for messages in _messages(named, side, known):
        every = _at(messages, None, known)
        for version in (before, after):
            _at(messages, version, known)
        changes = differences((every[before], before), (every[after], after))
        different = different or bool(changes)
        name = every[after].name
        if settings.current().json:
            facts = {"message": name, "before": before, "after": after}
            _print_json("kproxy.schema.diff/1", {**facts, "changes": [change.to_json() for change in changes]})
            continue
        click.echo(f"{name} v{before} to v{after}" + ("" if changes else ": no field differs"))
        signs = {"added": "+", "removed": "-", "changed": "~"}
        rows = [
            (
                f"{signs[change.kind]} {change.path or '(message)'}",
                f"{change.before} -> {change.after}" if change.kind == "changed" else change.before or change.after,
            )
            for change in changes
        ]
        if rows:
            _print("  " + line for line in table(rows[0], rows[1:], left=2))
    if different:
        click.get_current_context().exit(Exit.CONDITION)


# --- coverage --------------------------------------------------------------------------------------------------------


@command.command()
def coverage() -> None:
    """Show which versions each release speaks.

    The table also has the versions that kproxy decodes, and the first and last release with the API.

    \b
    kproxy schema coverage
    kproxy schema coverage --json | jq -r 'select(.spoken["4.4.0"] == null) | .api'
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.decoders.schema import definitions
    from kproxy.decoders.schema.store import releases

    known = definitions()
    rows = []
    for key, api in known.apis.items():
        decoded = known.versions(key)
        if settings.current().json:
            spoken = {
                release: None if (one := api.spoken.get(release)) is None else [one.low, one.high]
                for release in releases()
            }
            facts = {"api_key": key, "api": api.name, "spoken": spoken, "decoded": [decoded.low, decoded.high]}
            _print_json("kproxy.coverage/1", facts)
            continue
        spoken_cells = [str(api.spoken.get(release, "-")) for release in releases()]
        span = f"{api.releases[0]} to {api.releases[1] or 'now'}"
        rows.append((str(key), api.name, *spoken_cells, str(decoded), span))
    if rows:
        head = ("key", "API", *releases(), "decoded", "in releases")
        _print(table(head, rows, left=len(head)))


# --- errors ----------------------------------------------------------------------------------------------------------


class ErrorType(click.ParamType["KafkaError"]):
    """An error by its code, or by its present or a former name."""

    name = "error"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> KafkaError:
        from kproxy.decoders.schema import errors

        if isinstance(value, errors.KafkaError):
            return value
        text = str(value)
        try:
            code: int | None = int(text)
        except ValueError:
            code = errors.by_name(text)
        found = None if code is None else errors.all_errors().get(code)
        if found is None:
            near = settings.nearest(text.upper(), [error.name for error in errors.all_errors().values()])
            self.fail(f"no error {text!r}" + (f"; did you mean {near}?" if near else ""), param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        from kproxy.decoders.schema import errors

        start = incomplete.upper()
        return [CompletionItem(error.name) for error in errors.all_errors().values() if error.name.startswith(start)]


@command.command("errors", context_settings={"ignore_unknown_options": True})
@click.argument("error", type=ErrorType(), required=False, metavar="[NAME|CODE]")
def errors_(error: KafkaError | None) -> None:
    """List the error codes, or explain one.

    The list has the code, name, whether a client may retry, and older names. The explanation adds the Java exception,
    whether a client refreshes metadata before it retries, and what to do.

    \b
    kproxy schema errors
    kproxy schema errors 6
    kproxy schema errors NotLeaderForPartition
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.decoders.schema import errors

    chosen = list(errors.all_errors().values()) if error is None else [error]
    if settings.current().json:
        for one in chosen:
            _print_json("kproxy.error/1", _error_json(one))
        return
    if error is not None:
        facts = [(name.replace("_", " "), _word(value)) for name, value in _error_json(error).items()]
        width = max(len(name) for name, _ in facts) + 2
        for name, value in facts:
            _print(wrap(value, 78, initial_indent=f"{name:{width}}", subsequent_indent=" " * width))
        return
    rows = [
        (str(one.code), one.name, "yes" if one.retriable else "no", ", ".join(errors.older_names(one.code)))
        for one in chosen
    ]
    _print(table(("code", "name", "retriable", "was"), rows, left=4))


def _error_json(error: KafkaError) -> dict[str, Any]:
    from kproxy.decoders.meanings import errors as meanings
    from kproxy.decoders.schema.errors import older_names

    return {
        **error._asdict(),
        "older_names": list(older_names(error.code)),
        "advice": meanings.ADVICE.get(error.code),
    }


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)
