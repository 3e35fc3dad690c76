"""Hostile text in every field of every message, in every form of output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kproxy.captures.analysis.stats import BY, Stats
from kproxy.captures.analysis.texts import view_text
from kproxy.captures.analysis.views import Views
from kproxy.captures.export import Lines
from kproxy.captures.export.jsonl import JsonArray, JsonLines
from kproxy.captures.export.nodes import Style, hex_lines, tree_lines
from kproxy.captures.export.oneline import OneLine
from kproxy.captures.export.page import Page
from kproxy.captures.export.records import RecordLines
from kproxy.captures.export.rows import CsvLines
from kproxy.captures.reader import Reader, read
from kproxy.captures.views import FINDINGS, VIEWS
from kproxy.cli.commands import stats as stats_command
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.frames import frame_tree
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from tests.decoders.test_escaping import controls
from tests.support import hostile_messages

FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_messages.capture(tmp_path_factory.mktemp("hostile") / "messages.pcap")


@pytest.fixture
def reader(capture: Path) -> Iterator[Reader]:
    with closing(read([capture])) as reading:
        yield reading


def lines(reader: Reader, form: Lines) -> bytes:
    return form.begin() + form.lines(list(reader)) + form.end()


FORMS: dict[str, Callable[[Reader], Lines]] = {
    "jsonl": lambda reader: JsonLines(reader, View(show_secrets=True)),
    "json": lambda reader: JsonArray(reader, View(show_secrets=True)),
    "records": RecordLines,
    "csv": CsvLines,
    "page": lambda reader: Page(reader, View(show_secrets=True)),
    "one line": OneLine,
}


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_the_export_controls_a_terminal(form: str, reader: Reader) -> None:
    text = lines(reader, FORMS[form](reader)).decode()
    assert "]52;c;" in text
    assert not controls(text) - {"\n"}
    assert not any(line.startswith("kproxy: forged") for line in text.splitlines())


def test_every_string_is_in_the_json_as_it_was(reader: Reader) -> None:
    read = [json.loads(line) for line in lines(reader, JsonLines(reader)).splitlines()]
    assert {one["status"] for one in read[:-1]} == {"ok"}
    assert len(read) > 80
    assert {one["client_id"] for one in read[1:-1]} == {hostile_messages.TEXT}


def test_no_cell_of_a_sheet_is_a_formula(reader: Reader) -> None:
    rows = list(csv.reader(io.StringIO(lines(reader, CsvLines(reader)).decode(), newline="")))
    assert not [cell for row in rows for cell in row if cell.startswith(FORMULAS)]


def test_no_tree_or_dump_controls_a_terminal(reader: Reader) -> None:
    seen = 0
    for item in reader:
        if not isinstance(item, Exchange):
            continue
        for frame, side in ((item.request, Side.CLIENT), (item.response, Side.BROKER)):
            assert frame is not None
            data = bytes(frame.data(reader.source))
            root = frame_tree(data, side, item.api_key, item.api_version, reader.definitions)
            assert item.api_key is not None
            assert item.api_version is not None
            style = Style(
                show_secrets=True, width=200,
                api=(item.api_key, item.api_version), version=item.api_version,
            )  # fmt: skip
            for line in (*tree_lines(root, data, style), *hex_lines(root, data, style)):
                seen += "forged" in line
                assert not controls(line), line
    assert seen > 500


def test_no_view_or_table_controls_a_terminal(reader: Reader) -> None:
    views = Views(reader.source, reader.definitions)
    tables = {by: Stats(reader.definitions, by) for by in BY}
    for item in reader:
        if isinstance(item, Exchange):
            views.add(item)
            for table in tables.values():
                table.add(item, reader.source)
    texts = {view: list(view_text(view, views[view].lines())) for view in VIEWS if view != FINDINGS}
    for by, table in tables.items():
        texts[f"stats by {by}"] = stats_command.text([line.to_json(by) for line in table.lines()], by)
    for what, told in texts.items():
        assert told, what
        assert not [line for line in told if controls(line)], what
    assert all("forged" in "".join(texts[what]) for what in ("topics", "groups", "connections", "stats by client"))
