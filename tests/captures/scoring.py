"""Compares the reading of a damaged capture with that of the undamaged one, exchange by exchange."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.captures.errors import CaptureError
from kproxy.captures.export.jsonl import JsonLines
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.view import View
from tests.captures import files
from tests.support.plain import bare

Name = tuple[Any, ...]
"""Client, broker, API key, correlation id, and the count of earlier exchanges with the same ones."""


@dataclass(slots=True)
class Read:
    """One exchange of a reading: its line, and the packets that carry it, by their position in the capture."""

    line: dict[str, Any]
    packets: frozenset[int]

    @property
    def whole(self) -> bool:
        """Whether the line shows it as complete and without problems."""
        return self.line["status"] in {"ok", "no_reply_expected"} and not self.line["problems"]


@dataclass(slots=True)
class Score:
    """Exchanges: `touched` lost a packet, `spoiled` did not and are missing or partial, `wrong` show wrong facts."""

    exchanges: int = 0
    touched: int = 0
    survived: int = 0
    spoiled: list[Name] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def starts(packets: Sequence[files.Packet], snap: int = 262_144) -> list[int]:
    """Offsets of the records of these packets in a pcap file."""
    found, at = [], 24
    for _, frame in packets:
        found.append(at)
        at += 16 + min(len(frame), snap)
    return found


def reading(
    packets: Sequence[files.Packet], path: Path, *, snap: int = 262_144
) -> tuple[dict[Name, Read], dict[str, Any]]:
    """The reading of a capture of these packets: exchanges by name, and health."""
    path.write_bytes(files.pcap(packets, snap=snap))
    return read_scored(path, starts(packets, snap))


def read_scored(path: Path, places: Sequence[int]) -> tuple[dict[Name, Read], dict[str, Any]]:
    """The reading of a pcap file whose records begin at `places`: exchanges by name, and health."""
    found: dict[Name, Read] = {}
    seen: Counter[Name] = Counter()
    with closing(read([path])) as reader:
        form = JsonLines(reader, View(show_secrets=True))
        lines = []
        with suppress(CaptureError):
            for item in reader:
                lines.append((item, form.line(item)))  # noqa: PERF401  # an error must not lose what came before it
        health = form.line(reader.health)
    for item, line in lines:
        if not isinstance(item, Exchange):
            continue
        name = (line["client"], line["broker"], line["api_key"], line["correlation_id"])
        seen[name] += 1
        spans = [span for frame in (item.request, item.response) if frame is not None for span in frame.spans]
        carried = {
            packet
            for start, length in spans
            for packet in range(bisect_right(places, start) - 1, bisect_right(places, start + length - 1))
        }
        found[*name, seen[name]] = Read(line, frozenset(carried))
    return found, health


def codes(line: dict[str, Any]) -> set[str]:
    """The codes of an exchange's problems."""
    return {problem["code"] for problem in line["problems"]}


def said(line: dict[str, Any], *, times: bool = True) -> dict[str, Any]:
    """Facts of an exchange, without those learnt from other exchanges."""
    names = ("size", "timestamp") if times else ("size",)
    sides = {
        side: line[side] and {name: line[side][name] for name in names} | {"body": bare(line[side]["body"])}
        for side in ("request", "response")
    }
    more = ("latency_ms",) if times else ()
    return sides | {name: line[name] for name in ("api_version", "client_id", "error_codes", "status", *more)}


def score(whole: dict[Name, Read], damaged: dict[Name, Read], lost: set[int]) -> Score:
    """Compare a reading with the undamaged one; `lost` are the positions of the packets that it lacked.

    An exchange that lost a packet may have the times of a retransmission that the capture holds too.
    """
    result = Score(len(whole))
    for name, original in whole.items():
        found = damaged.get(name)
        touched = bool(original.packets & lost)
        result.touched += touched
        same = found is not None and said(found.line, times=not touched) == said(original.line, times=not touched)
        result.survived += same
        if found is not None and found.whole and not same:
            result.wrong.append(f"{name}: {said(found.line)}\n  is {said(original.line)}")
        elif not touched and original.whole and not same:
            result.spoiled.append(name)
    for name, found in damaged.items():
        if name not in whole and found.whole:
            result.wrong.append(f"{name}: there is no such exchange")
    return result
