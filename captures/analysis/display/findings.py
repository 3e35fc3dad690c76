"""Formats findings as lines of text for the interface: cause, evidence, fixes, and what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.findings.text import evidence_place, fix_text, times_text
from kproxy.captures.views import Clock, Kind, Line


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        margin = "  " if one["parent"] else ""
        yield f"{margin}{one['severity'].upper():<5}  {one['rule']}  {one['summary']}{times_text(one)}"
        yield f"{margin}  cause ({one['confidence']}): {one['cause']}"
        for proof in one["evidence"]:
            yield f"{margin}  {clock(proof['time'])} {proof['note']}  {evidence_place(proof)}"
        for fix in one["fixes"]:
            yield f"{margin}  fix ({fix['side']}): {fix_text(fix)}"
        yield f"{margin}  verify: {one['verify']}"
        for unknown in one["unknown"]:
            yield f"{margin}  unknown: {unknown}"
        for what, number in one["coverage"].items():
            yield f"{margin}  less certain: {number} {what}"


def _filters(line: Line) -> Iterator[list[str]]:
    """Display filter that selects the exchanges that are evidence of a finding; only its first line has one."""
    numbers = [proof["exchange"] for proof in line["evidence"] if proof["exchange"]]
    yield [f"exchange in ({', '.join(map(str, numbers))})"] if numbers else []


KINDS: Final[Mapping[str, Kind]] = {"kproxy.finding/1": Kind(("id",), _filters)}
