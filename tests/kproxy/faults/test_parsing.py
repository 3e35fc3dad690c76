"""Rules as text: what they say, that their text parses to the same rule, and where a mistake is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.stream import Side
from kproxy.faults.files import load
from kproxy.faults.parsing import VERBS, from_object, parse
from kproxy.faults.reads import changes_state
from kproxy.faults.rule import Limit
from kproxy.faults.trouble import FaultsError, RuleError
from kproxy.faults.words import explain
from kproxy.faults.yamltext import YamlError
from kproxy.faults.yamltext import parse as parse_yaml
from tests.kproxy.core.frames import DEFINITIONS

RULES = [
    "api == Produce and topic == orders => error NOT_LEADER_OR_FOLLOWER at partition == 1 not applied, nth 2",
    "api == OffsetCommit => error ILLEGAL_GENERATION at topic == t and partition == 1 applied, first 3 per client",
    "api == Fetch => error OFFSET_OUT_OF_RANGE not applied, p 0.25",
    "api == Produce => drop response, for 10s",
    "api == Produce => drop request, once per partition",
    "all topic == t => delay 500ms ±100ms request, every 3 per connection",
    "api == JoinGroup => hold response 30s, after 4",
    "api == Produce => intercept request 30s, first 3",
    "api == Heartbeat => throttle 5s mute",
    "api == Fetch => disconnect mid 100 rst",
    "broker == 2 => disconnect before fin",
    "api == Fetch => disconnect after fin without close_notify, nth 2",
    'api == Metadata => set response.body.brokers = [{"nodeId": 1, "host": "a, b", "port": 3}]',
    "api == Metadata => remove response.body.topics[0]",
    "api == ApiVersions => versions Fetch 4-12",
    "api == ApiVersions => versions none Produce, first 2",
    "api == Metadata => leader orders-1 = 3",
    "client.id == shop => leader a.b-c-10 = -1, for 5s",
    "api == FindCoordinator => coordinator g = 2, nth 1",
    'api == FindCoordinator => coordinator "a b" = -1',
    "api == Metadata => brokers = []",
    "client.id == shop => brokers = [1, 2], first 3",
    "api == Metadata => topic-id orders = AAAAAAAAAAAAAAAAAAAAAQ",
    "api == Fetch => crc response, nth 3",
    "topic == orders => crc request",
    "api == Fetch => duplicate response",
    "api == Fetch => correlation -1",
    "api == Fetch => swap",
    "api == Fetch => truncate 12 response",
    "api == Fetch => length -1 request",
    "api == Fetch => flip 70 response",
    'api == Heartbeat => answer {"errorCode": "REBALANCE_IN_PROGRESS", "throttleTimeMs": 0}, nth 1',
    "api == Fetch => limit 100000B/s response",
    "api == Produce => slice 1 request, first 2",
    "error == NOT_COORDINATOR => drop response",
    "api == Fetch => blackhole connection, nth 3",
    "api == Fetch => blackhole broker, for 10s",
    "broker == 127.0.0.1:9092 => refuse, first 1",
]


@pytest.mark.parametrize("text", RULES)
def test_a_rule_s_text_parses_to_the_same_rule(text: str) -> None:
    rule = parse(text, "one", DEFINITIONS)
    assert rule.text == text
    assert parse(rule.text, "one", DEFINITIONS) == rule
    assert from_object(rule.to_json(), "other", DEFINITIONS) == rule
    assert explain(rule).startswith("one: ")
    assert explain(rule).endswith(".")


def test_every_action_has_an_example_here() -> None:
    assert {parse(text).action.verb for text in RULES} | {"remove", "length", "flip"} == set(VERBS)


@pytest.mark.parametrize(("written", "rate"), [("1MB/s", 1_000_000), ("64KiB/s", 65_536), ("1.5kB/s", 1500)])
def test_rates_have_units(written: str, rate: int) -> None:
    assert parse(f"api == Fetch => limit {written}").action == Limit(Side.BROKER, rate)


def test_a_name_stands_in_front() -> None:
    assert parse("lost: api == Produce => drop response").name == "lost"
    assert parse("client == host:9092 => drop response").name == "rule"


def test_what_only_reads_may_leave_open_whether_it_is_applied() -> None:
    assert parse("api == Fetch => error 1").action.side is Side.CLIENT
    late = parse("api == Fetch and throttle > 0ms => error 1")
    assert (late.late, late.action.side) == (True, Side.BROKER)
    changing = {DEFINITIONS.api_name(key) for key in DEFINITIONS.apis if changes_state(key, DEFINITIONS)}
    assert {"Produce", "EndTxn", "OffsetCommit", "CreateTopics", "JoinGroup", "SaslAuthenticate"} <= changing
    assert not {"Fetch", "Metadata", "ListOffsets", "DescribeConfigs"} & changing


WRONG = [
    ("", "no =>", 0),
    ("api == Fetch", "no =>", 12),
    ("=> drop request", "the match is empty", 0),
    ("api == Prduce => drop request", "did you mean Produce?", 7),
    ("api == Fetch => dorp request", "did you mean drop?", 16),
    ("api == Fetch => drop", "expected request or response", 20),
    ("api == Fetch => drop respnse", "expected request or response", 21),
    ("api == Fetch => drop response now", "'now' does not belong here", 30),
    ("api == Produce => error 6", "say whether the broker does it", 18),
    ("topic == t => error 6", "say whether the broker does it", 14),
    ("api == Heartbeat => error NOT_CORDINATOR applied", "did you mean NOT_COORDINATOR?", 26),
    ("api == Fetch => error 0", "other than 0", 22),
    ("api == Fetch => error 6 not", "expected applied after not", 27),
    ("api == Fetch => error 6 at partion == 1", "did you mean partition?", 27),
    ("api == Fetch => delay fast", "not a duration", 22),
    ("api == Fetch => delay 1s ±2s", "longer than the delay", 25),
    ("api == Fetch => set response.body.throttleTimeM = 5", "did you mean throttleTimeMs?", 34),
    ("api == Fetch => set errorCode = 5", "a path begins with", 20),
    ("api == Fetch => set response.body.errorCode 5", "expected = after", 44),
    ("api == Fetch => set response.body.responses = [1", "not JSON", 46),
    (
        "api == Produce => set request.body.topicData[].partitionData[].records.batches[].crc = 1",
        "cannot be changed",
        22,
    ),
    ("api == Fetch => limit 5", "expected bytes per second, such as 100kB/s", 22),
    ("api == Fetch => limit 0B/s", "expected bytes per second, such as 100kB/s", 22),
    ("api == Fetch => limit fast/s", "expected bytes per second, such as 100kB/s", 22),
    ("api == Fetch => slice 0", "a whole number from 1", 22),
    ("api == Fetch => answer [1]", "a JSON object such as", 23),
    ("api == Fetch => answer", "a JSON object such as", 22),
    ("api == Fetch => drop request, nht 2", "did you mean nth?", 30),
    ("api == Fetch => drop request, nth 0", "a whole number from 1", 34),
    ("api == Fetch => drop request, p 2", "at most 1", 32),
    ("api == Fetch => drop request, nth 2, first 3", "one trigger", 37),
    ("api == Fetch => drop request, once per broker", "counts per client, partition, connection", 39),
    ("error == 6 => drop request", "needs the response", 14),
    ("latency > 5ms => drop response", "is not known when a rule is matched", 0),
    ("api == Fetch and api == Produce => drop response", "no API can match this", 0),
]


@pytest.mark.parametrize(("text", "message", "column"), WRONG)
def test_a_mistake_is_named_with_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text, known=DEFINITIONS)
    assert message in caught.value.message
    assert caught.value.start == column
    if text:
        assert caught.value.lines()[-1].index("^") == 2 + min(column, 60) + (column > 60)


@given(st.text(max_size=80))
def test_no_text_makes_the_parser_fail_otherwise(text: str) -> None:
    for one in (text, f"api == Fetch => {text}", f"api == Fetch => drop response, {text}"):
        with contextlib.suppress(RuleError):
            rule = parse(one, known=DEFINITIONS)
            assert parse(rule.text, rule.name, DEFINITIONS) == rule


def read(tmp_path: Path, text: str, name: str = "faults.yaml") -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    return [f"{rule.name}: {rule.text}" for rule in load((), path, DEFINITIONS)]


YAML = """\
# what a tired broker does
rules:
  - api == Fetch => delay 500ms   # slow
  - name: lost
    match: 'api == Produce and client.id == "a # b"'
    action: 'drop response'

    trigger: nth 2
  - "late: api == Heartbeat => hold response 5s"
"""
FOUND = [
    "rule-1: api == Fetch => delay 500ms response",
    'lost: api == Produce and client.id == "a # b" => drop response, nth 2',
    "late: api == Heartbeat => hold response 5s",
]


def test_rules_of_a_yaml_file(tmp_path: Path) -> None:
    assert read(tmp_path, YAML) == FOUND
    assert read(tmp_path, YAML.replace("rules:\n", "").replace("  - ", "- ").replace("    ", "  ")) == FOUND
    assert read(tmp_path, "") == read(tmp_path, "rules:\n") == []


def test_rules_of_a_json_file(tmp_path: Path) -> None:
    texts = '["api == Fetch => delay 500ms", {"match": "api == Fetch", "action": "swap", "trigger": "nth 1"}]'
    expected = ["rule-1: api == Fetch => delay 500ms response", "rule-2: api == Fetch => swap, nth 1"]
    assert read(tmp_path, texts) == read(tmp_path, f'{{"rules": {texts}}}') == expected


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("api == Fetch\n", "1:1", "expected a list of rules"),
        ("- api == Fetch => dorp\n", "1:3", "did you mean drop?"),
        ("rules:\n  - name: x\n    match: api == Fetch\n", "2:5", "a rule needs action"),
        ("- name: x\n  mach: api == Fetch\n", "1:3", "did you mean match?"),
        ("- lost: api == Fetch => swap\n", "1:3", "a rule has no 'lost'"),
        ("- match: api == Fetch\n   action: swap\n", "2:10", "put a text that contains a colon and a space in quotes"),
        ("- match: api == Fetch\n  match: api == Fetch\n", "2:3", "match is given twice"),
        ("- match: 'api == Fetch\n", "2:1", "while scanning a quoted scalar"),
        ("- match: [api, Fetch]\n", "1:10", "expected a text"),
        ("- match:\n  action: swap\n", "1:9", "expected a text"),
        ("- ? [x]\n  : y\n", "1:5", "expected a name"),
        ("\t- x\n", "1:1", "cannot start any token"),
        ("  - api == Fetch => swap\n- api == Fetch => swap\n", "2:1", "block sequence start"),
        ("- x\n- \x07\n", "2:3", "special characters are not allowed"),
        ("- " + "[" * 5_000, "1:1", "lists are nested too deeply"),
        ("- &a [*a]\n", "1:3", "expected a text"),
        ("- api == Fetch => swap\n---\n- api == Fetch => swap\n", "2:1", "expected a single document"),
        ('[{"match": ]', "1:12", "Expecting value"),
        ("{}", "1:1", "expected a list of rules"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_column(tmp_path: Path, text: str, where: str, message: str) -> None:
    with pytest.raises(FaultsError) as caught:
        read(tmp_path, text)
    assert f"faults.yaml:{where}: " in str(caught.value)
    assert message in str(caught.value)


@given(st.text(alphabet="-: #'\"[]{}|>\n\tabrules", max_size=60))
def test_no_text_makes_the_yaml_reader_fail_otherwise(text: str) -> None:
    with contextlib.suppress(YamlError):
        assert all(item.places for item in parse_yaml(text))


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("- 'a: api == Fetch => swap'\n")
    with pytest.raises(FaultsError, match="two rules are called a"):
        load(("a: api == Fetch => swap",), path, DEFINITIONS)
    with pytest.raises(FaultsError, match="cannot read"):
        load((), tmp_path / "absent", DEFINITIONS)


@pytest.mark.parametrize("value", [1, None, ["x"], {"match": 1, "action": "swap"}, {"name": "1", "match": "a"}])
def test_an_object_that_is_no_rule_is_refused(value: Any) -> None:
    with pytest.raises(RuleError):
        from_object(value)
