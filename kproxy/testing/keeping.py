"""Keeps the capture and the findings of a failed test."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

from kproxy.captures.findings.text import findings_text
from kproxy.library.capture import open as open_capture
from kproxy.testing.facade import Kproxy

LONGEST_NAME = 120


def keep(kproxy: Kproxy, test: str, folder: Path) -> str:
    """Writes NAME.pcapng and NAME.findings.jsonl for the test with this id; returns the text for its report."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "_", test).strip("_")[-LONGEST_NAME:]
    names = (name if n == 1 else f"{name}-{n}" for n in count(1))
    stem = next(one for one in names if not (folder / f"{one}.pcapng").exists())
    capture = kproxy.keep(folder / f"{stem}.pcapng")
    with open_capture(capture) as kept:
        found = kept.findings("info")
    beside = folder / f"{stem}.findings.jsonl"
    beside.write_text("".join(f"{json.dumps(one)}\n" for one in found), encoding="utf-8")
    lines = [f"capture: {capture}  (kproxy replay shows it)", f"findings: {beside}", *findings_text(found)]
    return "\n".join(lines)
