"""Searches: a text in quotes selects the exchanges that contain it in header, body or records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kproxy
from kproxy.decoders.filters import as_search, parse
from kproxy.decoders.filters.parser import Status
from kproxy.decoders.filters.values import in_quotes

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
NAMES = frozenset({"schema", "body", "request", "response", "base64"})


def shown(value: Any) -> list[str]:
    """The texts among the values of an exchange's JSON."""
    if isinstance(value, dict):
        return [text for name, one in value.items() if name not in NAMES - {"body", "request", "response"}
                for text in shown(one)]  # fmt: skip
    if isinstance(value, list):
        return [text for one in value for text in shown(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", ["kafka-0.8.2.2.pcap", "kafka-1.1.1.pcap", "kafka-4.4.0-librdkafka.pcap"])
@pytest.mark.parametrize("sought", ["value number 2", "CONSUMER", "127.0.0.1:", "shop", "nowhere at all"])
def test_what_the_export_shows_is_found(name: str, sought: str) -> None:
    """Every exchange with the text among the values of its export is found; times and numbers are not texts."""
    capture = CAPTURES / name
    found = {exchange.number for exchange in kproxy.open(capture).where(in_quotes(sought))}
    for line in kproxy.open(capture).lines():
        exchange = json.loads(line)
        if "exchange" in exchange and any(sought.casefold() in text.casefold() for text in shown(exchange)):
            assert exchange["exchange"] in found, line[:300]
    if sought == "nowhere at all":
        assert not found


@given(st.text(min_size=1, max_size=40))
def test_any_text_can_be_searched_for(text: str) -> None:
    result = parse(in_quotes(text))
    assert result.status is Status.OK, result.message
    assert result.expression is not None
    assert parse(str(result.expression)).expression == result.expression


@pytest.mark.parametrize("text", ["a" * 100_000, "\0" * 70_000])
def test_what_cannot_be_searched_for_is_refused_in_short(text: str) -> None:
    result = parse(in_quotes(text))
    assert result.status is Status.ERROR
    assert result.message.startswith("this text cannot be searched for: ")
    assert len(result.message) < 200


def test_an_empty_text_is_refused() -> None:
    assert parse('""').message == "there is nothing to search for between the quotes"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("refund", '"refund"'),
        ("  payment failed ", '"payment failed"'),
        ("C:\\temp", '"C:\\\\temp"'),
        ("eror", '"eror"'),
        ("10.0.0.7:9092", '"10.0.0.7:9092"'),
        ("", None),
        ("topic", None),
        ("topic orders", None),
        ("request.body.x", None),
        ("has x", None),
        ("$slow", None),
        ("eror == 3", None),
        ("a and b", None),
        ('"quoted" x', None),
        ("(x", None),
    ],
)
def test_words_that_are_no_filter_are_a_search(typed: str, meant: str | None) -> None:
    assert as_search(typed) == meant
    if meant is not None:
        assert parse(typed).status is Status.ERROR
        assert parse(meant).status is Status.OK
