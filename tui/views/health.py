"""The health of a reading as lines: what was read, what could not be read, and warnings."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures.text import local, size_text
from kproxy.decoders.plurals import counted
from kproxy.tui.listing.times import of_day
from kproxy.tui.views.analysis import Block

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.tui.captions import Captions
    from kproxy.tui.settings.live import RunInfo
    from kproxy.tui.views.index_writer import Ended

COUNTERS: dict[str, str] = {
    "packets": "packets read",
    "recorder_dropped": "packets dropped by the recorder",
    "gaps": "gaps in connections: packets that are not in the capture",
    "lost": "bytes in those gaps",
    "resyncs": "resynchronisations: places where frames were found again after a gap",
    "cut": "frames of which the capture has only the beginning",
    "undecoded": "frames whose body could not be decoded",
    "not_kafka": "connections that are not Kafka",
    "tls": "connections encrypted with TLS, which cannot be read",
}
"""Counters of decoders.exchange.Health and their descriptions."""
RARE: dict[str, str] = {"untimed": "packets whose time is out of range, read with that of the packet before"}
"""Counters that are shown only if they are not zero, and their descriptions."""
FOUND_BY: dict[str, str] = {
    "gaps": "partial",
    "lost": "partial",
    "cut": "partial",
    "undecoded": "status == undecodable",
    "tls": "status == tls",
}
"""The display filter that finds the exchanges of a counter."""
STATES: dict[str, str] = {
    "failed": "read as far as it can be read",
    "stopped": "reading was stopped",
    "indexing": "is being read",
}
"""Words for states of captures.index.indexer; other states are shown by name."""
MOST_PROBLEMS = 200
"""Maximum number of problems that are shown, the last ones."""


class Health:
    """Makes the blocks of the Health screen."""

    def __init__(self, captions: Captions, live: RunInfo | None) -> None:
        self._captions = captions
        self._live = live
        self._problems: tuple[int, Block] = (-1, _block("problems", []))
        self._last: tuple[Block, ...] = ()

    def blocks(self) -> tuple[Block, ...] | None:
        """The blocks, None if they have not changed."""
        index, live = self._captions.index, self._live
        meta = {} if index is None else index.meta
        counters = meta.get("health") or {}
        counts = {name: int(counters.get(name) or 0) for name in COUNTERS}
        lines = [f"  {counts[name]:>13,}  {text}" for name, text in COUNTERS.items()]
        lines += [f"  {count:>13,}  {RARE[name]}" for name in RARE if (count := counters.get(name))]
        unread = sorted((counters.get("unread") or {}).items())
        lines += [f"  {count:>13,}  packets not read: {name}" for name, count in unread]
        finding = [(FOUND_BY[name],) if count and name in FOUND_BY else () for name, count in counts.items()]
        finding += [()] * (len(lines) - len(finding))
        found = [
            _block("capture", _capture(index, meta, self._captions.error, self._captions.ended())),
            Block("reading", ("Reading", *lines), ((), *finding)),
        ]
        if live is not None:
            stopped = live.stopped()
            warnings = [*live.notes, *([f"recording stopped: {stopped}"] if stopped else ())]
            if warnings:
                found.append(_block("warnings", ["Warnings", *(f"  {warning}" for warning in warnings)]))
        count = meta.get("problems") or 0
        if self._problems[0] != count:
            self._problems = (count, _problems(index, count))
        blocks = (*found, self._problems[1])
        if blocks == self._last:
            return None
        self._last = blocks
        return blocks


def _problems(index: IndexReader | None, count: int) -> Block:
    last: deque[dict[str, Any]] = deque(() if index is None else index.problems(), MOST_PROBLEMS)
    lines = [f"Problems outside of exchanges  {count:,}"]
    filters: list[tuple[str, ...]] = [()]
    for one in reversed(last):
        lines.append(
            f"  {local(one['timestamp'])} {one['code']}: {one['message']}"
            f"  (connection {one['connection']}, {one['where']} byte {one['offset']})"
        )
        filters.append((f"connection == {one['connection']}",))
    return Block("problems", tuple(lines), tuple(filters))


def _capture(index: IndexReader | None, meta: dict[str, Any], error: str, ended: Ended | None) -> list[str]:
    if index is None:
        return ["Capture", f"  {error or 'waiting for the index'}"]
    total = meta.get("bytes_total")
    read = f"{size_text(meta.get('bytes_read') or 0)}B" + (f" of {size_text(total)}B" if total else "") + " read"
    state = str(meta.get("state"))
    heading = "reading ended early" if ended is not None else STATES.get(state, state)
    lines = [f"Capture  {heading}", *(f"  {Path(source)}" for source in meta.get("sources", ())), f"  {read}"]
    lines.append(
        f"  {counted(index.count - index.first, 'exchange', ',')} on {meta.get('connections') or 0:,} connections"
    )
    if index.first:
        lines.append(f"  {index.first:,} older exchanges overwritten")
    if meta.get("release"):
        lines.append(f"  read as Kafka {meta['release']}")
    if meta.get("error"):
        lines += _early(meta["error"])
    if ended is not None:
        lines += [
            f"  {of_day(ended.time // 1_000_000_000)} {ended.cause}",
            "  earlier rows are still shown",
            f"  to do: {ended.remedy}",
        ]
    return lines


def _early(error: dict[str, Any]) -> list[str]:
    """Lines about the error that ended the reading of a capture, and what to do about it."""
    lines = [f"  reading ended early: {error['text']}"]
    if error["offset"] is not None:
        lines += [
            "  everything before that place is shown",
            "  to do: open the capture again once it is written to its end, or copy it again",
        ]
    return lines


def _block(key: str, lines: list[str]) -> Block:
    return Block(key, tuple(lines), ((),) * len(lines))
