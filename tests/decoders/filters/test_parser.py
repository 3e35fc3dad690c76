from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.decoders.exchange import Status as ExchangeStatus
from kproxy.decoders.fields import BY_NAME, FIELDS, Field, Type
from kproxy.decoders.filters import Status, bodies, complete, habits, parse
from kproxy.decoders.filters.expression import Compare, Expression, Not, Present, all_of, any_of
from kproxy.decoders.filters.language import ALL, ANY, KEYWORDS, LISTS, OPERATORS, PREFIXES, SEARCHES, operators
from kproxy.decoders.filters.values import BadLiteral, Value, before_end, choices, duration, moment, size, time

TEXTS = st.text(max_size=12)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
TIMES = st.integers(min_value=0, max_value=250_000_000_000 * 10**9)
CLOCKS = st.times().map(lambda clock: str(moment(clock.isoformat())))
HOSTS = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map("[{}]".format),
    st.from_regex(r"[a-z][a-z0-9.-]*", fullmatch=True),
)
ADDRESSES = st.one_of(
    HOSTS,
    st.ip_addresses(v=6).map(str),
    st.builds("{}:{}".format, st.one_of(HOSTS, st.just("")), st.integers(0, 65_535)),
)
BACKS = NUMBERS.map(lambda nanoseconds: str(moment(f"-{nanoseconds}ns")))
PATHS = [
    "request.body", "request.body.acks", "response.body.throttleTimeMs", "response.body.topics[].errorCode",
    "response.body.topics[].topicId", "response.body.topics[0].isInternal", "request.body.topics",
    "request.body.timeoutMs", "request.body.maxBytes", "request.body.protocols[].metadata.decoded.version",
    "response.body.apiKeys[].apiKey", "request.body.topics[].partitions[].timestamp",
    "request.body.topicData[].partitionData[].records.batches[].records[].value",
]  # fmt: skip
EVERY_FIELD = st.one_of(st.sampled_from(FIELDS), st.sampled_from(PATHS).map(bodies.read))


def values(kind: Type) -> st.SearchStrategy[Value]:
    known = list(choices(kind).values())
    return {
        Type.API: st.one_of(st.sampled_from(known), st.integers(-(2**15), 2**15 - 1)) if known else NUMBERS,
        Type.ERROR: st.one_of(st.sampled_from(known), st.integers(-(2**15), 2**15 - 1)) if known else NUMBERS,
        Type.STATUS: st.sampled_from([status.value for status in ExchangeStatus]),
        Type.NUMBER: st.integers(-(2**31), 2**63 - 1),
        Type.TEXT: TEXTS,
        Type.ANY: TEXTS,
        Type.ADDRESS: ADDRESSES,
        Type.BROKER: st.one_of(st.integers(0, 10**9 - 1), ADDRESSES),
        Type.DURATION: st.one_of(NUMBERS, st.integers(1, 2**31).map(lambda ms: -1_000_000 * ms)),
        Type.SIZE: st.one_of(NUMBERS, st.integers(-(2**31), 0)),
        Type.TIME: st.one_of(TIMES, CLOCKS, BACKS),
        Type.CLASS: st.sampled_from(known) if known else TEXTS,
        Type.ROLE: st.sampled_from(known) if known else TEXTS,
        Type.FLAG: st.sampled_from([0, 1]),
    }[kind]


def comparisons(field: Field) -> st.SearchStrategy[Expression]:
    found: list[st.SearchStrategy[Expression]] = [st.just(Present(field))]
    if field.type is Type.STRUCT:
        return found[0]
    plain = [symbol for symbol in operators(field) if symbol not in SEARCHES | LISTS]
    quantifier = st.sampled_from(["", ANY, ALL]) if field.many else st.just("")
    found.append(st.builds(Compare, st.just(field), st.sampled_from(plain), st.tuples(values(field.type)), quantifier))
    if "in" in operators(field):
        some = st.lists(values(field.type), min_size=1, max_size=4).map(tuple)
        found.append(st.builds(Compare, st.just(field), st.sampled_from(sorted(LISTS)), some, quantifier))
    if "~" in operators(field):
        patterns = st.sampled_from(["a|b", "", r"\d+ [\"']", "x*"])
        contains = st.sampled_from(["contains", "not contains"])
        found += [
            st.builds(Compare, st.just(field), contains, st.tuples(TEXTS), quantifier),
            st.builds(Compare, st.just(field), st.just("~"), st.tuples(patterns), quantifier),
        ]
    return st.one_of(found)


def joined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(several.map(all_of), several.map(any_of), inner.map(Not))


EXPRESSIONS = st.recursive(EVERY_FIELD.flatmap(comparisons), joined, max_leaves=8)


@given(EXPRESSIONS)
@settings(max_examples=37, deadline=None)
def test_print_then_parse_is_the_identity(expression: Expression) -> None:
    result = parse(str(expression))
    assert result.status is Status.OK, (str(expression), result.message)
    assert result.expression == expression
    assert str(result.expression) == str(expression)


WORDS = [
    *(field.name for field in FIELDS),
    *(operator.symbol for operator in OPERATORS),
    *KEYWORDS,
    *PREFIXES,
    *PATHS,
    *("request.body.", "response.body.topics[", "response.body.nothing", "12:01", "-1", "-60s", "-1.5m"),
    *("(", ")", ",", "3", "Fetch", '"', "'", "&&", "!", "=", "50ms", "\\", " "),
]


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)))
@settings(max_examples=62, deadline=None)
def test_any_text_gives_a_result(text: str) -> None:
    result = parse(text)
    assert (result.expression is not None) == (result.status is Status.OK)
    assert 0 <= result.span[0] <= result.span[1] <= len(text)
    assert 0 <= result.word <= len(text)
    assert (result.status in {Status.OK, Status.EMPTY}) == (not result.message)
    for cursor in {0, len(text) // 2, len(text)}:
        completion = complete(text, cursor, lambda _: [("seen", 3), ("or", 1), ("", 1)])
        assert 0 <= completion.start <= completion.end <= len(text)
        for candidate in completion.candidates:
            changed, at = completion.accept(text, candidate)
            assert 0 <= at <= len(changed)


@given(EXPRESSIONS, st.data())
@settings(max_examples=25, deadline=None)
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
        ("api ==", Status.UNFINISHED, "expected a value of api", ""),
        ("api == Fet", Status.UNFINISHED, "unknown api 'Fet'", "Fet"),
        ("api == Fetcx", Status.ERROR, "unknown api 'Fetcx'; did you mean Fetch?", "Fetcx"),
        ("api == Fetc and error", Status.ERROR, "unknown api 'Fetc'; did you mean Fetch?", "Fetc"),
        ("brokr == 1", Status.ERROR, "unknown field 'brokr'; did you mean broker?", "brokr"),
        ("clien", Status.UNFINISHED, "'clien': a field?", "clien"),
        ("error == NOT_ENOUGH_REPLICAZ or api", Status.ERROR, "mean NOT_ENOUGH_REPLICAS?", "NOT_ENOUGH_REPLICAZ"),
        ("status == undecodabel or api", Status.ERROR, "did you mean undecodable?", "undecodabel"),
        ("(api", Status.UNFINISHED, "this ( is not closed", "("),
        ('client.id == "sh', Status.UNFINISHED, "this quote is not closed", '"sh'),
        ("api = Fetch", Status.ERROR, "'=' is not an operator; write ==", "="),
        ("api & error", Status.ERROR, "'&' is not an operator; write and, or &&", "&"),
        ("version ~ 3", Status.ERROR, "version takes == != < <= > >= in not in, not ~", "~"),
        ("client == [::1", Status.UNFINISHED, "'[::1' is not an address such as 10.0.0.1", "[::1"),
        ("client == [::1 or api", Status.ERROR, "'[::1' is not an address such as 10.0.0.1", "[::1"),
        ("client == [::1]x or api", Status.ERROR, "'[::1]x' is not an address", "[::1]x"),
        ("client == [::g]:1", Status.ERROR, "'[::g]:1' is not an address", "[::g]:1"),
        ("client == ::g", Status.ERROR, "'::g' is not an address", "::g"),
        ("broker == 1.2.3.4.5", Status.ERROR, "'1.2.3.4.5' is not an address such as 10.0.0.1", "1.2.3.4.5"),
        ("broker == 1.2.3", Status.UNFINISHED, "'1.2.3' is not an address", "1.2.3"),
        ("broker == 1.2.3:9092", Status.ERROR, "'1.2.3:9092' is not an address", "1.2.3:9092"),
        ("broker in (1, 1.2.3.400) or api", Status.ERROR, "'1.2.3.400' is not an address", "1.2.3.400"),
        ("client == a:70000", Status.ERROR, "'a:70000' has no port from 0 to 65535 after the colon", "a:70000"),
        ("client == a:b", Status.ERROR, "'a:b' has no port from 0 to 65535 after the colon", "a:b"),
        ('client == ""', Status.ERROR, "'' is not an address", '""'),
        ("latency > fast", Status.ERROR, "'fast' is not a duration such as 50ms, 1.5s or 2m", "fast"),
        ("latency > 5parsec", Status.ERROR, "unknown unit 'parsec'", "5parsec"),
        ('client.id ~ "a(b"', Status.ERROR, "is not a regular expression", '"a(b"'),
        ("api == in", Status.ERROR, 'a value that reads "in" must be in quotes', "in"),
        ("api == Fetch)", Status.ERROR, "this ) closes nothing", ")"),
        ("api in Fetch", Status.ERROR, "expected (, found 'Fetch'", "Fetch"),
        ("not", Status.UNFINISHED, "expected a field", ""),
        ("zz", Status.ERROR, "unknown field 'zz'; some fields are api, topic, error and request.body.…", "zz"),
        ("size > 5 MB", Status.ERROR, "write a number and its unit without a space: 5MB", "MB"),
        ("latency > 5p", Status.ERROR, "unknown unit 'p'; write a duration such as 50ms, 1.5s or 2m", "5p"),
        ("latency > 1.0000001ns", Status.ERROR, "is not a whole number of nanoseconds or bytes", "1.0000001ns"),
        ("api == Fetch error", Status.ERROR, 'expected "and" or "or", found \'error\'', "error"),
        ("api in ()", Status.ERROR, "expected a value of api, found ')'", ")"),
        (")", Status.ERROR, "this ) closes nothing", ")"),
        ("fetch.role == leader", Status.ERROR, "unknown role 'leader'; it is one of consumer, follower", "leader"),
        ("partial == yes or api", Status.ERROR, "unknown flag 'yes'; it is one of true, false", "yes"),
        ("partial > 3", Status.ERROR, "partial takes == !=, not >", ">"),
        ("time > noon", Status.ERROR, "2026-11-21T05:48:24Z, 12:01, -60s or epoch seconds", "noon"),
        ("time > 25:00", Status.ERROR, "not a time of day; write one such as 12:01 or 23:59:30.5", "25:00"),
        ("has latency > 3", Status.ERROR, "'has' only tests whether latency is there; leave out 'has' to compare", ">"),
        ("has", Status.UNFINISHED, "expected a field", ""),
        ("all api == Fetch", Status.ERROR, "api has one value; all is for fields with several: topic", "all api"),
        ("all topic", Status.UNFINISHED, "expected an operator (== != ~ contains not contains in not in)", ""),
        ("topic not == x", Status.ERROR, "expected an operator (in contains), found '=='", "=="),
        ("request.body.topicz == 3", Status.ERROR, "no message has 'topicz' in request.body; did you mean topics?",
         "topicz"),
        ("request.body.", Status.UNFINISHED, "a field's name is missing after the dot", ""),
        ("request.body.topi", Status.UNFINISHED, "no message has 'topi' in request.body", "topi"),
        ("response.body.topics[0 == 3", Status.ERROR, "this [ is not closed; [] stands for every element", "topics[0"),
        ("response.body.topics[x] == 3", Status.ERROR, "'topics[x]' is not a field's name; [] stands for", "topics[x]"),
        ("response.body.topics.name == a", Status.ERROR, "write topics[] for all of it or topics[0]", "topics"),
        ("response.body.topics == a", Status.ERROR, "is a list; write response.body.topics[]", "response.body.topics"),
        ("response.body.topics[] == a", Status.ERROR, "use one of them, such as response.body.topics[].errorCode",
         "response.body.topics[]"),
        ("response.body.throttleTimeMs[] == 3", Status.ERROR, "throttleTimeMs is not a list; leave out []",
         "throttleTimeMs[]"),
        ("response.body.throttleTimeMs.x == 3", Status.ERROR, "throttleTimeMs has no fields of its own", "x"),
        ("response.body.topics[].errorCode == NOT_LEDER or api", Status.ERROR, "did you mean NOT_LEADER_OR_FOLLOWER?",
         "NOT_LEDER"),
        ("duration > 3ms", Status.ERROR, "unknown field 'duration'; did you mean latency?", "duration"),
        ("host == a", Status.ERROR, "did you mean client or broker?", "host"),
        ("kafka.api_key == 1", Status.ERROR, "did you mean api?", "kafka.api_key"),
        ("partition == 3", Status.ERROR, "a path such as response.body", "partition"),
        ("Fetch", Status.UNFINISHED, "'Fetch': a field? or api == Fetch", "Fetch"),
        ("Metadata and error", Status.ERROR, "write api == Metadata", "Metadata"),
        ("UNKNOWN_TOPIC_ID", Status.ERROR, "write error == UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_ID"),
        ("body.topics == a", Status.ERROR, "write request.body.topics or response.body.topics", "body.topics"),
        ("has resposne.body.x", Status.ERROR, "did you mean response.body.x?", "resposne.body.x"),
        ("topic:a b", Status.ERROR, "write topic == a", "topic:a"),
        ('topic:"a b"', Status.ERROR, "write topic == …", "topic:"),
        ("5 > latency", Status.ERROR, "a comparison begins with its field", "5"),
        ("NOT api == Fetch", Status.ERROR, "write not, in small letters", "NOT"),
        ("api AND error", Status.ERROR, "write and, in small letters", "AND"),
        ("api is Fetch", Status.ERROR, "'is' is not an operator; write ==", "is"),
        ("topic matches a", Status.ERROR, "'matches' is not an operator; write ~", "matches"),
        ("topic startswith a", Status.ERROR, 'write topic ~ "^…"', "startswith"),
        ("latency between 1 and 2", Status.ERROR, "write latency >= … and latency <= …", "between"),
        ("topic <> a", Status.ERROR, "'<>' is not an operator; write !=", "<"),
        ("latency <> 3", Status.ERROR, "'<>' is not an operator; write !=", ">"),
        ("api in [Fetch]", Status.ERROR, "'in' takes its values in parentheses: in (Fetch, …)", "[Fetch]"),
        ("any(topic == a)", Status.ERROR, "any takes no parentheses", "("),
        ("(" * 200 + "api" + ")" * 200, Status.ERROR, "nested deeper than 100", "("),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_where(text: str, status: Status, message: str, bad: str) -> None:
    result = parse(text)
    assert result.status is status
    assert message in result.message
    assert text[result.span[0] : result.span[1]] == bad


def test_what_fields_are_called_elsewhere_is_no_field_and_what_is_said_is_one() -> None:
    for elsewhere, ours in habits.FIELDS.items():
        assert elsewhere not in BY_NAME
        assert elsewhere == elsewhere.casefold()
        for name in ours.removeprefix("a path such as ").split(" or "):
            assert parse(f"has {name}").status is Status.OK, name


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
        ("api not in (Fetch,Produce)", "api not in (Fetch, Produce)"),
        ("client.id not contains 'a b'", 'client.id not contains "a b"'),
        ("broker == [::1]:9092", "broker == [::1]:9092"),
        ('broker == "2"', "broker == 2"),
        ("has partial", "partial"),
        ("partial == false", "partial == false"),
        ("any topic == x", "any topic == x"),
        ("all topic not in (x, y)", "all topic not in (x, y)"),
        ("response.body.throttleTimeMs", "has response.body.throttleTimeMs"),
        ("response.body.throttleTimeMs > 1.5s", "response.body.throttleTimeMs > 1500ms"),
        ("request.body.timeoutMs == -1", "request.body.timeoutMs == -1"),
        ("request.body.maxBytes > 1MiB", "request.body.maxBytes > 1MiB"),
        (
            "response.body.topics[].errorCode == NotLeaderForPartition",
            "response.body.topics[].errorCode == NOT_LEADER_OR_FOLLOWER",
        ),
        ("response.body.apiKeys[].apiKey == 1", "response.body.apiKeys[].apiKey == Fetch"),
        ('time >= "12:01"', "time >= 12:01:00"),
        ("time < 23:59:59.5", "time < 23:59:59.5"),
        ("class == GROUP", "class == group"),
        ("client.id == all", "client.id == all"),
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
        ("has ", "record.key", 4),
        ("al", "all", 0),
        ("request.b", "request.body.", 0),
        ("request.body.", "request.body.acks", 0),
        ("request.body.ac", "request.body.acks", 0),
        ("response.body.topics[", "response.body.topics[]", 0),
        ("response.body.topics[].err", "response.body.topics[].errorCode", 0),
        ("api == Fetch and all response.body.topics[].err", "response.body.topics[].errorCode", 21),
        ("fetch.role == ", "follower", 14),
        ("partial == ", "true", 11),
    ],
)
def test_completion(text: str, expected: str, word: int) -> None:
    result = parse(text)
    assert expected in [item.text for item in result.expected]
    assert result.word == word


@pytest.mark.parametrize("text", ["", "x", "-5ms", "--5", "1e3", "5 ms", "1.0000000000000000000001ns", "9" * 60])
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


SEEN = {"topic": [("orders", 40), ("order lines", 3), ("pay", 90)], "api": [("Fetch", 7), ("Produce", 70)]}


def completed(text: str, cursor: int | None = None) -> tuple[list[str], str]:
    """The candidates, and the text with the first one inserted ("|" is the cursor)."""
    completion = complete(text, cursor, lambda field: SEEN.get(field, []))
    if not completion.candidates:
        return [], text
    changed, at = completion.accept(text, completion.candidates[0])
    return [one.text for one in completion.candidates], f"{changed[:at]}|{changed[at:]}"


@pytest.mark.parametrize(
    ("text", "first", "accepted"),
    [
        ("topic == ", ["pay", "orders", '"order lines"'], "topic == pay|"),
        ("topic == ord", ["orders", '"order lines"'], "topic == orders|"),
        ('topic == "ord', ["orders", '"order lines"'], "topic == orders|"),
        ("topic == orders", ["and", "or"], "topic == orders and|"),
        ("topic in (pay, or", ["orders", '"order lines"'], "topic in (pay, orders|"),
        ("api == ", ["Produce", "Fetch", "ListOffsets"], "api == Produce|"),
        ("api == F", ["Fetch", "FindCoordinator"], "api == Fetch|"),
        ("api in (Fetch", ["FetchSnapshot"], "api in (FetchSnapshot|"),
        ("group == ", ["shop"], "group == shop|"),
        ("lat", ["latency"], "latency|"),
        ("latency", ["==", "!="], "latency ==|"),
        ("", ["api"], "api|"),
        ("zz", [], "zz"),
    ],
)
def test_what_is_completed(text: str, first: list[str], accepted: str) -> None:
    candidates, changed = completed(text)
    assert candidates[: len(first)] == first
    assert changed == accepted


def test_the_word_under_the_cursor_is_replaced() -> None:
    assert completed("topic == ordxyz and api", len("topic == ord"))[1] == "topic == orders| and api"
    assert completed("lat > 5ms", 3)[1] == "latency| > 5ms"


def test_counts_and_docs_are_told() -> None:
    first, second = complete("api == F", seen=lambda _: [("Fetch", 7)]).candidates[:2]
    assert (first.text, first.count) == ("Fetch", 7)
    assert (second.count, second.doc) == (None, "key 10, group")


def test_every_field_and_operator_is_explained() -> None:
    assert all(field.doc and operators(field) for field in FIELDS)
    assert all(operator.doc for operator in OPERATORS)
    assert len({field.name for field in FIELDS}) == len(FIELDS)


SAVED = {"slow": "latency > 1s", "slower": "latency > 9s or error", "broken": "latenzy", "nested": "$slow"}


def test_a_saved_filter_is_what_it_says() -> None:
    result = parse("not $slower and api == Fetch", SAVED)
    assert str(result.expression) == str(parse("not (latency > 9s or error) and api == Fetch").expression)
    assert {one.text for one in parse("$slower ", SAVED).expected} == {"and", "or"}


@pytest.mark.parametrize(
    ("text", "status", "message", "span"),
    [
        ("error or $slo", Status.UNFINISHED, "'$slo': a saved filter?", (9, 13)),
        ("$slwo and error", Status.ERROR, "no saved filter $slwo; did you mean $slow?", (0, 5)),
        ("$broken", Status.ERROR, "$broken: unknown field 'latenzy'; did you mean latency?", (0, 7)),
        ("$nested", Status.ERROR, "$nested: no saved filter $slow", (0, 7)),
        ("$slow latency", Status.ERROR, 'expected "and" or "or", found \'latency\'', (6, 13)),
    ],
)
def test_what_is_wrong_with_a_saved_filter_is_told(
    text: str, status: Status, message: str, span: tuple[int, int]
) -> None:
    result = parse(text, SAVED)
    assert (result.status, result.message, result.span, result.expression) == (status, message, span, None)


def test_saved_filters_are_completed() -> None:
    found = complete("error and $sl", saved=SAVED)
    assert [(one.text, one.doc) for one in found.candidates] == [("$slow", SAVED["slow"]), ("$slower", SAVED["slower"])]
    assert found.accept("error and $sl", found.candidates[0])[0] == "error and $slow"


@given(st.integers(0, 10**15), st.sampled_from(["ns", "us", "ms", "s", "m", "min", "h"]))
def test_a_time_before_the_end_reads_back(number: int, unit: str) -> None:
    back = moment(f"-{number}{unit}")
    assert moment(str(back)) == back
    assert before_end(back) == duration(f"{number}{unit}")


def test_times_before_the_end() -> None:
    assert moment("-60s") == "-1m"
    assert moment("-1.5m") == "-90s"
    assert time("-60") == -60_000_000  # a plain number, as in a body
    for text in ("12:01", "2026-11-21", "-60", "-1"):
        assert before_end(moment(text)) is None
    for text in ("-60x", "--60s", "-s", "-1.5"):
        with pytest.raises(BadLiteral):
            moment(text)
    offered = [one.text for one in complete("time >= ").candidates if one.kind == "example"]
    assert "-60s" in offered
    assert parse("time >= -60").status is Status.OK
    assert parse("record.timestamp in (-60s, 12:01)").status is Status.OK


@given(EXPRESSIONS, st.integers(0, 2**62))
@settings(max_examples=25, deadline=None)
def test_an_anchored_expression_is_relative_no_more(expression: Expression, end: int) -> None:
    anchored = expression.anchored(end)
    assert not anchored.relative
    assert anchored.anchored(end + 1) == anchored
    assert (anchored == expression) == (not expression.relative)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("brokr == 1", "  brokr == 1\n  ^^^^^"),
        ("api ==", "  api ==\n        ^"),
        ("api == Fetch and topic ~ \u65e5\u672c zz", "  api == Fetch and topic ~ \u65e5\u672c zz\n" + " " * 32 + "^^"),
        ("api ==\n\x1b[31m\tFetchh or api", "  api ==  [31m Fetchh or api\n         ^^^^^"),
        ("", ""),
        (f"{'x' * 80} == 1", f"  {'x' * 80} == 1\n  {'^' * 80}"),
        (
            f"{'api and ' * 20}zz{' and api' * 20}",
            f"  …{('api and ' * 8)[4:]}zz{(' and api' * 8)[:60]}…\n  {' ' * 61}^^",
        ),
    ],
)
def test_the_place_of_an_error_is_pointed_at(text: str, shown: str) -> None:
    assert "\n".join(parse(text).pointer(text)) == shown


@pytest.mark.parametrize(
    ("text", "there", "not_there"),
    [
        ("response.body.apiKeys[]", ["response.body.apiKeys[].apiKey"], ["response.body.apiKeys[]"]),
        ("response.body.apiKeys[].apiKey", [], ["response.body.apiKeys[].apiKey.x", "response.body.apiKeys[].apiKey"]),
        ("any topic ", ["==", "!=", "in"], ["and", "or"]),
        ("topic ", ["==", "!=", "in", "and", "or"], [")"]),
        ("(topic ", ["==", "and", ")"], []),
    ],
)
def test_what_may_come_next(text: str, there: list[str], not_there: list[str]) -> None:
    expected = [one.text for one in parse(text).expected]
    assert set(there) <= set(expected)
    assert not set(not_there) & set(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(api == Fetch x", 'expected "and", "or" or ), found \'x\''),
        ("api == Fetch x", 'expected "and" or "or", found \'x\''),
        ("topic in (a b", "expected , or ), found 'b'"),
        ("topic in", "expected ("),
        ("not", "expected a field"),
        ("topic ==", "expected a value of topic"),
        ("api == Fetch )", "this ) closes nothing"),
        (
            "topic x",
            "expected an operator (== != ~ contains not contains in not in), found 'x'",
        ),
    ],
)
def test_what_was_expected_is_said(text: str, message: str) -> None:
    assert parse(text).message == message
