"""The captures of recipes that are kept, and what `kproxy findings` says of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.reading import Findings
from kproxy.captures.reader import read

KEPT = Path(__file__).parents[1] / "data" / "findings"


def findings(capture: Path) -> list[Finding]:
    """All findings of a capture, as `kproxy findings` ranks them."""
    reader = read(capture)
    found = Findings(reader.source, reader.definitions, reader.health)
    for batch in reader.batches():
        found.add(batch, reader.closings)
    reader.close()
    return found.finish()


def telling(found: Iterable[Finding], rule: str, words: str) -> list[Finding]:
    """The findings of a rule that have these words in summary, cause or evidence."""
    return [
        one
        for one in found
        if one.rule == rule and words in f"{one.summary}\n{one.cause}\n" + "\n".join(e.note for e in one.evidence)
    ]
