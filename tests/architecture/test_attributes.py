"""A new attribute of exchanges is one row of decoders/fields.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders import fields
from tests.captures.traffic import LIBRDKAFKA
from tests.support.patience import SECONDS

ROW = """
    Field("topics.asked", Type.NUMBER, "number of topics that a Metadata request names",
          of=lambda row: len(row.body("request")["topics"] or ()) if row.api_key == 3 else None,
          stored=True, csv="topics_asked", cell=Cell("asked", 5, right=True)),
"""
BEGIN = """
import sys, types
source = open(sys.argv[1], encoding="utf-8").read()
found = types.ModuleType("kproxy.decoders.fields")
found.__file__ = sys.argv[1]
sys.modules["kproxy.decoders.fields"] = found
exec(compile(source, sys.argv[1], "exec"), vars(found))
"""
COMMAND = "from kproxy.cli.main import main; main(sys.argv[2:])"
LIST = """
import json
from pathlib import Path
from kproxy.captures.index.filtering import IndexFilter
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.filters import parse
from kproxy.decoders.schema import definitions
from kproxy.tui.listing.columns import COLUMNS
from kproxy.tui.listing.rows import RowText
run([Path(sys.argv[2])], Path(sys.argv[3]))
with IndexReader(Path(sys.argv[3])) as index:
    text = RowText(index, definitions())
    cells = [text.cell("topics.asked", number + 1, index.row(number)) for number in range(index.count)]
    wanted = IndexFilter(index, parse(sys.argv[4]).expression, definitions())
    scan = wanted.scan(0, index.count, most_bodies=0)
    titles = {column.name: column.title for column in COLUMNS}
    print(json.dumps({"title": titles["topics.asked"], "cells": cells, "matched": scan.matched, "stop": scan.stop}))
"""
FILTER = "topics.asked >= 1"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """decoders/fields.py with one more row."""
    text = Path(fields.__file__).read_text(encoding="utf-8")
    begin = "FIELDS: tuple[Field, ...] = ("
    assert begin in text
    path = tmp_path / "fields.py"
    path.write_text(text.replace(begin, begin + ROW), encoding="utf-8")
    return path


def python(code: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(lines: Sequence[str]) -> dict[int, int | None]:
    """The number of topics of each Metadata request, by exchange number, from the exchange JSON."""
    found = {}
    for line in lines:
        exchange = json.loads(line)
        if exchange.get("api_key") == 3 and exchange["schema"] == "kproxy.exchange/1":
            topics = exchange["request"]["body"]["topics"]
            found[exchange["exchange"]] = None if topics is None else len(topics)
    return found


def test_one_row_is_a_filter_a_column_of_csv_and_a_column_of_the_list(changed: Path, tmp_path: Path) -> None:
    expected = asked(python(COMMAND, changed, "export", LIBRDKAFKA, "--format", "jsonl").splitlines())
    some = {number: count for number, count in expected.items() if count}
    assert some

    table = python(COMMAND, changed, "export", LIBRDKAFKA, "--format", "csv", "--columns", "exchange,topics_asked",
                   "-Y", FILTER)  # fmt: skip
    assert table.splitlines() == ["exchange,topics_asked", *(f"{number},{count}" for number, count in some.items())]

    listed = json.loads(python(LIST, changed, LIBRDKAFKA, tmp_path / "index", FILTER))
    assert listed["title"] == "asked"
    assert {number + 1: int(cell) for number, cell in enumerate(listed["cells"]) if cell not in {"", "0"}} == some
    # No body was opened: the values were read from the index.
    assert [number + 1 for number in listed["matched"]] == list(some)
    assert listed["stop"] == len(listed["cells"])


def test_an_index_that_stores_other_attributes_is_made_again(changed: Path, tmp_path: Path) -> None:
    run([LIBRDKAFKA], tmp_path / "old")
    code = (
        "from pathlib import Path; from kproxy.captures.index.reader import IndexReader; IndexReader(Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(changed), str(tmp_path / "old")],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert "this index stores other attributes than this version reads" in done.stderr
    with IndexReader(tmp_path / "old") as index:
        assert index.count
