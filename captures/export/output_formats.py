"""The formats of `kproxy export`, one row each; a new one is a row and the module that makes its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproxy.captures.export import Lines, Reading
    from kproxy.decoders.view import View


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options on which the text of a format may depend."""

    view: View
    columns: Sequence[str] = ()
    """Columns of a table, in this order."""
    formulas: bool = False
    """Whether cells that begin like a formula stay unchanged, so that a spreadsheet evaluates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """Properties of a format, for commands and the interface."""

    suffix: str
    """Suffix of its file names; "" for a folder."""
    meaning: str
    """Its description after "FORMAT: "."""
    lines: Callable[[Reading, TextOptions], Lines] | None = None
    """Makes the object that turns items into text; None if the output is not made item by item."""
    resumable: bool = False
    """Whether it grows item by item for any number of exchanges, so that --resume can go on with it."""
    with_health: bool = False
    """Whether it ends with the health of the reading; otherwise that is printed on standard error."""
    payloads: bool = False
    """Whether it shows keys and values decoded by viewers."""
    learns: bool = True
    """Whether its text depends on earlier exchanges, such as for the names of topic ids."""
    columns: bool = False
    """Whether its columns can be chosen."""
    single: bool = False
    """Whether it is meant for one exchange."""
    segments: bool = False
    """Whether Kafka's log segments can be written in it."""
    packets: bool = False
    """Whether it holds the captured bytes, in which secrets must be overwritten."""
    needs: str = ""
    """A module that must be installed, "" for none."""
    extra: str = ""
    """The extra of kproxy that installs it."""


def _made_by(target: str) -> Callable[[Reading, TextOptions], Lines]:
    """Makes the text with "module:class" of this folder, which is imported at the first use."""
    module, _, name = target.partition(":")

    def lines(reader: Reading, options: TextOptions) -> Lines:
        made: Lines = getattr(import_module(f"kproxy.captures.export.{module}"), name)(reader, options.view)
        return made

    return lines


def _csv(reader: Reading, options: TextOptions) -> Lines:
    from kproxy.captures.export.rows import CsvLines

    return CsvLines(reader, options.columns, formulas=options.formulas)


OUTPUT_FORMATS: Final[Mapping[str, OutputFormat]] = {
    "jsonl": OutputFormat(
        suffix=".jsonl", meaning="exchange JSON, one a line", lines=_made_by("jsonl:JsonLines"),
        resumable=True, with_health=True, payloads=True, segments=True,
    ),
    "json": OutputFormat(
        suffix=".json", meaning="exchange JSON, one array", lines=_made_by("jsonl:JsonArray"),
        resumable=True, with_health=True, payloads=True,
    ),
    "csv": OutputFormat(
        suffix=".csv", meaning="a table, one exchange a line", lines=_csv, resumable=True, learns=False, columns=True,
    ),
    "records": OutputFormat(
        suffix=".records.jsonl", meaning="records as JSON, one a line", lines=_made_by("records:RecordLines"),
        resumable=True, payloads=True, segments=True,
    ),
    "html": OutputFormat(
        suffix=".html", meaning="one exchange as a page", lines=_made_by("page:Page"), payloads=True, single=True,
    ),
    "parquet": OutputFormat(
        suffix="", meaning="tables for Spark and others, a folder", needs="pyarrow", extra="parquet",
    ),
    "pcapng": OutputFormat(
        suffix=".pcapng", meaning="a capture of these exchanges alone", packets=True,
    ),
}  # fmt: skip
