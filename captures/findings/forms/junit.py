"""Findings as a JUnit XML report, which build servers show beside the tests: one test case for each rule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

from kproxy.captures.findings.forms import Json, Report
from kproxy.captures.findings.table import RULES
from kproxy.captures.findings.text import findings_text
from kproxy.decoders.escaping import escape

FAILURES = ("warn", "error")
"""A rule's test case fails if it has a finding of these severities; other findings become its output."""


def lines(report: Report) -> Iterator[str]:
    """Yields lines of XML: a test suite for each family of rules; a rule without findings is a passed test case."""
    found: dict[str, list[Json]] = {name: [] for name in RULES}
    for one in report.findings:
        found[one["rule"]].append(one)
    failed = sum(map(_fails, found.values()))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="kproxy findings" tests="{len(RULES)}" failures="{failed}">'
    for family, names in groupby(sorted(RULES), lambda name: name.partition(".")[0]):
        rules = list(names)
        failed = sum(_fails(found[name]) for name in rules)
        yield f'<testsuite name="{family}" tests="{len(rules)}" failures="{failed}" errors="0" skipped="0">'
        for name in rules:
            yield from _case(name, found[name])
        yield "</testsuite>"
    yield "</testsuites>"


def _fails(findings: list[Json]) -> bool:
    return any(one["severity"] in FAILURES for one in findings)


def _case(name: str, findings: list[Json]) -> Iterator[str]:
    yield f"<testcase classname={quoteattr(name.partition('.')[0])} name={quoteattr(name)}>"
    # no finding is indented below its cause, because the cause is in another rule's test case
    text = _xml("\n".join(findings_text({**one, "parent": None} for one in findings)))
    if _fails(findings):
        worst = max(findings, key=lambda one: FAILURES.index(one["severity"]) if one["severity"] in FAILURES else -1)
        message = quoteattr(_plain(worst["summary"]))
        yield f"<failure type={quoteattr(worst['severity'])} message={message}>{text}</failure>"
    elif findings:
        yield f"<system-out>{text}</system-out>"
    yield "</testcase>"


def _plain(text: str) -> str:
    """The text, with "?" for each character that XML 1.0 forbids even as a character reference."""
    return "".join(char if char in "\n\t" or _allowed(ord(char)) else "?" for char in escape(text))


def _allowed(code: int) -> bool:
    return 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


def _xml(text: str) -> str:
    return xml_escape("\n".join(map(_plain, text.split("\n"))))
