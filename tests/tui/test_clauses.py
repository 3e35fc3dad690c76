"""Whatever a thing suggests selects the exchange that it is of: our own filters are asked, on real captures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.index.filtering import IndexFilter
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders import schema
from kproxy.decoders.filters import parse
from kproxy.decoders.stream import Side
from kproxy.tui.detail.opened import Opener
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.search.clauses import FORMS, Clause, RowClauses, joined, node_clauses, record_clauses

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
NAMES = ["kafka-4.4.0-librdkafka.pcap", "kafka-1.1.1.pcap"]


@pytest.fixture(scope="module", params=NAMES)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexReader]:
    directory = tmp_path_factory.mktemp("index") / "index"
    run([CAPTURES / request.param], directory)
    with IndexReader(directory) as reader:
        yield reader


def selects(index: IndexReader, clause: Clause, number: int) -> bool:
    expression = parse(clause.text).expression
    assert expression is not None, clause
    asked = IndexFilter(index, expression, schema.definitions())
    try:
        return asked.test(number) is True
    finally:
        asked.close()


def test_clauses_of_a_row_select_it(index: IndexReader) -> None:
    clauses = RowClauses(index, schema.definitions())
    names = set()
    for number in range(index.first, index.count, 3):
        for clause in clauses.of(number):
            names.add(clause.name)
            assert selects(index, clause, number) is True, (number, clause)
    assert {"api", "topic", "group", "error", "client.id", "connection", "broker", "client", "latency"} <= names


def test_clauses_of_a_field_select_its_exchange(index: IndexReader) -> None:
    opener = Opener(index, schema.definitions())
    apis, seen = set(), 0
    for number in range(index.first, index.count):
        row = index.row(number)
        if row.api_key in apis:
            continue
        apis.add(row.api_key)
        for side, root in ((Side.CLIENT, "request"), (Side.BROKER, "response")):
            opened = opener.open(row, index.detail(row), side)
            if opened is None or opened.root is None:
                continue
            for node in opened.root.walk():
                for clause in node_clauses(node, root):
                    seen += 1
                    assert selects(index, clause, number) is True, (number, clause)
    opener.close()
    assert seen > 400


def test_clauses_of_a_record_select_its_exchange(index: IndexReader) -> None:
    opener = Opener(index, schema.definitions())
    names = set()
    for number in range(index.first, index.count):
        row = index.row(number)
        lines, _ = opener.records(row, index.detail(row))
        if lines is None:
            continue
        lines.take(4)
        for line in lines.lines:
            if isinstance(line, RecordLine) and line.kind is None:
                for clause in record_clauses(line, withheld=False):
                    names.add(clause.name)
                    assert selects(index, clause, number) is True, (number, clause)
                assert {one.name for one in record_clauses(line, withheld=True)} == {"topic", "offset"}
    opener.close()
    assert {"value", "topic", "offset"} <= names


FILTERS = [
    "api == Fetch", "error or latency > 1ms", "api == Fetch and error", "not error", "not (api == Fetch or error)",
    "$s",
]  # fmt: skip


@given(applied=st.sampled_from(FILTERS), clause=st.sampled_from(FILTERS[:-1]), name=st.sampled_from(list(FORMS)))
def test_a_form_means_what_it_says(applied: str, clause: str, name: str) -> None:
    saved = {"s": "error or api == Fetch"}
    result = parse(joined(applied, FORMS[name], clause, saved), saved).expression
    one, other = parse(f"({applied})", saved).expression, parse(f"({clause})").expression
    assert one is not None
    assert other is not None
    assert result is not None
    for row in (Values(api, error, latency) for api in (0, 1) for error in ((), (3,)) for latency in (0, 2_000_000)):
        kept, added = one.compile()(row), other.compile()(row)
        expected = {
            "selected": added,
            "not": not added,
            "and": kept and added,
            "or": kept or added,
            "and-not": kept and not added,
            "or-not": kept or not added,
        }
        assert result.compile()(row) == expected[name]


class Values:
    """A row of which three things are known."""

    def __init__(self, api_key: int, error_codes: tuple[int, ...], latency: int) -> None:
        self.api_key = api_key
        self.error_codes = error_codes
        self.latency = latency
        self.api_version = 1
        self.status = self.status_seen = "ok"


def test_nothing_applied_takes_the_clause_alone() -> None:
    assert joined("", FORMS["and"], "error") == "error"
    assert joined(" ", FORMS["or-not"], "error or partial") == "not (error or partial)"
