"""The formats of `kproxy export`, one row each; to add one, add a row and a module that makes its text."""

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
    """Columns of a table, in their order."""
    formulas: bool = False
    """Whether cells that begin like a formula stay unchanged; a spreadsheet evaluates such cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """Properties of an output format, for commands and the interface."""

    suffix: str
    """Suffix of the names of files in this format; "" if the output is a folder."""
    meaning: str
    """Description of the format, which follows its name in help texts."""
    lines: Callable[[Reading, TextOptions], Lines] | None = None
    """Makes the object that turns items into text (`captures.export.Lines`); None if the output is no text of items."""
    resumable: bool = False
    """Whether the output grows item by item for any number of exchanges, so that --resume can continue it."""
    with_health: bool = False
    """Whether the output ends with the health of the reading; otherwise health is printed on standard error."""
    payloads: bool = False
    """Whether the output has keys and values of records as viewers decode them."""
    learns: bool = True
    """Whether the text of an exchange depends on earlier exchanges, for example on the names of topic ids.

    If False, exchanges are not decoded for such facts, which is faster. Leave it True if a topic name is shown.
    """
    columns: bool = False
    """Whether the user can choose the columns."""
    single: bool = False
    """Whether the format is meant for a single exchange."""
    segments: bool = False
    """Whether Kafka's log segments can be written in this format."""
    packets: bool = False
    """Whether the output has the captured bytes, in which secrets must be overwritten."""
    needs: str = ""
    """The module that must be installed to write the format; "" if none."""
    extra: str = ""
    """The extra of kproxy that installs the module `needs`."""


def _made_by(target: str) -> Callable[[Reading, TextOptions], Lines]:
    """A function that makes the Lines object of the class "module:class" in this folder, imported at the first call."""
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
        suffix=".jsonl", meaning="exchange JSON, one per line", lines=_made_by("jsonl:JsonLines"),
        resumable=True, with_health=True, payloads=True, segments=True,
    ),
    "json": OutputFormat(
        suffix=".json", meaning="exchange JSON, one array", lines=_made_by("jsonl:JsonArray"),
        resumable=True, with_health=True, payloads=True,
    ),
    "csv": OutputFormat(
        suffix=".csv", meaning="a table, one exchange per line", lines=_csv, resumable=True, learns=False, columns=True,
    ),
    "records": OutputFormat(
        suffix=".records.jsonl", meaning="records as JSON, one per line", lines=_made_by("records:RecordLines"),
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
