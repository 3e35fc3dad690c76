"""Topic names of topic ids are learnt from the whole capture, whatever exchanges are selected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.captures.index.format import KNOWLEDGE
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.cli.commands.export import command
from kproxy.cli.main import main
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.tui.detail.opened import Opener
from tests.captures import traffic

PAYMENTS = "vvuEyirZQ_CX57UaAQKRrQ"


def exported(*options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(command, [str(traffic.LIBRDKAFKA), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("options", [[], ["-Y", "api == Fetch"], ["-Y", "api == Fetch", "-c", "100"]])
def test_fetches_name_their_topics(options: list[str]) -> None:
    fetches = [line for line in exported(*options) if line.get("api") == "Fetch"]
    named = [line for line in fetches if PAYMENTS in json.dumps(line["response"])]
    assert len(named) > 1
    assert {line["topics"][PAYMENTS] for line in named} == {"shop-payments"}


@pytest.mark.parametrize("options", [[], ["-Y", "api == Fetch"]])
def test_records_have_the_name_of_their_topic(options: list[str]) -> None:
    records = exported("--format", "records", *options)
    by_id = [record for record in records if record.get("topicId") == PAYMENTS]
    assert len(by_id) > 10
    assert {record["topic"] for record in by_id} == {"shop-payments"}


def test_a_line_of_text_names_it_too() -> None:
    arguments = ["replay", str(traffic.LIBRDKAFKA), "--headless", "-Y", "api == Fetch"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert "shop-payments-0" in result.stdout
    assert PAYMENTS not in result.stdout


def test_the_index_keeps_what_was_learnt(tmp_path: Path) -> None:
    assert run([traffic.LIBRDKAFKA], tmp_path / "index") is None
    with IndexReader(tmp_path / "index") as index:
        assert index.knowledge.protocol_type("shop-classic") == "consumer"
        assert index.knowledge.protocol("shop-classic") == "range"
        opener = Opener(index, definitions())
        labels = []
        for number in range(index.count):
            row = index.row(number)
            opened = opener.open(row, index.detail(row), Side.BROKER)
            if opened is not None and opened.root is not None:
                labels += [node.label for node in opened.root.walk() if node.name in {"topicId", "assignment"}]
        opener.close()
    assert {"shop-payments", "consumer protocol assignment v0"} <= set(labels)


def test_an_index_that_learns_while_it_is_read(tmp_path: Path) -> None:
    assert run([traffic.LIBRDKAFKA], tmp_path / "index") is None
    path = tmp_path / "index" / KNOWLEDGE
    facts = path.read_bytes().splitlines(keepends=True)
    assert len(facts) > 2
    path.write_bytes(facts[0] + facts[1][:10])
    with IndexReader(tmp_path / "index") as index:
        path.write_bytes(b"".join(facts))
        index.count -= 1
        assert index.refresh()
        assert index.knowledge.protocol_type("shop-classic") == "consumer"
    path.unlink()
    with IndexReader(tmp_path / "index") as index:
        assert index.knowledge.protocol_type("shop-classic") is None
