"""The output formats of findings: well-formed whatever the wire said, and complete."""

from __future__ import annotations

import json
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.analysis.texts import view_text
from kproxy.captures.findings.baseline import BaselineError, is_known, known_of
from kproxy.captures.findings.forms import FORMATS, Report, report_lines
from kproxy.captures.findings.model import Confidence, Evidence, Finding, Fix, Scope, Severity, finding_json
from kproxy.captures.findings.table import RULES
from kproxy.captures.views import FINDINGS
from tests.decoders.test_escaping import controls

HOSTILE = "<script>&\"']]>\x1b[2J\0\ud800\ufffe\u202e</details>\n"


def finding(
    rule: str = "group.poll_gap", text: str = "orders", *, parent: str | None = None, severity: Severity = Severity.WARN
) -> Finding:
    return Finding(
        id=f"{rule}-id", rule=rule, scope=Scope("group", text), severity=severity, confidence=Confidence.STRONG,
        title=RULES[rule].title, summary=f"summary of {text}", first_time=10**18, last_time=10**18 + 5, cause="a cause",
        verify="look again", fixes=(Fix("client", "java", "rdkafka", "why"),), unknown=("who it was",), occurrences=2,
        evidence=[Evidence(7, 10**18, 1, "trigger", f"note of {text}"), Evidence(0, 10**18, 3, "symptom", "a silence")],
        parent=parent,
    )  # fmt: skip


def text_of(form: str, *findings: Finding, captures: tuple[str, ...] = ("a b.pcap",), hidden: int = 0) -> str:
    report = Report([finding_json(one) for one in findings], captures, {"schema": "kproxy.health/1"}, hidden)
    return "\n".join(report_lines(form, report))


def test_the_screen_controls_no_terminal() -> None:
    lines = list(view_text(FINDINGS, [finding_json(finding(text=HOSTILE))]))
    assert len(lines) > 5
    assert "<script>" in lines[0]
    assert not [line for line in lines if controls(line)]


@pytest.mark.parametrize(
    ("notes", "shown"),
    [
        ("aaa", ["a", "a", "a"]),
        ("aaaa", ["a", "the same; 2 more in between"]),
        ("baaaaab", ["b", "a", "the same; 3 more in between", "b"]),
        ("ababab", list("ababab")),
    ],
)
def test_evidence_that_says_the_same_again_and_again_takes_two_lines(notes: str, shown: list[str]) -> None:
    one = finding()
    one.evidence = [Evidence(n, 10**18 + n, 1, "trigger", note) for n, note in enumerate(notes, 1)]
    numbered = [line.split(maxsplit=2) for line in text_of("text", one).splitlines() if " #" in line]
    assert [words[2] for words in numbered] == shown
    assert numbered[0][1] == "#1"
    assert numbered[-1][1] == f"#{len(notes)}"


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


class Tags(HTMLParser):
    """The names of a page's tags, and how deep each finding stands in others."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.depths: dict[str, int] = {}
        self.open = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag == "details":
            self.open += 1
            self.depths[dict(attrs)["id"] or ""] = self.open

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self.open -= 1
            assert self.open >= 0


@given(st.text(max_size=40) | st.just(HOSTILE))
def test_text_from_the_wire_breaks_no_format(text: str) -> None:
    texts = {
        form: text_of(form, finding(text=text), captures=(f"{text.encode(errors='replace').decode()}\udcff",))
        for form in FORMATS
    }
    for made in texts.values():
        assert "\x1b" not in made
        assert "\0" not in made
    parsed(texts["junit"])
    json.loads(texts["sarif"])
    assert [json.loads(line)["schema"] for line in texts["jsonl"].split("\n")] == [
        "kproxy.finding/1",
        "kproxy.health/1",
    ]
    tags = Tags(texts["html"])
    assert "script" not in tags.names
    assert tags.open == 0


def test_a_symptom_stands_inside_its_cause() -> None:
    cause, symptom = finding(), finding("group.rebalance_cause", parent="group.poll_gap-id")
    other = finding("proto.desync")
    assert Tags(text_of("html", cause, symptom, other)).depths == {
        "group.poll_gap-id": 1,
        "group.rebalance_cause-id": 2,
        "proto.desync-id": 1,
    }


def test_a_symptom_whose_cause_is_not_shown() -> None:
    assert Tags(text_of("html", finding(parent="not shown"))).depths == {"group.poll_gap-id": 1}


def test_junit_has_a_case_for_each_rule_and_fails_those_that_warn() -> None:
    suites = parsed(
        text_of("junit", finding(), finding("group.rebalance_cause", severity=Severity.INFO), finding("proto.desync"))
    )
    cases = {case.attrib["name"]: case for case in suites.iter("testcase")}
    assert set(cases) == set(RULES)
    assert {name for name, case in cases.items() if case.find("failure") is not None} == {
        "group.poll_gap",
        "proto.desync",
    }
    assert suites.attrib["failures"] == "2"
    assert sum(int(suite.attrib["failures"]) for suite in suites) == 2
    output = cases["group.rebalance_cause"].find("system-out")
    assert output is not None
    assert "summary of orders" in (output.text or "")


def test_sarif_names_rule_file_scope_and_exchanges() -> None:
    (run,) = json.loads(text_of("sarif", finding()))["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "group.poll_gap"
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.pcap"
    assert place["logicalLocations"] == [{"name": "orders", "kind": "group"}]
    assert result["level"] == "warning"
    assert result["properties"]["exchanges"] == [7]


def test_a_baseline_knows_rule_and_scope() -> None:
    old, new, other = finding(), finding(), finding(text="payments")
    new.id = "later"
    known = known_of([*text_of("jsonl", old).split("\n"), ""])
    assert is_known(new, known)
    assert not is_known(other, known)
    assert not is_known(finding("proto.desync"), known)


@pytest.mark.parametrize(
    "line", ["{", "[]", "1", '{"rule": 1}', '{"schema": "kproxy.finding/1"}', "[" * 100_000,
             '{"schema": "kproxy.finding/1", "rule": 1, "scope": {"kind": "a", "name": "b"}}']
)  # fmt: skip
def test_a_damaged_baseline_is_refused(line: str) -> None:
    with pytest.raises(BaselineError, match="line 2"):
        known_of(['{"schema": "kproxy.health/1"}', line])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["schema", "rule", "scope", "kind", "name"]), inner)
        ),
    )
)
def test_any_json_is_a_baseline_or_refused(value: Any) -> None:
    with suppress(BaselineError):
        known_of([json.dumps(value)])
