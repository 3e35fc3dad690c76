"""Captures of faults that were made on real brokers: the finding names cause and culprit, whole or in part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.findings.model import Severity
from kproxy.captures.findings.table import RULES as TABLE
from tests.captures import files, traffic
from tests.recipes import RECIPES
from tests.recipes.kept import KEPT, findings, telling
from tests.support.facts import told

RULES = sorted(path.name.removesuffix(".pcap.xz") for path in KEPT.glob("*.pcap.xz"))
ABOUT: dict[str, Any] = {rule: json.loads((KEPT / f"{rule}.json").read_text()) for rule in RULES}
OF_THE_CAPTURE = "capture.health"
"""The finding that says that packets are missing, so that others may be."""


def test_every_rule_has_a_recipe_and_its_capture() -> None:
    assert sorted(TABLE) == RULES == sorted(RECIPES)
    assert {rule: ABOUT[rule]["words"] for rule in RULES} == {rule: RECIPES[rule].words for rule in RULES}


@pytest.mark.parametrize("rule", RULES)
def test_the_fault_is_named_and_nothing_else_is_called_wrong(rule: str) -> None:
    found = findings(KEPT / f"{rule}.pcap.xz")
    assert telling(found, rule, ABOUT[rule]["words"])
    assert sorted({*told(one for one in found if one.severity >= Severity.WARN)}) == ABOUT[rule]["loud"]


@pytest.mark.parametrize("rule", RULES)
def test_with_lost_packets_it_is_named_or_the_capture_is_blamed(rule: str, tmp_path: Path) -> None:
    packets = traffic.packets(KEPT / f"{rule}.pcap.xz")
    known = {line.split()[1] for line in ABOUT[rule]["loud"]} | {OF_THE_CAPTURE, rule}
    for first in (17, 61):
        kept = [packet for number, packet in enumerate(packets) if number % 100 != first]
        found = findings(files.write(tmp_path / "lossy.pcap", files.pcap(kept)))
        assert telling(found, rule, ABOUT[rule]["words"]) or any(one.rule == OF_THE_CAPTURE for one in found)
        assert {one.rule for one in found if one.severity >= Severity.WARN} <= known


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_capture_that_began_later_blames_nobody_else(rule: str, share: float, tmp_path: Path) -> None:
    packets = traffic.packets(KEPT / f"{rule}.pcap.xz")
    late = files.write(tmp_path / "late.pcap", files.pcap(packets[int(share * len(packets)) :]))
    known = {line.split()[1] for line in ABOUT[rule]["loud"]} | {OF_THE_CAPTURE, rule}
    assert {one.rule for one in findings(late) if one.severity >= Severity.WARN} <= known


@pytest.mark.parametrize("rule", RULES)
def test_one_direction_alone_blames_nobody_else(rule: str, tmp_path: Path) -> None:
    packets = traffic.packets(KEPT / f"{rule}.pcap.xz")
    brokers = {traffic.ports(data)[1] for _, data in packets if traffic.is_syn(data)}
    known = {line.split()[1] for line in ABOUT[rule]["loud"]} | {OF_THE_CAPTURE, rule}
    for side in (0, 1):
        one_way = [packet for packet in packets if traffic.ports(packet[1])[side] in brokers]
        found = findings(files.write(tmp_path / "one-way.pcap", files.pcap(one_way)))
        assert {one.rule for one in found if one.severity >= Severity.WARN} <= known
