"""User definitions, from their files to every output for a capture."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis.stats import Stats
from kproxy.captures.definitions import definitions, read
from kproxy.captures.export.rows import CsvLines
from kproxy.captures.index.format import Flag
from kproxy.captures.index.indexer import Indexer
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.reader import read as read_captures
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.filters import ExchangeRow, parse
from kproxy.decoders.schema.jsontext import DefinitionError
from kproxy.decoders.stream import Side
from kproxy.tui.detail.opened import Opener
from kproxy.tui.listing.rows import RowText
from kproxy.tui.widgets.overview import overview
from tests.captures import traffic
from tests.decoders.schema.test_kafkajson import GOOD, RESPONSE
from tests.support.coordinator import BROKER, DATA, Talk, Wire, framed, string

DRAFT = DATA / "coordinator-draft-2.pcap"


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "request.json").write_text(GOOD)
    (folder / "response.json").write_text(RESPONSE)
    (folder / "notes.txt").write_text("no definition")
    return folder


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of a vendor's request in v0, and in v2, which is flexible."""
    wire = Wire()
    talk = Talk(wire, 40001, BROKER, 9092)
    plain = struct.pack(">hhi", 10000, 0, 1) + string("c") + string("acme") + struct.pack(">iq", 1, 5)
    talk.client(framed(plain))
    talk.broker(framed(struct.pack(">ih", 1, 29)))
    flexible = struct.pack(">hhi", 10000, 2, 2) + string("c") + b"\0" + b"\5acme" + struct.pack(">i", 9) + b"\1"
    talk.client(framed(flexible + b"\1\0\3\3hi"))
    talk.broker(framed(struct.pack(">ibhb", 2, 0, 0, 0)))
    talk.close()
    path = tmp_path / "vendor.pcap"
    path.write_bytes(wire.pcap())
    return path


def test_a_vendors_requests_are_read(vendor: Path, capture: Path) -> None:
    found = traffic.exchanges(traffic.exported(capture, user_definitions=(str(vendor),)))
    assert [(line["api"], line["api_key"], line["api_version"]) for line in found] == [
        ("VendorThing", 10000, 0), ("VendorThing", 10000, 2),
    ]  # fmt: skip
    assert found[0]["request"]["body"] == {"tenantId": "acme", "things": [{"id": 5}]}
    assert found[1]["request"]["body"] == {"tenantId": "acme", "limit": 9, "note": "hi", "things": []}
    assert [line["error_codes"] for line in found] == [["TOPIC_AUTHORIZATION_FAILED"], []]
    assert [line["response"]["body"] for line in found] == [{"errorCode": 29}, {"errorCode": 0}]
    assert all("protocol" not in line and not line["problems"] for line in found)


def test_without_them_they_are_shown_as_bytes(capture: Path) -> None:
    found = traffic.exchanges(traffic.exported(capture))
    assert [(line["api"], line["api_key"], line["status"]) for line in found] == [(None, 10000, "undecodable")] * 2


def matching(text: str, capture: Path, given: tuple[str, ...]) -> list[int]:
    known = definitions(None, given)
    expression = parse(text).expression
    assert expression is not None, parse(text).message
    matches = expression.compile()
    reader = read_captures(capture, user_definitions=given)
    return [
        one.number for one in reader if isinstance(one, Exchange) and matches(ExchangeRow(one, reader.source, known))
    ]


def test_filters_know_their_names(vendor: Path, capture: Path) -> None:
    given = (str(vendor),)
    assert matching("api == VendorThing and error", capture, given) == [1]
    assert matching("api == vendorthing", capture, given) == [1, 2]
    assert matching("api == 10000", capture, given) == [1, 2]
    assert str(parse("api == VendorThing").expression) == "api == VendorThing"
    assert matching("protocol == kafka", capture, given) == [1, 2]
    assert matching("request.body.tenantId == acme and request.body.things[].id > 4", capture, given) == [1]
    assert matching("not has request.body.things[]", capture, given) == [2]


def test_filters_know_dialects() -> None:
    given = ("coordinator-draft-2",)
    assert matching("protocol == coordinator-draft-2 and api == Consult", DRAFT, given) == [3, 5]
    assert matching("api == coordinator-draft-2.Stop", DRAFT, given) == [8]
    assert matching("api in (Stop, Start)", DRAFT, given) == [8, 9]
    assert matching("api ~ Consult", DRAFT, given) == [3, 5]
    assert matching("api != Ping and exchange > 5 and exchange < 10", DRAFT, given) == [6, 8, 9]


def test_one_name_in_two_dialects() -> None:
    both = ("coordinator-draft-1", "coordinator-draft-2")
    assert matching("api == Stop", DRAFT, both) == [8]
    assert matching("api == coordinator-draft-1.Stop", DRAFT, both) == []
    assert str(parse("api == stop").expression) == "api == Stop"


def test_error_names_in_a_filter_are_kafkas() -> None:
    given = ("coordinator-draft-2",)
    assert matching("protocol == coordinator-draft-2 and error == COORDINATOR_NOT_AVAILABLE", DRAFT, given) == [5]


def test_summaries_and_tables_name_them() -> None:
    given = ("coordinator-draft-2",)
    known = definitions(None, given)
    stats = Stats(known)
    reader = read_captures(DRAFT, user_definitions=given)
    exchanges = [one for one in reader if isinstance(one, Exchange)]
    for one in exchanges:
        stats.add(one, reader.source)
    counts = {api.name: (api.count, api.errors, api.unanswered) for api in stats.lines()}
    assert counts == {
        "Ping": (10, 1, 5), "Metadata": (3, 0, 0), "Register": (3, 0, 0), "Consult": (2, 1, 0), "Stop": (1, 0, 0),
        "Start": (1, 0, 0),
    }  # fmt: skip
    rows = CsvLines(reader, ("api", "version", "correlation_id", "status")).lines(exchanges[:3]).splitlines()
    assert rows == [b"Metadata,1,1,ok", b"Metadata,1,2,ok", b"Consult,,,ok"]


def test_the_index_and_the_terminal_show_a_dialect(tmp_path: Path) -> None:
    given = ("coordinator-draft-2",)
    indexer = Indexer([DRAFT], tmp_path / "index", user_definitions=given)
    while not indexer.finished:
        indexer.step()
    indexer.close()
    known = definitions(None, given)
    with IndexReader(tmp_path / "index") as index:
        assert index.meta["protocols"] == ["coordinator-draft-2"]
        text = RowText(index, known)
        shown = [(text.api(row), text.api_class(row), index.protocol(row)) for row in index.rows(0, 7)]
        assert shown[0] == ("Metadata v1", "core", None)
        assert shown[2] == ("Consult", "coordinator-draft-2", "coordinator-draft-2")
        assert [name for name, _, _ in shown[5:]] == ["Register", "Ping"]
        assert text.cell("label", 6, index.row(5)) == "g:billing"
        assert text.cell("result", 5, index.row(4)) == "15 COORDINATOR_NOT_AVAILABLE"
        without = [bool(row.flags & Flag.NO_CORRELATION) for row in index.rows(0, 7)]
        assert without == [False, False, True, False, True, True, True]
        consult = index.row(2)
        lines = {name: value for name, value, _ in overview(3, consult, index.detail(consult), index, text, known)}
        assert "correlation id" not in lines
        assert lines["definitions"] == "coordinator-draft-2"
        ping = index.row(6)
        detail = index.detail(ping)
        assert detail.asked_by is Side.BROKER
        assert detail.truths == "1"
        assert detail.request is not None
        assert detail.request.side is Side.BROKER
        opener = Opener(index, known)
        response = opener.open(ping, detail, Side.BROKER)
        opener.close()
        assert response is not None
        assert response.root is not None
        assert not response.unparsed
        nodes: dict[str, Any] = {node.path: node.value for node in response.root.walk() if node.path}
        assert nodes["partitions[1].offset"] == 1 << 40


def test_what_is_given_wrongly(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DefinitionError, match=r"empty: the folder has no \.json file$"):
        read([str(empty)])
    with pytest.raises(DefinitionError, match=r"nowhere: No such file.*; kproxy comes with the dialects coordin"):
        read([str(tmp_path / "nowhere")])
    (tmp_path / "latin.json").write_bytes(b'{\n"name": "\xe9"}')
    with pytest.raises(DefinitionError, match=r"latin\.json:2: not UTF-8"):
        read([str(tmp_path / "latin.json")])
    (tmp_path / "large.json").write_bytes(b" " * ((8 << 20) + 1))
    with pytest.raises(DefinitionError, match=r"large\.json: larger than 8 MiB, the limit of a definition file"):
        read([str(tmp_path / "large.json")])


def test_a_file_that_is_called_like_a_dialect_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coordinator-draft-1").write_text("{")
    with pytest.raises(DefinitionError, match="coordinator-draft-1:1: not JSON"):
        read(["coordinator-draft-1"])


def test_a_dialect_may_number_its_requests_as_kafka_does(tmp_path: Path) -> None:
    """Type 4 without versions is not LeaderAndIsr, whatever name the dialect gives its error field."""
    toy = """{"dialect": "toy", "port": 7000, "asks": "client", "pairing": "order",
      "requestHeader": [{"name": "Kind", "type": "int16", "role": "type"}],
      "responseHeader": [{"name": "ErrorCode", "type": "int16", "role": "error"}],
      "requests": [{"type": 4, "name": "Four", "request": [], "response": []}]}"""
    (tmp_path / "toy.json").write_text(toy)
    wire = Wire()
    talk = Talk(wire, 40001, BROKER, 7000)
    talk.client(framed(struct.pack(">h", 4)))
    talk.broker(framed(struct.pack(">h", 13)))
    talk.close()
    path = tmp_path / "toy.pcap"
    path.write_bytes(wire.pcap())
    given = (str(tmp_path / "toy.json"),)
    (line,) = traffic.exchanges(traffic.exported(path, user_definitions=given))
    assert (line["api"], line["api_key"], line["error_codes"]) == ("Four", 4, ["NETWORK_EXCEPTION"])
    assert matching("error == NETWORK_EXCEPTION and protocol == toy", path, given) == [1]
    assert matching("error == STALE_LEADER_EPOCH", path, given) == []


def test_the_indexers_process_is_told_of_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kproxy.captures.index.indexer", "--definitions=coordinator-draft-2", str(DRAFT)]
    subprocess.run([*command, str(tmp_path / "index")], check=True, timeout=60)
    with IndexReader(tmp_path / "index") as index:
        assert {index.protocol(row) for row in index.rows(0, 20)} == {None, "coordinator-draft-2"}
    wrong = subprocess.run(
        [*command, str(tmp_path / "other"), "--definitions=nowhere"], check=False, timeout=60, capture_output=True
    )
    assert wrong.returncode == 3
    assert b"nowhere: No such file" in wrong.stderr
