"""How a report is shown, from rows that were made up; what they are is judged where Spark runs."""

from __future__ import annotations

from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner

from kproxy.captures.spark.report import page, plots
from kproxy.captures.spark.report.sections import SECTIONS, Column, Found, Section
from kproxy.cli.commands.spark_report import narrowed, objects, text
from kproxy.cli.exits import Exit
from kproxy.cli.main import main

HOSTILE = '<b>"&\x1b[31m\n'
AT = datetime(2026, 11, 21, 6, 11, 10, 500_000)  # noqa: DTZ001 (as Spark gives it)


def test_a_page_without_a_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["spark", "report", "tables", "--html", str(tmp_path / "no" / "page.html")])
    assert (result.exit_code, result.stderr) == (Exit.USAGE, f"kproxy: {tmp_path / 'no'}: not a folder\n")


def section(*columns: Column, **more: object) -> Section:
    return Section("s", "Title", "Words.", "Nothing.", lambda *_: None, columns, **more)  # type: ignore[arg-type]  # never run


def shown(found: Found, width: int = 80) -> list[str]:
    return [click.unstyle(line) for line in text(found, width)]


def test_text_comes_first_and_numbers_to_the_right() -> None:
    columns = (
        Column("n", "count"),
        Column("name", "name", "text"),
        Column("us", "p50 ms", "us"),
        Column("x", "x", wide=True),
    )
    found = Found(
        section(*columns),
        [{"n": 7, "name": "orders", "us": 1500, "x": 1}, {"n": 12345678, "name": "b", "us": None, "x": 1}],
        more=False,
    )
    assert shown(found) == ["Title", "name    count  p50 ms", "orders      7     1.5", "b         12M", ""]


def test_an_empty_section_says_so() -> None:
    assert shown(Found(section(Column("n", "n")), [], more=False)) == ["Title", "Nothing.\n"]


def test_rows_that_are_not_shown_are_counted() -> None:
    found = Found(section(Column("n", "n")), [{"n": 1}] * 30, more=True)
    assert shown(found)[-2] == "and 18 or more others"


@pytest.mark.parametrize(
    ("width", "row"), [(40, ["a" * 20, "b" * 12]), (32, ["a" * 20, "b" * 9 + "…"]), (10, ["aaaaaaa…", "bbbbbbb…"])]
)
def test_the_first_column_is_cut_last(width: int, row: list[str]) -> None:
    assert narrowed([["a" * 20, "b" * 12]], ["one", "two"], width) == [row]


def test_nothing_of_the_wire_reaches_a_terminal_or_a_page() -> None:
    found = Found(section(Column("name", "name", "text")), [{"name": HOSTILE}], more=False)
    assert not [line for line in shown(found) if "\x1b" in line or "\n" in line]
    made = page.page(HOSTILE, [found])
    assert "<b>" not in made
    assert "\x1b" not in made


def test_a_rule_links_to_its_text() -> None:
    (findings,) = (one for one in SECTIONS if one.name == "findings")
    row = {column.name: None for column in findings.columns} | {"rule": "group.poll_gap", "scopes": ["g"]}
    made = page.page("tables", [Found(findings, [row, row | {"rule": HOSTILE}], more=False)])
    assert '<a href="#group.poll_gap">group.poll_gap</a>' in made
    assert made.count('id="group.poll_gap"') == 1
    assert "max.poll.interval.ms" in made.partition('id="group.poll_gap"')[2]
    assert "<b>" not in made


def test_rows_as_objects() -> None:
    found = Found(section(), [{"at": AT, "names": ["a"]}], more=False)
    assert list(objects(found)) == [
        '{"schema": "kproxy.report/1", "section": "s", "at": "2026-11-21T06:11:10.500000Z", "names": ["a"]}'
    ]


DRAWN = {
    "lines": plots.lines({"a": [(0, 1), (10, 5), (500, 2)], HOSTILE: [(0, 0)]}, str),
    "one point": plots.lines({"a": [(0, 0)]}, str),
    "ranges": plots.ranges([plots.Range(HOSTILE, 0, 2e6, (1, 2e6)), plots.Range("b", 5, 5, (5,))], str, ("p50", "max")),
    "bars": plots.bars([(HOSTILE, (1, 2)), ("x" * 50, (0, 0))], str, ("in", "out")),
    "spans": plots.spans([plots.Span(HOSTILE, 0, 1, 9e5, "w"), plots.Span("b", 5, 5, 5, "")], ("x", "y")),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_is_well_formed_and_stays_in_its_frame(name: str) -> None:
    figure = ET.fromstring(DRAWN[name])
    svg = next(figure.iter("svg"))
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for element in svg.iter():
        for along, size in (("x", width), ("x1", width), ("cx", width), ("y", height), ("y1", height), ("cy", height)):
            assert -1 <= float(element.attrib.get(along, 0)) <= size + 1, element.attrib
        if element.tag == "rect":
            assert float(element.attrib["x"]) + float(element.attrib["width"]) <= width


def test_lines_break_where_nothing_was_captured() -> None:
    assert DRAWN["lines"].count("<polyline") == 3
    assert not plots.lines({}, str)
    assert not plots.ranges([], str, ())
    assert not plots.bars([("a", (0,))], str, ("in",))
    assert not plots.spans([], ("x", "y"))


def test_every_section_has_a_place_on_the_page() -> None:
    made = page.page("tables", [Found(one, [], more=False) for one in SECTIONS])
    targets: list[str] = []
    links: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            if tag == "section":
                targets.append(given["id"] or "")
            if tag == "a":
                links.append((given["href"] or "")[1:])

    Reader().feed(made)
    assert links == targets == [one.name for one in SECTIONS]
