"""How a report is shown, from rows that were made up; what they are is judged where Spark runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner, Result

from kproxy.captures.spark.report import page, plots
from kproxy.captures.spark.report.sections import SECTIONS, Column, Found, Section
from kproxy.cli.commands import spark_report
from kproxy.cli.commands.spark_report import narrowed, objects, text
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.main import main
from tests.captures import traffic

HOSTILE = '<b>"&\x1b[31m\n'
AT = datetime(2026, 11, 21, 6, 11, 10, 500_000)  # noqa: DTZ001 (as executors give it)


def test_a_page_without_a_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["spark", "report", "tables", "--html", str(tmp_path / "no" / "page.html")])
    assert (result.exit_code, result.stderr) == (Exit.USAGE, f"kproxy: {tmp_path / 'no'}: not a folder\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report") / "tables"
    result = CliRunner().invoke(main, ["export", str(traffic.LIBRDKAFKA), "--format", "parquet", "-o", str(directory)])
    assert result.exit_code == 0, result.stderr
    return directory


def report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["spark", "report", *map(str, arguments)])


def test_small_tables_are_reported_by_this_process(folder: Path, tmp_path: Path) -> None:
    result = report(folder, "--json", "--html", tmp_path / "page.html")
    assert result.exit_code == 0, result.stderr
    first, *_ = result.stderr.splitlines()
    assert first.startswith("kproxy: ")
    assert first.endswith(" rows, computed by this process")
    overview, *_ = map(json.loads, result.stdout.splitlines())
    assert (overview["section"], overview["exchanges"]) == ("overview", 176)
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rows", "missing", "chosen"),
    [(10**9, (), "local"), (1, (), "spark"), (1, ("pyspark",), "local"), (10**9, ("duckdb",), "spark")],
    ids=["few rows", "many rows", "no Spark", "no DuckDB"],
)
def test_size_and_packages_choose_who_computes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int, missing: tuple[str, ...], chosen: str
) -> None:
    def opened(*_: object, **__: object) -> NoReturn:
        raise Failure("Spark was started")

    monkeypatch.setattr(spark_report, "LARGE", rows)
    monkeypatch.setattr(spark_report, "opened", opened)
    monkeypatch.setattr(spark_report, "find_spec", lambda name: None if name in missing else name)
    monkeypatch.setattr(spark_report, "lacking", lambda: "pyspark" in missing)
    result = report(folder)
    assert ("Spark was started" in result.stderr) == (chosen == "spark"), result.stderr
    assert ("computed by this process" in result.stderr) == (chosen == "local"), result.stderr


def test_what_a_report_refuses(folder: Path, tmp_path: Path) -> None:
    result = report(folder, "--engine", "local", "--master", "local[1]")
    assert (result.exit_code, result.stderr) == (
        Exit.USAGE,
        "kproxy: --master needs Spark: remove --engine local\n",
    )
    result = report(tmp_path / "none")
    assert result.exit_code == Exit.INPUT
    assert "holds no tables" in result.stderr
    (tmp_path / "exchanges").mkdir()
    (tmp_path / "exchanges" / "1.parquet").write_bytes(b"PAR1 cut")
    result = report(tmp_path)
    assert result.exit_code == Exit.INPUT
    assert "1.parquet" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_report_reads_a_url(folder: Path) -> None:
    assert report(folder.as_uri(), "--engine", "local").stdout == report(folder, "--engine", "local").stdout


def section(*columns: Column, **more: object) -> Section:
    return Section("s", "Title", "Words.", "Nothing.", lambda _: "", columns, **more)  # type: ignore[arg-type]


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


def test_time_axes_say_which_day_it_is() -> None:
    begin = datetime(2026, 11, 21, 23, 50, tzinfo=UTC).timestamp()

    def words(lasts: float) -> list[str]:
        figure = ET.fromstring(plots.lines({"a": [(begin, 1), (begin + lasts, 1)]}, lambda _: ""))
        return [element.text or "" for element in figure.iter("text") if element.text]

    assert words(60) == [
        "23:50:00", "2026-11-21", "23:50:10", "23:50:20", "23:50:30", "23:50:40", "23:50:50", "23:51:00",
    ]  # fmt: skip
    assert words(1800).count("2026-11-21") == words(1800).count("2026-11-22") == 1
    assert words(30 * 86400) == [
        f"2026-{day}" for day in ("11-23", "11-27", "12-01", "12-05", "12-09", "12-13", "12-17", "12-21")
    ]
    assert "2026-11-21 23:50:00" in plots.lines({"a": [(begin, 1)]}, str)


def test_a_page_shows_the_first_rows_and_holds_all() -> None:
    columns = [Column(f"c{number}", f"head {number}", "text") for number in range(12)]
    rows = [{column.name: f"{column.head} of row {number}" for column in columns} for number in range(40)]
    made = page.page("t", [Found(section(*columns), rows, more=False)])
    body = ET.fromstring(f"<x>{made.partition('</nav>')[2].partition('</body>')[0]}</x>")
    table = next(body.iter("table"))
    assert table.attrib["class"] == "many most"
    first, more = table.findall("tbody")
    assert (len(first), len(more), more.attrib["class"]) == (12, 28, "more")
    assert [cell.text for row in [*first, *more] for cell in row] == [text for row in rows for text in row.values()]
    assert {cell.attrib["data-head"] for cell in first[0]} == {column.head for column in columns}
    assert next(body.iter("label")).text == "Show all 40 rows"


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
