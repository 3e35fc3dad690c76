"""Writes the reference pages that are made from the code: docs/api.md, docs/canonical.md, docs/cli.md,
docs/filters.md, docs/findings.md, docs/keys.md and docs/tables.md; also the man page and completions in packages.

python -m tools.docs
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click

import kproxy
from kproxy.captures.findings.rule import Rule
from kproxy.captures.findings.table import FAMILIES
from kproxy.captures.tables.schema import FROM_BODIES, OF_RECORDS, PLACE, TABLES, WITHOUT_BODIES
from kproxy.cli import settings
from kproxy.cli.commands import COMMANDS, load
from kproxy.cli.exits import MEANINGS
from kproxy.cli.main import main
from kproxy.decoders.canonical import IN_ORDER, KINDS, Kind
from kproxy.decoders.fields import FIELDS, Cost
from kproxy.decoders.filters.language import GRAMMAR, OPERATORS, PREFIXES, REQUEST, operators
from kproxy.decoders.filters.values import DURATIONS, LITERALS, SIZES
from kproxy.sending.replacing import REPLACED
from kproxy.tui.actions.keymap import key_text
from kproxy.tui.actions.registry import ALONE, CONTEXTS, of
from tools import man

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by `make docs` from the code; do not edit. -->"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield _row(*head)
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield _row(*row)
    yield ""


def _spelling(option: click.Option, ctx: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    if option.is_flag or option.count:
        return names
    return f"{names} `{option.make_metavar(ctx)}`"


def _default(option: click.Option) -> str:
    value = option.default
    plain = isinstance(value, str | int | float | Path) and not isinstance(value, bool)
    return f" Default: `{value}`." if plain and str(value) and not option.count and option.expose_value else ""


def _options(command: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    help_option = command.get_help_option(ctx) if ctx.parent is None else None
    return [
        (_spelling(option, ctx), (option.help or "") + _default(option))
        for option in (*command.params, help_option)
        if isinstance(option, click.Option) and not option.hidden
    ]


def _paragraphs(text: str) -> Iterator[str]:
    """The help of a command as Markdown; paragraphs that click must not rewrap become code blocks."""
    for block in text.split("\n\n"):
        if block.lstrip().startswith("\b"):
            yield "```"
            yield from (line.strip() for line in block.replace("\b", "").strip("\n").splitlines())
            yield "```"
        else:
            yield " ".join(line.strip() for line in block.splitlines())
        yield ""


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    ctx = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * (2 + ctx.command_path.count(' ') - 1)} {ctx.command_path}"
    yield ""
    yield f"    {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}"
    yield ""
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    rows = _options(command, ctx)
    if rows:
        yield from _table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            found = command.get_command(ctx, sub)
            if found is not None:
                yield from _command(sub, found, ctx)


CLI = """\
{made}

# The command line

Data goes to standard output, everything else to standard error. Options of every command may stand before or after the
command's name.

## Options of every command

{options}
{commands}
## Exit codes

{exits}
## Configuration

`kproxy config path` prints the path of the configuration file. It is TOML; a key is an option's long name. A key at the
top level applies to every command that has the option; a key in a table named after a command applies to that command.
`[profile.NAME]` has keys and tables of both kinds for `--profile NAME`.

```toml
upstream = "kafka:9092"

[stats]
port = "9092-9094"

[profile.staging]
upstream = "staging-kafka:9092"
```

Precedence, highest first: option, `-X key=value` (or `-X command.key=value`), environment (`{prefix}COMMAND_KEY`, then
`{prefix}KEY`), profile, configuration, default. kproxy warns of unknown keys; `kproxy config check` lists them,
and `kproxy config show` says where each value comes from.
"""

FILTERS = """\
{made}

# Display filters

One language for the terminal UI's filter bar, `-Y/--filter` and `--record`:

    api in (Produce, Fetch) and latency > 50ms
    error == NOT_LEADER_OR_FOLLOWER and not client.id ~ "^test-"
    api == Produce and topic == orders and records > 1000
    class == group and error and not error.retriable
    broker == 2 and fetch.role == follower and time >= "12:01"
    response.body.responses[].partitions[].errorCode == OFFSET_OUT_OF_RANGE
    any response.body.topics[].partitions[].isrNodes[] != 3
    record.key == 42 or record.value contains refund
    "refund" and not batch.codec == zstd

A text in quotes selects the exchanges that contain it, ignoring case: in the name of the API, the client, a topic, a
group, a transaction or an error, in an address, in a text field of request or response, in the key, the value or a
header of a record. In the terminal UI, `enter` turns words that are not a filter into such a search.

A bare field, or one after `has`, asks whether the exchange has a value of it: `error`, `has response.body.errorCode`.
A comparison with a value that an exchange does not have is false, with `!=`, `not in` and `not contains` too; `not` in
front of a comparison negates it: `not topic == orders` selects exchanges without a topic as well.

For some exchanges a filter cannot decide: their bytes are missing, their body cannot be decoded, or a secret is
withheld. These are left out, unless the rest of the filter decides. Commands say how many there are for each reason on
standard error, the terminal UI in its status line:

    warning: 12 exchanges left out because the filter could not decide: TLS (8), secret withheld (4)

An exchange without records, or with an empty list, counts as decided: it has no value of the field.

`$slow` stands for the filter named `slow`: in the table `[filters]` of the configuration, or saved in the terminal
UI with `:filter save slow`. A saved filter cannot refer to another one.

Where an exchange has several values (several topics, errors, elements of a list), `any` asks for at least one that
fits, `all` for each to fit (and there must be one). With neither, one must fit; for `!=`, `not in` and `not contains`
each must, so that `topic != orders` says that no topic is orders:

| filter | selects Metadata responses in which |
| --- | --- |
| `any response.body.topics[].partitions[].isrNodes[] != 3` | some in-sync replica is on another broker than 3 |
| `all response.body.topics[].partitions[].isrNodes[] == 3` | every in-sync replica is on broker 3 |
| `response.body.topics[].partitions[].isrNodes[] == 3` | some partition has broker 3 in its ISR (as with `any`) |
| `response.body.topics[].partitions[].isrNodes[] != 3` | no partition has broker 3 in its ISR (as with `all`) |

## Fields

Fields marked *body* make kproxy decode exchanges; it takes all others from headers or from an index. `--record` decides
when a request's header passes, and so takes only {known}.

{fields}
## Fields of bodies

Any field of a message, by its path in the [exchange JSON](exchange-json.md): `request.body.` or `response.body.`, then
names with dots between them. `[]` after a list's name stands for every element, `[0]` for the first. A path is known if
a message of any API and version has it. Definition and name give the type of its values: `…ErrorCode` are
errors, `…Ms` durations (a bare number is milliseconds) or, with `Timestamp` in the name, times, `…Bytes` sizes,
`apiKey` an API. Bytes compare as base64 text; `….decoded.` leads into the decoded content of bytes. A filter cannot
decide on a secret.

Records of up to 64 MiB a batch are opened for `record.` fields and for paths below `batches[].records[]`, and for no
others. `record.` fields ignore control records. In text, U+FFFD replaces bytes that are not UTF-8. Of records of
`__cluster_metadata`, filters know offsets, timestamps, and values without a secret.

## Operators

{operators}
{prefixes}
## Values

- durations: {durations}; a bare number is milliseconds
- sizes: {sizes}; a bare number is bytes
- times: RFC 3339, UTC unless they say otherwise, seconds since the epoch, a time of day in UTC (`12:01:30.5`)
  of any day, or how long before the end of the capture (`-60s`, `-1.5m`, `-2h`): `api == Produce and time >= -60s` are
  the Produce requests of the last minute. The end is the newest request that had been read when the filter was applied;
  it does not move with the traffic until the filter is applied again. Only the terminal UI knows the end: commands that
  read captures refuse such times, and for traffic that is printed as it passes they cannot be decided
- brokers: a number is the node id that Metadata gave the address; without one, the filter cannot decide
- addresses: an IPv4 or IPv6 address or a host's name, with or without a port; for a part of one write
  `client ~ "^10[.]0[.]"`
- APIs and errors: the current name, an older one (`Send`, `NotLeaderForPartition`) or the number, in any case; `~` and
  `contains` search current names
- regular expressions are RE2's (no look-around, no references to groups) and match anywhere in the text; how long that
  takes grows with the text alone

## Grammar

```
{grammar}```
"""


TABLES_PAGE = """\
{made}

# Tables

`kproxy export --format parquet -o DIR` writes these tables as Parquet (zstd; it needs pyarrow:
`pip install kafka-kproxy[parquet]`). Each table is a folder with folders such as
`capture_date=2026-11-21/capture_hour=05` (UTC), by the time column in brackets. Programs that read the folder show
`capture_date` and `capture_hour` as columns.

    $ kproxy export capture.pcap --format parquet -o tables
    $ python -c 'import pyarrow.dataset as d; print(d.dataset("tables/exchanges", partitioning="hive").to_table())'
    $ duckdb -c "select api_name, max(latency_us) from 'tables/exchanges/*/*/*.parquet' group by 1"

File names contain the id of the reading (`source_id`). Writing the same captures again
replaces these files, even if other exchanges were selected before, the captures have grown or have other paths; so does
writing them together with more captures. Writing only some of the captures that were read together is refused, because
rows of the others would be lost: give all of them, or another folder. The files of other captures stay. So it is for
captures and tables at URLs too ([`kproxy spark`](spark.md) reads and writes there), whichever command or engine wrote
before:
`.ID.files.json` lists the captures of a reading by hashes of their first 64 KiB, decompressed. Without that file, only
the first capture decides what is replaced. Files appear when all are complete. If writing is interrupted while they are
put in place, write the same captures again; fewer of them are refused until then.

Times and most 64-bit numbers are delta-encoded (Parquet's DELTA_BINARY_PACKED), which pyarrow, Spark, DuckDB and
Polars read.

`--no-bodies` reads only headers, in half the time: it writes {headers}; the columns {null} of exchanges are null,
and errors inside bodies are not found.

`--record-sizes` tells how large keys, values and headers of records are, for each batch and each partition of an
exchange, and writes no payload. It fills the columns {sized}, and `records` also for compressed message sets (magic 0
and 1). It is not the default, because it decompresses every batch and reads every record: 1.4 times the CPU time for
a capture of mostly uncompressed batches, where the table `records` takes 3.7 times as much. A null key or value counts
as 0 bytes. The sizes of a batch are null if one of its records cannot be read: the batch is damaged, its codec is
unknown, or it decompresses to more than `--batch-limit`. A wrong CRC alone does not matter; an incomplete batch at the
end of a Fetch has no row. Sizes, codecs and numbers of records are those that were captured, also with `--redact`,
which turns compressed batches into uncompressed ones of other records.

Every time is nanoseconds since the epoch (`…_ns`). For programs without nanoseconds, each has a companion column in
microseconds (`ts` for `ts_ns`), which is not listed here. Missing values are null.

Rows with the same `source_id` and `exchange_id` belong to one exchange. An `exchange_id` is
`flow_id:conn_epoch:place`. {place} So every reading of a capture gives the same keys, however it is split.

A reading has one capture or several that are read together. `source_id` is the id of the reading, `capture_id` that of
the file to which a row belongs, which is a row of the table `captures`. Both ids are equal for the first file of a
reading, unless it was merged with others or TLS in it was decrypted. Files of the same time are merged, because brokers
that were captured at once see the same connections. Rows of such files have the `capture_id` of their own file, as if
it were read alone. Of a packet that several files hold, the first copy is read: its file counts. A problem that belongs
to no exchange has the file of its connection's last packet up to the place where the problem was found; null if the
merged files have none. `req_file` and `rsp_file` name all merged files, and offsets are those in the merged file.

`capture_id` is null if several files were read and TLS in them was decrypted. A finding has no `capture_id`, because
its evidence may be in several files.

{tables}"""


KEYS_PAGE = """\
{made}

# Keys of the terminal UI

`?` shows all keys, those of the focused pane first; `:` (or `ctrl+p`) finds every action by its name and runs it.
A pane's keys work while it has the focus.

To change an action's keys, set its id in the configuration, with spaces between several keys. A key that would conflict
with another action's is refused, with a warning:

```toml
[keymap]
"list.tail" = "t"
"app.help" = "? f1"
```

Every action is a command of the command line, and every menu has its key. The mouse: a click selects, a double click
opens, the wheel scrolls, the right button opens a menu of actions. Click a tab, a screen or a key at the bottom to
use it, and the title of a column to sort by it; drag the border between list and detail to move it. Dragging with Shift
selects text by the terminal's own means.

{contexts}"""


FINDINGS = """\
{made}

# Findings

`kproxy findings capture.pcap` says what is wrong, the worst and most costly first. Each finding names the exchanges
that prove it, who does it, the likely cause, what to change, how to verify the change, and what the capture cannot
tell. `kproxy findings --explain group.poll_gap` prints one rule of this page.

Severities: ERROR (data is lost or duplicated, or a client cannot work), WARN, NOTE, INFO. How sure a finding is:
proven, strong, inferred. What is only inferred is at most a WARN, and whatever rests on a connection with missing bytes
is one step less certain. Times are the capture's, so that every reading of it gives the same findings with the same
ids.

`--limit RULE.NAME=N` changes a threshold; in the configuration `limit = ["group.poll_gap.repeats=5"]` in the table
`[findings]`.

{rules}"""


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def cli() -> str:
    """The text of docs/cli.md: every command, option and exit code."""
    ctx = main.make_context("kproxy", [], resilient_parsing=True)
    commands = [line for name, entry in COMMANDS.items() for line in _command(name, load(entry.target), ctx)]
    return CLI.format(
        made=MADE,
        options=_lines(_table(("option", "meaning"), _options(main, ctx))).rstrip("\n") + "\n",
        commands=_lines(commands).rstrip("\n") + "\n",
        exits=_lines(_table(("code", "meaning"), [(str(int(code)), text) for code, text in MEANINGS.items()])).rstrip()
        + "\n",
        prefix=settings.PREFIX,
    )


def filters() -> str:
    """The text of docs/filters.md: the display-filter language."""
    fields = [
        (
            f"`{field.name}`",
            field.type.value,
            field.doc,
            f"`{LITERALS[field.type].example}`",
            "body" if field.cost is Cost.DECODE else "",
            " ".join(f"`{symbol}`" for symbol in operators(field)),
        )
        for field in FIELDS
    ]
    signs = [(f"`{operator.symbol}`", operator.doc) for operator in OPERATORS]
    prefixes = [(f"`{word}`", doc) for word, doc in PREFIXES.items()]
    return FILTERS.format(
        made=MADE,
        fields=_lines(_table(("field", "type", "meaning", "example", "needs", "operators"), fields)).rstrip() + "\n",
        operators=_lines(_table(("operator", "meaning"), signs)).rstrip() + "\n",
        prefixes=_lines(_table(("before a field", "meaning"), prefixes)).rstrip() + "\n",
        known=", ".join(f"`{name}`" for name in REQUEST),
        durations=", ".join(unit for unit, _ in reversed(DURATIONS)),
        sizes=", ".join(unit for unit, _ in reversed(SIZES)),
        grammar=GRAMMAR,
    )


def tables() -> str:
    """The text of docs/tables.md: the tables of an export and their columns."""
    lines: list[str] = []
    for table in TABLES.values():
        lines += [f"## {table.name} ({table.time.removesuffix('_ns')})", "", table.meaning, ""]
        lines += _table(
            ("column", "type", "meaning"),
            [
                (f"`{column.name}`", column.type, column.meaning)
                for column in table.columns
                if column.type != "timestamp"
            ],
        )
    headers, null, sized = (
        ", ".join(f"`{name}`" for name in names) for names in (WITHOUT_BODIES, FROM_BODIES, OF_RECORDS)
    )
    return TABLES_PAGE.format(
        made=MADE, headers=headers, null=null, sized=sized, place=PLACE, tables=_lines(lines).rstrip() + "\n"
    )


def keys() -> str:
    """The text of docs/keys.md: every action of the terminal UI."""
    lines: list[str] = []
    for context, title in CONTEXTS.items():
        rows = [
            (
                " ".join(f"`{key_text(key)}`" for key in action.keys),
                action.help,
                "" if context in ALONE else f"`{f'{action.command} {action.argument}'.rstrip()}`",
                f"`{action.id}`" if action.keys else "",
            )
            for action in of(context)
        ]
        lines += [f"## {title}", "", *_table(("keys", "what it does", "command", "id"), rows)]
    return KEYS_PAGE.format(made=MADE, contexts=_lines(lines).rstrip() + "\n")


def _rule(row: Rule) -> Iterator[str]:
    yield f"## {row.id}"
    yield ""
    yield f"{row.title}: {row.severity.name}, {row.confidence.name.lower()}. It needs {row.vantage}."
    yield ""
    yield row.meaning
    yield ""
    yield f"Cause: {row.cause}"
    yield ""
    yield from ("What does not count, or makes it less severe:", "")
    yield from (f"- {guard}" for guard in row.guards)
    yield ""
    if row.thresholds:
        rows = [(f"`{one.name}`", f"{one.default:g} {one.unit}", one.meaning) for one in row.thresholds]
        yield from _table(("threshold", "default", "meaning"), rows)
    yield from _table(
        ("to change", "Java client", "librdkafka", "why"),
        [(fix.side, fix.java or "", fix.librdkafka or "", fix.why) for fix in row.fixes],
    )
    yield f"To verify: {row.verify}"
    yield ""
    if row.unknown:
        yield f"What the capture cannot tell: {' '.join(row.unknown)}"
        yield ""


def findings() -> str:
    """The text of docs/findings.md: every rule of `kproxy findings`."""
    lines = [line for family in FAMILIES for row in family.ROWS for line in _rule(row)]
    return FINDINGS.format(made=MADE, rules=_lines(lines).rstrip() + "\n")


CANONICAL = """{made}
# The canonical form of exchanges

What `kproxy send --expect` and `kproxy serve` compare: bodies in the form of the [exchange JSON](exchange-json.md),
without what differs from run to run, so that two runs of the same deterministic client are equal.

- A field of a kind with a number becomes the kind's name and a number that counts its values by first appearance
  (`member#1`); so equal values stay equal. Small counters and times are often equal by chance: the name alone.
- 0, "" and negative numbers have a meaning of their own and stay, except where the table says otherwise.
- Lists of objects are sorted, because brokers list hash tables; those named
  {ordered} keep their order.
- Bytes that are decoded are compared by what they say.

{kinds}
"""


def _exceptions(kind: Kind) -> str:
    if not kind.negative_stays:
        return " (all values)"
    return "" if kind.sentinels or not kind.name else " (0 as well)"


def canonical() -> str:
    """The text of docs/canonical.md: which fields differ from run to run, and what replaces them in requests."""
    rows = [
        (
            f"`{kind.name}{'#1' if kind.numbered else ''}`" if kind.name else "(removed)",
            ", ".join(f"`{name}`" for name in sorted(kind.fields)) + _exceptions(kind),
            REPLACED.get(kind.name, ""),
        )
        for kind in KINDS
    ]
    head = "becomes", "fields", "in requests sent again, the recorded value is replaced"
    ordered = ", ".join(f"`{name}`" for name in sorted(IN_ORDER))
    return CANONICAL.format(made=MADE, ordered=ordered, kinds=_lines(_table(head, rows)).rstrip())


API_PAGE = """\
{made}

# The names of `import kproxy`

[library.md](library.md) shows them at work.

{names}"""


class _Plain(str):
    """The text of an annotation; `inspect.Signature` prints it without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(name: str, called: object) -> str:
    """A function or method as it is called: "name(first, second=1) -> int"."""
    signature = inspect.signature(called)  # type: ignore[arg-type]  # functions and methods are passed
    parameters = [
        one.replace(annotation=_Plain(one.annotation)) for one in signature.parameters.values() if one.name != "self"
    ]
    return f"{name}{signature.replace(parameters=parameters, return_annotation=_Plain(signature.return_annotation))}"


def _described(name: str, value: object) -> Iterator[str]:
    """A class, function, method or attribute: how it is used, and its docstring."""
    if isinstance(value, property):
        assert value.fget is not None  # noqa: S101 (every property can be read)
        yield f"    {name}: {inspect.signature(value.fget).return_annotation}"
        yield ""
    elif not inspect.isclass(value):
        yield f"    {_signature(name, value)}"
        yield ""
    yield from (inspect.getdoc(value) or "", "")


def members(of: type) -> dict[str, object]:
    """The public methods and properties of a class by name, its bases' before its own."""
    found: dict[str, object] = {}
    for one in reversed(of.__mro__):
        if one.__module__.startswith("kproxy."):
            found |= {name: member for name, member in vars(one).items() if not name.startswith("_")}
    return {
        name: member for name, member in found.items() if isinstance(member, property) or inspect.isfunction(member)
    }


def api() -> str:
    """The text of docs/api.md: every public name of the package, from its docstring."""
    lines: list[str] = []
    for name in sorted(kproxy.__all__, key=str.lower):
        value = getattr(kproxy, name)
        lines += [f"## kproxy.{name}", "", *_described(name, value)]
        if inspect.isclass(value) and not issubclass(value, Exception):
            for member, of in members(value).items():
                lines += [f"### {name}.{member}", "", *_described(member, of)]
    return API_PAGE.format(made=MADE, names=_lines(lines).rstrip() + "\n")


PAGES: dict[str, Callable[[], str]] = {
    "api.md": api,
    "canonical.md": canonical,
    "cli.md": cli,
    "filters.md": filters,
    "findings.md": findings,
    "keys.md": keys,
    "tables.md": tables,
}


def write() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    for path, text in man.files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
