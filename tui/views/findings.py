"""The findings of an index as the list needs them: which exchanges are evidence, and how many findings are open."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kproxy.tui.listing.notes import Notes
    from kproxy.tui.views.analysis import Analysis

EVIDENCE: Final = "evidence"
"""Name of the snapshot of captures.analysis.snapshots that is read here."""
LETTERS: Final = {"error": "E", "warn": "W", "note": "N", "info": ""}
"""Letters of severities, as in the list; "" for a severity without a letter."""
GRAVE: Final = frozenset("EW")
"""Severities that the title counts, and whose evidence the list marks."""


@dataclass(frozen=True, slots=True)
class Proof:
    """An exchange, by its index row, as evidence of a finding; `path` is the field that shows it, "" if none does."""

    row: int
    finding: str
    rule: str
    letter: str
    note: str
    path: str


class Found:
    """The findings of an index so far. `notes` tell which ones the user has dismissed; None until they are read."""

    def __init__(self, analysis: Analysis) -> None:
        self.notes: Notes | None = None
        self._analysis = analysis
        self._proofs: dict[int, list[Proof]] = {}
        self._rows: list[int] = []
        self._causes: list[tuple[str, str]] = []
        """Id and letter of each finding that is no symptom of another one."""

    @property
    def known(self) -> bool:
        """Whether the search for findings has begun."""
        return self._analysis.started

    def look(self) -> None:
        """Begin the search for findings, unless it has begun."""
        self._analysis.start()

    def refresh(self) -> bool:
        """Read the newest snapshot; returns whether there was a new one."""
        facts = self._analysis.facts(EVIDENCE) if self._analysis.started else None
        if facts is None:
            return False
        self._proofs = {} if facts["renumbered"] else _by_row(facts["findings"])
        self._causes = [(one["id"], LETTERS[one["severity"]]) for one in facts["findings"] if not one["parent"]]
        self._rows = sorted(self._proofs)
        return True

    def of(self, row: int) -> list[Proof]:
        """The findings that index row `row` proves: one Proof for each finding that is not dismissed."""
        return [proof for proof in self._proofs.get(row, ()) if not self.is_dismissed(proof.finding)]

    def is_evidence(self, row: int) -> bool:
        return row in self._proofs and bool(self.of(row))

    def after(self, row: int) -> list[int]:
        """The index rows that are evidence of findings not dismissed: those after `row` first, then the others."""
        at = bisect_right(self._rows, row)
        return [one for one in (*self._rows[at:], *self._rows[:at]) if self.of(one)]

    @property
    def grave(self) -> int:
        """Number of warnings and errors that are neither dismissed nor symptoms of others."""
        return sum(letter in GRAVE and not self.is_dismissed(one) for one, letter in self._causes)

    def is_dismissed(self, finding: str) -> bool:
        return self.notes is not None and finding in self.notes.dismissed

    def dismiss(self, finding: str, *, on: bool) -> str:
        """Dismiss a finding (`on`) or undo that; returns why the choice cannot be saved, "" if it is saved."""
        if self.notes is None:
            return "findings can be dismissed once the capture is open"
        self.notes.dismiss(finding, on=on)
        trouble, self.notes.trouble = self.notes.trouble, ""
        return trouble


def _by_row(findings: list[dict[str, Any]]) -> dict[int, list[Proof]]:
    """The evidence of warnings and errors by index row; not that of notes, which would mark half of the list."""
    found: dict[int, list[Proof]] = {}
    for one in findings:
        letter = LETTERS[one["severity"]]
        for proof in one["evidence"] if letter in GRAVE else ():
            row = proof["exchange"] - 1
            found.setdefault(row, []).append(
                Proof(row, one["id"], one["rule"], letter, proof["note"], proof["path"] or "")
            )
    return found
