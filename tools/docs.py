"""Writes the reference pages that are made from the code's own tables: docs/cli.md, docs/filters.md and
docs/tables.md.

python -m tools.docs
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click

from captures.tables.schema import PLACE, TABLES
from decoders.filters.fields import FIELDS, GRAMMAR, OPERATORS
from decoders.filters.values import DURATIONS, LITERALS, SIZES
from kproxy.cli import settings
from kproxy.cli.exits import MEANINGS
from kproxy.cli.main import COMMANDS, load, main

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
    """A command's help as Markdown; what click is told not to join becomes a code block."""
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

Data goes to standard output, everything else to standard error. Options that every command takes stand before or after
its name.

## Options of every command

{options}
{commands}
## Exit codes

{exits}
## Configuration

`kproxy config path` says where the file is looked for. It is TOML; a key is an option's long name. At the top level it
holds for every command that has the option, in a table named after a command for that one alone; `[profile.NAME]` holds
both again for `--profile NAME`.

```toml
upstream = "kafka:9092"

[stats]
port = "9092-9094"

[profile.staging]
upstream = "staging-kafka:9092"
```

The strongest first: option, `-X key=value` (or `-X command.key=value`), environment (`{prefix}COMMAND_KEY`, then
`{prefix}KEY`), profile, configuration, default. Unknown keys are warned of; `kproxy config check` finds them all, and
`kproxy config show` says where each value comes from.
"""

FILTERS = """\
{made}

# Display filters

One language for the terminal UI's filter bar and `-Y/--filter`:

    api in (Produce, Fetch) and latency > 50ms
    error == NOT_LEADER_OR_FOLLOWER and not client.id ~ "^test-"

A bare field asks whether the exchange has one: `error`. A comparison with a value that an exchange does not have is
false, `!=` included. An exchange that cannot tell (its bytes are gone, its body cannot be decoded) is left out and
counted.

## Fields

{fields}
## Operators

{operators}
## Values

- durations: {durations}; a bare number is milliseconds
- sizes: {sizes}; a bare number is bytes
- times: RFC 3339, UTC unless they say otherwise, or seconds since the epoch
- APIs and errors: the name of today, an older one (`Send`, `NotLeaderForPartition`) or the number, in any case
- regular expressions are Python's and match anywhere in the text

## Grammar

```
{grammar}```
"""


TABLES_PAGE = """\
{made}

# Tables

`kproxy export --format parquet -o DIR` writes them as Parquet (zstd; it needs pyarrow:
`pip install kafka-kproxy[parquet]`): a folder each, in it `capture_date=2026-11-21/capture_hour=05` (UTC) by the column
in brackets. `capture_date` and `capture_hour` are columns to whoever reads the folder.

    $ kproxy export capture.pcap --format parquet -o tables
    $ python -c 'import pyarrow.dataset as d; print(d.dataset("tables/exchanges", partitioning="hive").to_table())'
    $ duckdb -c "select api_name, max(latency_us) from 'tables/exchanges/*/*/*.parquet' group by 1"

Files bear the capture's id. Writing the same capture once more replaces its files, whatever was selected before, and
leaves those of others; they appear when all has been written.

Every time is nanoseconds since the epoch (`…_ns`), with microseconds beside it (`ts` beside `ts_ns`) for what knows no
finer ones; these columns are not listed. Any value is null where there is none.

Rows with the same `capture_id` and `exchange_id` belong to one exchange. An `exchange_id` is
`flow_id:conn_epoch:place`. {place} So keys are the same whoever reads the capture, and in whatever pieces.

{tables}"""


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def cli() -> str:
    """docs/cli.md: every command, option and exit code."""
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
    """docs/filters.md: the display-filter language."""
    fields = [
        (
            f"`{field.name}`",
            field.type.value,
            field.doc,
            f"`{LITERALS[field.type].example}`",
            " ".join(f"`{symbol}`" for symbol in field.operators),
        )
        for field in FIELDS
    ]
    operators = [(f"`{operator.symbol}`", operator.doc) for operator in OPERATORS]
    return FILTERS.format(
        made=MADE,
        fields=_lines(_table(("field", "type", "meaning", "example", "operators"), fields)).rstrip() + "\n",
        operators=_lines(_table(("operator", "meaning"), operators)).rstrip() + "\n",
        durations=", ".join(unit for unit, _ in reversed(DURATIONS)),
        sizes=", ".join(unit for unit, _ in reversed(SIZES)),
        grammar=GRAMMAR,
    )


def tables() -> str:
    """docs/tables.md: the tables of an export and their columns."""
    lines: list[str] = []
    for table in TABLES.values():
        lines += [f"## {table.name} ({table.time.removesuffix('_ns')})", "", table.meaning, ""]
        lines += _table(
            ("column", "type", "meaning"),
            [(f"`{column.name}`", column.type, column.meaning) for column in table.columns if column.twin_of is None],
        )
    return TABLES_PAGE.format(made=MADE, place=PLACE, tables=_lines(lines).rstrip() + "\n")


PAGES: dict[str, Callable[[], str]] = {"cli.md": cli, "filters.md": filters, "tables.md": tables}


def write() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
