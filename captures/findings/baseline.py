"""Reads a baseline: the output of an earlier `kproxy findings --json`, whose findings are not reported again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from kproxy.captures.findings.model import Finding

Known: TypeAlias = tuple[str, str, str]
"""(rule, kind of scope, name of scope): identifies a finding across captures. Times and exchange numbers differ."""


class BaselineError(ValueError):
    """A line of the baseline is not an object of `kproxy findings --json`."""


def known_of(lines: Iterable[str]) -> frozenset[Known]:
    """The findings in the lines of a baseline. Other objects with a "schema", such as the health, are skipped.

    Raises BaselineError.
    """
    known = set()
    for number, line in enumerate(lines, 1):
        if line.strip():
            one = _object(line, number)
            if one["schema"] == "kproxy.finding/1":
                known.add(_known(one, number))
    return frozenset(known)


def is_known(finding: Finding, known: frozenset[Known]) -> bool:
    return (finding.rule, *finding.scope) in known


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        one = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"line {number} is not JSON ({error})") from None
    if not isinstance(one, dict) or not isinstance(one.get("schema"), str):
        raise BaselineError(f"line {number} is not a line of `kproxy findings --json`")
    return one


def _known(one: dict[str, Any], number: int) -> Known:
    scope = one.get("scope")
    values = (one.get("rule"), scope.get("kind"), scope.get("name")) if isinstance(scope, dict) else ()
    rule, kind, name = values or (None, None, None)
    if not (isinstance(rule, str) and isinstance(kind, str) and isinstance(name, str)):
        raise BaselineError(f"line {number} is a finding without rule or scope")
    return rule, kind, name
