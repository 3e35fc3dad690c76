"""Marks and comments on exchanges, and dismissed findings, kept in a file beside the capture: CAPTURE.notes.json.

{"schema": "kproxy.notes/1", "exchanges": {number: {"time": ns since the epoch, "marked": true, "comment": text}},
"dismissed": [ids of findings]}

"marked", "comment" and "dismissed" are optional. The time shows whether the number still means the same exchange:
another choice of ports or files numbers exchanges anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kproxy.captures import private

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row

SCHEMA: Final = "kproxy.notes/1"
SUFFIX: Final = ".notes.json"
MOST: Final = 100_000
"""Maximum number of exchanges with notes, and of dismissed findings."""


@dataclass(slots=True)
class Note:
    """Mark and comment of the exchange that began at `time` (ns since the epoch)."""

    time: int
    marked: bool = False
    comment: str = ""


class Notes:
    """The notes on one capture. Index rows count from 0, so row i is exchange i + 1."""

    def __init__(self, path: Path | None, *, writes: bool = True) -> None:
        """Reads the notes in `path`, if the file exists; stores changes there if `writes`. With None nothing is stored.

        A file in another form is never changed; `trouble` reports it.
        """
        self._path = path if writes else None
        self._notes: dict[int, Note] = {}
        self.dismissed: set[str] = set()
        """Ids of findings that the user has dismissed; change them by `dismiss`."""
        self.trouble = ""
        if path is not None:
            self._read(path)

    def of(self, number: int, row: Row) -> Note | None:
        """The note on index row `number`, None if there is none."""
        note = self._notes.get(number)
        return note if note is not None and note.time == row.time else None

    def letter(self, number: int, row: Row) -> str:
        """The letter in the list: "*" for a marked exchange, ";" for one with only a comment, else ""."""
        note = self.of(number, row)
        if note is None:
            return ""
        return "*" if note.marked else ";"

    def is_marked(self, number: int, row: Row) -> bool:
        note = self.of(number, row)
        return note is not None and note.marked

    @property
    def numbers(self) -> list[int]:
        """Index rows with a note, in order; `of` checks that the note still belongs to the exchange."""
        return sorted(self._notes)

    def mark(self, number: int, row: Row, *, on: bool) -> None:
        self._change(number, row, marked=on)
        self._write()

    def comment(self, number: int, row: Row, text: str) -> None:
        """Set the comment on an exchange; an empty text removes it."""
        self._change(number, row, comment=text.strip())
        self._write()

    def unmark_all(self) -> None:
        for number, note in list(self._notes.items()):
            note.marked = False
            if not note.comment:
                del self._notes[number]
        self._write()

    def dismiss(self, finding: str, *, on: bool) -> None:
        """Add a finding's id to the dismissed ones, or remove it."""
        if not on:
            self.dismissed.discard(finding)
        elif len(self.dismissed) < MOST:
            self.dismissed.add(finding)
        self._write()

    def _change(self, number: int, row: Row, **said: Any) -> None:
        note = self.of(number, row) or Note(row.time)
        for name, value in said.items():
            setattr(note, name, value)
        if not note.marked and not note.comment:
            self._notes.pop(number, None)
        elif number in self._notes or len(self._notes) < MOST:
            self._notes[number] = note

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            _check(content["schema"])
            for number, one in content["exchanges"].items():
                note = Note(int(one["time"]), one.get("marked") is True, str(one.get("comment", "")))
                self._notes[int(number) - 1] = note
            self.dismissed = {str(one) for one in content.get("dismissed", ())}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._notes.clear()
            self.dismissed.clear()
            self._path = None
            self.trouble = f"{path} has no notes of this version: marks and comments are not kept"

    def _write(self) -> None:
        if self._path is None:
            return
        exchanges = {}
        for number, note in sorted(self._notes.items()):
            said: dict[str, Any] = {"time": note.time}
            said |= {"marked": True} if note.marked else {}
            said |= {"comment": note.comment} if note.comment else {}
            exchanges[str(number + 1)] = said
        try:
            if not exchanges and not self.dismissed:
                self._path.unlink(missing_ok=True)
                return
            content: dict[str, Any] = {"schema": SCHEMA, "exchanges": exchanges}
            content |= {"dismissed": sorted(self.dismissed)} if self.dismissed else {}
            private.replace(self._path, json.dumps(content, indent=1))
        except OSError as error:
            self.trouble = f"marks and comments are not kept: {error.strerror or error}"
            self._path = None


def _check(schema: str) -> None:
    if schema != SCHEMA:
        raise ValueError(schema)


def beside(sources: list[str]) -> Path | None:
    """Path of the notes on a capture, beside its first file; None without files."""
    if not sources:
        return None
    first = Path(sources[0])
    return first.with_name(first.name + SUFFIX)
