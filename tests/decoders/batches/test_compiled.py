"""The compiled module gives the same results as its Python source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches import shown, text
from kproxy.decoders.batches.compiled import COMPILED, record_forms, records_text
from kproxy.decoders.batches.record import Record

TEXTS = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
NAMES = st.sampled_from([b"", b"a", b"trace-id", b"\xff", "\u00e9".encode()])
RECORDS = st.lists(
    st.tuples(
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.integers(-(1 << 63), (1 << 63) - 1),
        TEXTS,
        TEXTS,
        st.lists(st.tuples(NAMES, TEXTS), max_size=4).map(tuple),
    ),
    max_size=5,
)


@given(RECORDS)
def test_forms_are_those_of_the_plain_source(records: list[Record]) -> None:
    forms, bad = record_forms(records)
    assert (forms, bad) == shown.record_forms(records)
    assert [list(form) for form in forms] == [list(form) for form in shown.record_forms(records)[0]]
    assert bad == [
        (index, at) for index, record in enumerate(records) for at, (name, _) in enumerate(record[4]) if name == b"\xff"
    ]


CHARACTERS = st.sampled_from('az "\\\t\r\n{}~')
PLAIN = st.none() | st.text(CHARACTERS, max_size=20).map(str.encode)
PLAIN_NAMES = st.text(CHARACTERS, min_size=1, max_size=20).map(str.encode)
NUMBERS = st.integers(-(1 << 62) + 1, (1 << 62) - 1) | st.sampled_from([0, -1, 9, 10, -10, 99, 100])
PLAIN_RECORDS = st.lists(
    st.tuples(NUMBERS, NUMBERS, PLAIN, PLAIN, st.lists(st.tuples(PLAIN_NAMES, PLAIN), max_size=3).map(tuple)),
    max_size=5,
)


@given(PLAIN_RECORDS)
def test_text_of_plain_records_is_that_of_their_forms(records: list[Record]) -> None:
    forms = json.dumps(record_forms(records)[0], separators=(",", ":")).encode()
    assert text.records_text(records) == forms
    assert records_text(records) == (forms if COMPILED else None)


@given(RECORDS)
def test_text_is_made_of_what_is_plain_alone(records: list[Record]) -> None:
    made = text.records_text(records)
    if COMPILED:
        assert records_text(records) == made
    forms, bad = record_forms(records)
    parts = [
        part for _, _, key, value, headers in records for part in (key, value, *(x for one in headers for x in one))
    ]
    plain = all(
        part is None or (part.isascii() and not set(part) & {*range(9), 11, 12, *range(14, 32), 127}) for part in parts
    )
    near = all(abs(number) < 1 << 62 for record in records for number in record[:2] if number is not None)
    if not (plain and near):
        assert made is None
    else:
        assert not bad
        assert made is not None
        assert json.loads(made) == forms


@pytest.mark.parametrize("part", range(4))
def test_what_is_escaped_takes_twice_its_room(part: int) -> None:
    """A key, a value, a header's name or its value of nothing but quotes."""
    quotes = [b'"' * 500 if number == part else b"x" for number in range(4)]
    records: list[Record] = [(1 << 61, -(1 << 61), quotes[0], quotes[1], ((quotes[2], quotes[3]),))] * 3
    assert text.records_text(records) == json.dumps(record_forms(records)[0], separators=(",", ":")).encode()
