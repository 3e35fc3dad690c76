"""Summaries read as sentences, whatever their numbers."""

from __future__ import annotations

import string

import pytest

from kproxy.captures.findings.rule import Rule
from kproxy.captures.findings.summaries import COUNTED, summary
from kproxy.captures.findings.table import RULES


def test_nouns_match_their_numbers() -> None:
    text = "{who} asked {count:#time} for {batches:#batch} in {seconds:.1f} s"
    one: dict[str, int | float | str] = {"who": "c", "count": 1, "batches": 2, "seconds": 1.0}
    assert summary(text, one) == "c asked 1 time for 2 batches in 1.0 s"
    assert summary(text, one | {"count": 3, "batches": 1}) == "c asked 3 times for 1 batch in 1.0 s"


def test_a_missing_number_is_an_error() -> None:
    for text in ("{count:#time}", "{count}"):
        with pytest.raises(KeyError):
            summary(text, {})


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_template_can_be_filled(rule: Rule) -> None:
    fields = [(name, spec) for _, name, spec, _ in string.Formatter().parse(rule.text) if name is not None]
    number: dict[str, int | float | str] = {name: 1.0 if spec and spec[-1] in "f%" else 1 for name, spec in fields}
    assert "{" not in summary(rule.text, number)
    assert {name for name, _ in COUNTED.findall(rule.text)} <= number.keys()
