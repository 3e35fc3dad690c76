from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.exchange import Status as ExchangeStatus
from decoders.filters import Status, parse
from decoders.filters.expression import Compare, Expression, Not, Present, all_of, any_of
from decoders.filters.fields import FIELDS, KEYWORDS, OPERATORS, Field, Type
from decoders.filters.values import BadLiteral, Value, choices, duration, size, time

TEXTS = st.text(max_size=12)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
TIMES = st.integers(min_value=0, max_value=250_000_000_000 * 10**9)


def values(kind: Type) -> st.SearchStrategy[Value]:
    known = list(choices(kind).values())
    return {
        Type.API: st.one_of(st.sampled_from(known), st.integers(-(2**15), 2**15 - 1)) if known else NUMBERS,
        Type.ERROR: st.one_of(st.sampled_from(known), st.integers(-(2**15), 2**15 - 1)) if known else NUMBERS,
        Type.STATUS: st.sampled_from([status.value for status in ExchangeStatus]),
        Type.NUMBER: st.integers(-(2**31), 2**63 - 1),
        Type.TEXT: TEXTS,
        Type.ADDRESS: TEXTS,
        Type.DURATION: NUMBERS,
        Type.SIZE: NUMBERS,
        Type.TIME: TIMES,
    }[kind]


def comparisons(field: Field) -> st.SearchStrategy[Expression]:
    plain = [symbol for symbol in field.operators if symbol not in {"~", "contains", "in"}]
    one = st.builds(Compare, st.just(field), st.sampled_from(plain), st.tuples(values(field.type)))
    many = st.builds(
        Compare, st.just(field), st.just("in"), st.lists(values(field.type), min_size=1, max_size=4).map(tuple)
    )
    found: list[st.SearchStrategy[Expression]] = [one, many, st.just(Present(field))]
    if "~" in field.operators:
        found += [
            st.builds(Compare, st.just(field), st.just("contains"), st.tuples(TEXTS)),
            st.builds(
                Compare, st.just(field), st.just("~"), st.tuples(st.sampled_from(["a|b", "", r"\d+ [\"']", "x*"]))
            ),
        ]
    return st.one_of(found)


def joined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(several.map(all_of), several.map(any_of), inner.map(Not))


EXPRESSIONS = st.recursive(st.sampled_from(FIELDS).flatmap(comparisons), joined, max_leaves=8)


@given(EXPRESSIONS)
@settings(max_examples=150, deadline=None)
def test_print_then_parse_is_the_identity(expression: Expression) -> None:
    result = parse(str(expression))
    assert result.status is Status.OK, (str(expression), result.message)
    assert result.expression == expression
    assert str(result.expression) == str(expression)


WORDS = [
    *(field.name for field in FIELDS),
    *(operator.symbol for operator in OPERATORS),
    *KEYWORDS,
    *("(", ")", ",", "3", "Fetch", '"', "'", "&&", "!", "=", "50ms", "\\", " "),
]


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)))
@settings(max_examples=250, deadline=None)
def test_any_text_gives_a_result(text: str) -> None:
    result = parse(text)
    assert (result.expression is not None) == (result.status is Status.OK)
    assert 0 <= result.span[0] <= result.span[1] <= len(text)
    assert 0 <= result.word <= len(text)
    assert (result.status in {Status.OK, Status.EMPTY}) == (not result.message)


@given(EXPRESSIONS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_beginning_of_a_filter_between_its_words_is_never_an_error(
    expression: Expression, data: st.DataObject
) -> None:
    words = str(expression).split(" ")
    if any(mark in str(expression) for mark in "\"'"):
        return
    head = " ".join(words[: data.draw(st.integers(0, len(words)))])
    assert parse(head).status is not Status.ERROR, head


@pytest.mark.parametrize(
    ("text", "status", "message", "bad"),
    [
        ("", Status.EMPTY, "", ""),
        ("   ", Status.EMPTY, "", "   "),
        ("api ==", Status.UNFINISHED, "needs a value of api", ""),
        ("api == Fet", Status.UNFINISHED, "unknown api 'Fet'", "Fet"),
        ("api == Fetcx", Status.ERROR, "unknown api 'Fetcx'; did you mean Fetch?", "Fetcx"),
        ("api == Fetc and error", Status.ERROR, "unknown api 'Fetc'; did you mean Fetch?", "Fetc"),
        ("brokr == 1", Status.ERROR, "unknown field 'brokr'; did you mean broker?", "brokr"),
        ("clien", Status.UNFINISHED, "'clien': a field?", "clien"),
        ("error == NOT_ENOUGH_REPLICAZ or api", Status.ERROR, "mean NOT_ENOUGH_REPLICAS?", "NOT_ENOUGH_REPLICAZ"),
        ("status == undecodabel or api", Status.ERROR, "did you mean undecodable?", "undecodabel"),
        ("(api", Status.UNFINISHED, "this ( is not closed", "("),
        ('client.id == "sh', Status.UNFINISHED, "this quote is not closed", '"sh'),
        ("api = Fetch", Status.ERROR, "unexpected '='; use ==", "="),
        ("api & error", Status.ERROR, "unexpected '&'; use && or and", "&"),
        ("version ~ 3", Status.ERROR, "version is a number and takes == != < <= > >= in, not ~", "~"),
        ("latency > fast", Status.ERROR, "'fast' is not a duration such as 50ms, 1.5s or 2m", "fast"),
        ("latency > 5parsec", Status.ERROR, "unknown unit 'parsec'", "5parsec"),
        ('client.id ~ "a(b"', Status.ERROR, "not a regular expression", '"a(b"'),
        ("api == in", Status.ERROR, 'put the word in quotes: "in"', "in"),
        ("api == Fetch)", Status.ERROR, "unexpected ')'", ")"),
        ("api in Fetch", Status.ERROR, "unexpected 'Fetch'; needs (", "Fetch"),
        ("not", Status.UNFINISHED, "needs a field", ""),
        ("(" * 200 + "api" + ")" * 200, Status.ERROR, "nested deeper than 100", "("),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_where(text: str, status: Status, message: str, bad: str) -> None:
    result = parse(text)
    assert result.status is status
    assert message in result.message
    assert text[result.span[0] : result.span[1]] == bad


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("api == Send", "api == Produce"),
        ("api == produce", "api == Produce"),
        ("api==0", "api == Produce"),
        ("api == GroupCoordinator", "api == FindCoordinator"),
        ("api == 31000", "api == 31000"),
        ("error == NotLeaderForPartition", "error == NOT_LEADER_OR_FOLLOWER"),
        ("error == 6", "error == NOT_LEADER_OR_FOLLOWER"),
        ("error == STALE_LEADER_EPOCH", "error == STALE_LEADER_EPOCH"),
        ("latency > 50", "latency > 50ms"),
        ("latency > 1.5s", "latency > 1500ms"),
        ("latency >= 2min", "latency >= 2m"),
        ("size > 64k", "size > 64kB"),
        ("size > 64KiB", "size > 64KiB"),
        ("size > 65536", "size > 64KiB"),
        ("time >= 2026-11-21", "time >= 2026-11-21T00:00:00Z"),
        ("time >= 2026-11-21T02:00:00.25+02:00", "time >= 2026-11-21T00:00:00.25Z"),
        ("! api == Fetch && error || version < 3", "not api == Fetch and error or version < 3"),
        ("api == Fetch or error and version < 3", "api == Fetch or error and version < 3"),
        ("(api == Fetch or error) and version < 3", "(api == Fetch or error) and version < 3"),
        ("not (error)", "not error"),
        ("not (error or api)", "not (error or api)"),
        ("api not in (Fetch,Produce)", "not api in (Fetch, Produce)"),
        ("client.id not contains 'a b'", 'not client.id contains "a b"'),
        ("broker == [::1]:9092", "broker == [::1]:9092"),
    ],
)
def test_what_is_meant(text: str, meaning: str) -> None:
    result = parse(text)
    assert result.status is Status.OK, result.message
    assert str(result.expression) == meaning


@pytest.mark.parametrize(
    ("text", "expected", "word"),
    [
        ("", "api", 0),
        ("cl", "client.id", 0),
        ("client", "client.id", 0),
        ("api ", "==", 4),
        ("api == ", "Produce", 7),
        ("api == Fetch", "FetchSnapshot", 7),
        ("api in (Off", "OffsetCommit", 8),
        ("error == NOT_L", "NOT_LEADER_OR_FOLLOWER", 9),
        ("error ", "and", 6),
        ("(error ", ")", 7),
        ("status == no", "no_response", 10),
    ],
)
def test_completion(text: str, expected: str, word: int) -> None:
    result = parse(text)
    assert expected in [item.text for item in result.expected]
    assert result.word == word


@pytest.mark.parametrize("text", ["", "x", "-5ms", "1e3", "5 ms", "1.0000000000000000000001ns", "9" * 60])
def test_no_duration(text: str) -> None:
    with pytest.raises(BadLiteral):
        duration(text)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-11-21T25:00Z", "1969-12-31", "2026", "12:01"])
def test_no_time(text: str) -> None:
    with pytest.raises(BadLiteral):
        time(text)


def test_quantities() -> None:
    assert duration("1.5us") == 1500
    assert duration("2h") == 7_200_000_000_000
    assert size("1.5KiB") == 1536
    assert size("2mb") == 2_000_000
    assert time("1764000000.5") == 1_764_000_000_500_000_000
    assert time("2026-11-21T05:48:24.123456789Z") % 10**9 == 123456789


def test_every_field_and_operator_is_explained() -> None:
    assert all(field.doc and field.operators for field in FIELDS)
    assert all(operator.doc for operator in OPERATORS)
    assert len({field.name for field in FIELDS}) == len(FIELDS)
