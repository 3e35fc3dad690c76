"""Texts about a whole index: title with health counters, progress of the indexer, reasons for an empty list."""

from __future__ import annotations

import time
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.captures.period import Period
from kproxy.captures.text import size_text
from kproxy.decoders.plurals import counted
from kproxy.tui.listing.times import moment_text
from kproxy.tui.terminal import look
from kproxy.tui.views.index_writer import Ended, Writer
from kproxy.tui.widgets.chrome import Part

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.tui.settings.live import RunInfo
    from kproxy.tui.views.findings import Found

SPEED_SECONDS = 1.0
"""Seconds of reading after which a speed is shown."""
RATE_SECONDS = 3.0
RATE_EVERY = 0.5
"""Seconds between updates of the rate, which covers the last RATE_SECONDS."""
SHORT_COLUMNS = 100
"""Below this width the title names only the port that is listened on."""
HEALTH: tuple[tuple[str, str], ...] = (
    ("dropped", "recorder_dropped"),
    ("gaps", "gaps"),
    ("undecoded", "undecoded"),
    ("lost B", "lost"),
    ("cut", "cut"),
    ("TLS", "tls"),
    ("not Kafka", "not_kafka"),
)
"""Counts that the title shows unless they are zero: the text in the title, and the counter of Health."""
COMPLETE = "nothing missing  "
"""The title's text if all counts are zero."""


class Captions:
    """Texts about an index and the proxy behind it. `index` is None while it cannot be read; `error` says why."""

    def __init__(self, live: RunInfo | None, back_to: str = "", found: Found | None = None) -> None:
        self.index: IndexReader | None = None
        self._found = found
        self.error = ""
        self.period = Period()
        """The period that limits all screens but Health."""
        self.back_to = back_to
        """Name of the captures that leaving returns to; empty if it returns to the shell."""
        self._live = live
        self._began = time.time()
        self._rated = 0.0
        self._last_rate = 0.0
        self._read_at: tuple[float, int] | None = None
        """Monotonic time of the first progress report, and the bytes that were read by then."""
        self._writer = Writer(None if live is None else live.indexer_ended)

    @property
    def name(self) -> str:
        """A short name: the captures, or the address that clients connect to."""
        if self._live is not None:
            return f"LIVE {self._live.bootstrap}"
        meta = self.index.meta if self.index else {}
        names = meta.get("names") or [Path(source).name for source in meta.get("sources", ())]
        return (names[0] if names else "") + (f" +{len(names) - 1}" if len(names) > 1 else "")

    def title(self, width: int) -> tuple[list[Part], list[Part]]:
        meta = self.index.meta if self.index else {}
        rows = self.index.count if self.index else 0
        if self._live is not None:
            elapsed = max(0, int(time.time() - (self._live.since or self._began)))
            clock = f"{elapsed // 3600:02d}:{elapsed // 60 % 60:02d}:{elapsed % 60:02d}"
            first, *others = self._live.upstream.split(",")
            upstream = first + (f" +{len(others)}" if others else "")
            ends = f"{self._live.bootstrap} > {upstream}" if upstream else self._live.bootstrap
            if upstream and width < SHORT_COLUMNS:
                ends = ":" + self._live.bootstrap.rpartition(":")[2]
            state = "LIVE" if self._live.alive() else "ENDED"
            left = f" kproxy {state} {ends}  {clock}  {counted(rows, 'exchange', ',')}  {self._rate():,.0f}/s"
        else:
            left = f" kproxy {self.name}  {counted(rows, 'exchange', ',')}"
        health = meta.get("health") or {}
        right: list[Part] = []
        if self._live is not None and self._live.held is not None and (waiting := len(self._live.held.frames)):
            right.append((f"held {waiting:,}  ", look.TITLE_ALARM))
        if self._found is not None and (grave := self._found.grave):
            right.append((f"findings {grave:,}  ", look.TITLE_ALARM))
        missing = [(name, value) for name, member in HEALTH if (value := int(health.get(member) or 0))]
        right += [(f"{name} {value:,}  ", look.TITLE_ALARM) for name, value in missing]
        if not missing:
            right.append((COMPLETE, look.TITLE))
        return [(left, look.TITLE)], right

    def _rate(self) -> float:
        """Exchanges per second in the last RATE_SECONDS, counted by their own times, not by when they were indexed."""
        index, now = self.index, time.monotonic()
        if index is None or now - self._rated < RATE_EVERY:
            return self._last_rate
        self._rated = now
        rows = range(index.first, index.count)
        since = int((time.time() - RATE_SECONDS) * 1e9)
        self._last_rate = (len(rows) - bisect_left(rows, since, key=lambda row: index.row(row).time)) / RATE_SECONDS
        return self._last_rate

    def limits(self) -> list[Part]:
        """The shown period, as parts of a status line; none if all times are shown."""
        if not self.period:
            return []
        since, until = (None if one is None else moment_text(one) for one in (self.period.since, self.period.until))
        text = " ".join([*([f"from {since}"] if since else []), *([f"to {until}"] if until else [])])
        return [(f"  [{text}: w shows all times]", look.BOLD)]

    def progress(self) -> list[Part]:
        if self.error:
            return [(f"  {self.error}", look.SEVERITY["E"])]
        if self.index is None:
            return [("  waiting for the index", look.DIM)]
        if self._live is not None and not self._live.alive():
            return [("  the run has ended", look.SEVERITY["E"])]
        meta = self.index.meta
        error = meta.get("error")
        if error:
            offset = "" if error["offset"] is None else f" byte {error['offset']}:"
            return [(f"  {Path(error['path']).name}:{offset} {error['message']}", look.SEVERITY["E"])]
        ended = self.ended()
        if ended is not None:
            return [(f"  no further rows: {ended.cause}", look.SEVERITY["E"])]
        if meta.get("state") not in {"indexing", "stopped"}:
            return []
        read, total = meta.get("bytes_read") or 0, meta.get("bytes_total")
        percent = f" {100 * read // total} %" if total else ""
        of = f"{size_text(read)}B" + (f"/{size_text(total)}B" if total else "")
        if meta["state"] == "stopped":
            return [(f"  partial: stopped at{percent}  {of}", look.SEVERITY["W"])]
        text = f"  index{percent}  {of}{self._speed(read, total)}  (S stops)"
        if meta.get("unpacked_to"):
            text += f"  unpacked to {meta['unpacked_to']}"
        return [(text, look.PLAIN)]

    def _speed(self, read: int, total: int | None) -> str:
        """Speed of reading and the seconds left; empty until SPEED_SECONDS have passed."""
        now = time.monotonic()
        if self._read_at is None:
            self._read_at = (now, read)
        since, first = self._read_at
        if now - since < SPEED_SECONDS or read <= first:
            return ""
        speed = (read - first) / (now - since)
        left = f"  {(total - read) / speed:,.0f} s left" if total else ""
        return f"  {size_text(int(speed))}B/s{left}"

    def ended(self) -> Ended | None:
        """Why indexing ended early; None while it goes on, or if everything was read."""
        return None if self.index is None else self._writer.ended(self.index.meta)

    def empty(self, *, filtered: bool) -> list[str]:
        if self.error:
            return ["", self.error]
        if self.index is not None and self.index.count and filtered:
            times = "   w shows all times." if self.period else ""
            return ["", f"0 of {self.index.count:,} match.   f edits the filter, ctrl+x clears it.{times}"]
        if self._live is not None:
            paste = f"bootstrap.servers={self._live.bootstrap}"
            return [
                "",
                "No client has sent anything yet." + ("" if self._live.taken else " Point one here:"),
                "",
                f"    {self._live.taken or paste}",
                "",
                *([f"upstream   {self._live.upstream}"] if self._live.upstream else ()),
                *(f"listening  {address}" for address in self._live.listening),
                *self._live.notes,
            ]
        if self.index is None:
            return ["", "Waiting for the first exchanges"]
        state = self.index.meta.get("state")
        if state in {"indexing", "following"}:
            return ["", "Reading the capture; no exchange yet"]
        lines = ["", "No Kafka exchange was found in this capture."]
        health = self.index.meta.get("health") or {}
        lines += [
            f"{name.replace('_', ' ')}: {value:,}" for name, value in health.items() if isinstance(value, int) and value
        ]
        return [*lines, "Kafka is found by content on every port; --port narrows where to look."]
