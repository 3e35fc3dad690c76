"""Tables: how their columns share the width, how rows are ordered, and how they are mapped from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.analysis.columns import storing
from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    LEAST_TEXT,
    MILLISECONDS,
    NAME,
    SECONDS,
    YES,
    Column,
    Form,
    Table,
    Value,
    fit,
    member,
    warn,
)
from kproxy.captures.analysis.columns.ordering import ordered
from kproxy.captures.analysis.columns.stored import Rows, Stored, UnreadableError
from kproxy.captures.analysis.columns.storing import store
from kproxy.captures.analysis.columns.tables import (
    UnknownColumnError,
    arranged,
    chosen,
    rows,
    table_json,
    table_text,
    tables,
)
from kproxy.captures.text import utc
from kproxy.captures.views import VIEWS
from tests.captures.analysis.support import views

TABLE = Table(
    "things",
    "Things",
    "topics",
    "kproxy.thing/1",
    (
        Column("name", "Name", NAME, member("name")),
        Column("size", "Size", BYTES, member("size"), drop=1, severity=warn),
        Column("note", "Note", NAME, member("note"), drop=2),
    ),
    ("name",),
    lambda row: [f'topic == "{row["name"]}"'],
)


def things(*given: tuple[str, int | None, str | None]) -> list[dict[str, Any]]:
    return [{"schema": "kproxy.thing/1", "name": name, "size": size, "note": note} for name, size, note in given]


def stored(tmp_path: Path, lines: list[dict[str, Any]]) -> Rows:
    path = tmp_path / "things.table"
    path.write_bytes(store({"state": "complete"}, lines, [TABLE], utc))
    found = Stored(path).rows(TABLE)
    assert found is not None
    return found


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(), st.floats(allow_nan=False))), st.lists(st.one_of(st.none(), st.text()))
)


@given(VALUES, st.booleans())
def test_unknown_values_come_last_in_either_order(values: list[Value], descending: bool) -> None:
    order = ordered(values, descending=descending)
    assert sorted(order) == list(range(len(values)))
    known = [value for value in (values[index] for index in order) if value is not None]
    assert [values[index] for index in order[: len(known)]] == known
    keys = [value.casefold() if isinstance(value, str) else value for value in known]
    assert keys == sorted(keys, reverse=descending)


COLUMNS = [
    (Column(f"c{number}", title, form, member("x"), drop=drop), widest)
    for number, (title, form, drop, widest) in enumerate(
        [
            ("Name", NAME, 0, 60),
            ("Count", COUNT, 2, 5),
            ("Host", NAME, 3, 15),
            ("Errors", COUNT, 0, 3),
            ("No", NAME, 1, 0),
        ]
    )
]


@given(st.integers(min_value=1, max_value=250), st.permutations(COLUMNS))
def test_columns_share_the_width(width: int, given_columns: list[tuple[Column, int]]) -> None:
    """Numbers are never cut; what is never left out is there; nothing is wider than the table unless it must be."""
    columns, widest = zip(*given_columns, strict=True)
    fitted = fit(columns, widest, width)
    assert [one.index for one in fitted] == sorted(one.index for one in fitted)
    shown = {one.column.name: one for one in fitted}
    assert "c4" not in shown  # it has no text at all
    assert {"c0", "c3"} <= shown.keys()
    for one in fitted:
        size = widest[one.index]
        assert one.width >= (size if one.column.form.right else min(size, LEAST_TEXT))
    used = sum(one.width + 2 for one in fitted) - 2
    assert used <= width or shown.keys() == {"c0", "c3"}
    if width >= 100:
        assert shown.keys() == {"c0", "c1", "c2", "c3"}


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (COUNT, 12_345, "12k"),
        (COUNT, 12.34, "12.3"),
        (COUNT, 0, "0"),
        (BYTES, 1_234_567, "1.2MB"),
        (MILLISECONDS, 0, "0"),
        (MILLISECONDS, 12.34, "12.3 ms"),
        (MILLISECONDS, 60_000, "60.0 s"),
        (SECONDS, 1234.56, "1,234.6 s"),
        (YES, True, "yes"),
        (YES, False, ""),
        (YES, None, ""),
    ],
)
def test_texts_of_values(form: Form, value: Value, text: str) -> None:
    assert Column("x", "X", form, member("x")).text(value, utc) == text


def test_rows_are_arranged_by_several_columns() -> None:
    found = things(("b", 1, None), ("a", 1, "x"), ("c", None, "y"), ("d", 7, "x"))
    assert [row["name"] for row in arranged(TABLE, found, ["-size", "name"])] == ["d", "a", "b", "c"]
    assert [row["name"] for row in arranged(TABLE, found, ["note", "-name"])] == ["d", "a", "c", "b"]
    assert [row["name"] for row in arranged(TABLE, found, [])] == ["b", "a", "c", "d"]
    with pytest.raises(UnknownColumnError, match="'nope' is not a column of things; there are name, size, note"):
        arranged(TABLE, found, ["nope"])


def test_a_table_as_text_leaves_out_empty_columns_that_were_not_asked_for() -> None:
    values = list(table_json(TABLE.columns, things(("evil\x1b[31m", 5, None), ("a", None, None))))
    assert list(table_text(TABLE.columns, values)) == ["Name          Size", "evil\\x1b[31m    5B", "a"]
    columns = chosen(TABLE, ["note", "name"])
    assert next(table_text(columns, values, given=True)) == "Note  Name"
    assert list(table_text(TABLE.columns, [])) == ["Name  Size  Note"]


def test_rows_are_read_from_the_file(tmp_path: Path) -> None:
    lines = [{"schema": "kproxy.other/1"}, *things(("b", 1, "Grün"), ("a\tb\x1b", None, None), ("c", 3000, "x"))]
    found = stored(tmp_path, lines)
    assert (found.count, found.left_out, found.facts) == (3, 0, {"state": "complete"})
    assert [found.cells(row) for row in range(3)] == [
        (".W.", ["b", "1B", "Grün"]),
        ("...", ["a\\tb\\x1b", "", ""]),
        (".W.", ["c", "3.0kB", "x"]),
    ]
    assert found.widest == [8, 5, 4]
    assert list(found.order("size", descending=True)) == [2, 0, 1]
    assert list(found.order("size", descending=False)) == [0, 2, 1]
    assert [found.line(row) for row in range(3)] == lines[1:]
    assert found.values(2)["name"] == "c"
    assert found.with_text("GRÜ") == set()  # only ASCII letters match in either case
    assert found.with_text("gr") == found.with_text("Grün") == {0}
    assert found.with_text("3.0KB") == {2}
    assert found.with_text("B") == {0, 1, 2}
    assert found.with_text("W") == set()  # the letters of severities are no text
    assert found.with_text(".") == {2}
    assert [found.find(found.key(row)) for row in range(3)] == [0, 1, 2]
    assert found.find(bytes(8)) is None


def test_rows_beyond_the_most_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "MOST_ROWS", 2)
    found = stored(tmp_path, things(*((f"t{number}", number, None) for number in range(5))))
    assert (found.count, found.left_out) == (2, 3)


def test_no_rows_at_all(tmp_path: Path) -> None:
    found = stored(tmp_path, [])
    assert (found.count, found.widest, list(found.order("name", descending=False))) == (0, [0, 0, 0], [])
    assert found.with_text("a") == set()


@given(st.binary(max_size=200))
def test_a_damaged_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("damaged") / "x.table"
    path.write_bytes(data)
    with pytest.raises(UnreadableError):
        Stored(path)


def test_every_table_is_on_a_screen_and_has_a_view() -> None:
    shown = [name for view in VIEWS.values() for name in view.screen.tables]
    assert set(shown) == set(tables())
    for name, table in tables().items():
        assert name == table.name
        assert VIEWS[table.view].collector
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert not table.order or table.order.removeprefix("-") in names
        assert any(not column.drop for column in table.columns)
        assert not table.columns[0].form.right or table.columns[0].drop == 0


def test_errors_and_lag_of_a_topic_are_those_of_its_users() -> None:
    topics = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": 6}]}]
    data = [{"name": "t", "partitionData": [{"index": 0, "records": None}]}]
    found = views((0, 8, {"acks": 1, "topicData": data}, {"responses": topics}))
    table = tables()["topics"]
    (row,) = table_json(table.columns, rows(table, found["topics"].lines()))
    assert (row["errors"], row["producers"], row["lag"]) == (1, 1, None)
    assert json.dumps(row)
