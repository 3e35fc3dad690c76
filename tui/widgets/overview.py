"""The Overview tab: client, broker, times, versions and result of one exchange."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style

from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag, Row, State
from kproxy.captures.index.reader import Detail, IndexReader
from kproxy.captures.text import latency_text
from kproxy.decoders.exchange import Frame
from kproxy.decoders.schema import Definitions, errors
from kproxy.decoders.stream import Side
from kproxy.tui.actions import registry as actions
from kproxy.tui.listing.rows import RESULT, RowText
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.decoders.meanings.remarks import Remark
    from kproxy.decoders.sasl.session import Session

Line = tuple[str, str, Style]
NAME_CELLS = 16
MOST_REMARKS = 20
"""How many remarks of one kind are shown before "… n more"."""


class Overview(Lines):
    """Lines of "name  value" about one exchange."""

    CONTEXT = "overview"
    BINDINGS = actions.bindings("overview")

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self._content: list[Line] = []
        self._wrapped: tuple[int, list[Line]] = (-1, [])

    @property
    def _lines(self) -> list[Line]:
        """The lines, wrapped to the width of the pane."""
        width = self.size.width
        if self._wrapped[0] != width:
            room = max(20, width - NAME_CELLS - 2)
            self._wrapped = (
                width,
                [
                    (name if number == 0 else " ", piece, style)
                    for name, value, style in self._content
                    for number, piece in enumerate(
                        [piece for part in value.split("\n") for piece in wrap(self.cells.escape(part), room) or [""]]
                    )
                ],
            )
        return self._wrapped[1]

    @property
    def count(self) -> int:
        return len(self._lines)

    def show(self, lines: list[Line]) -> None:
        self._content = lines
        self._wrapped = (-1, [])
        self.cursor = self.top = 0
        self.content_changed()

    def segments(self, index: int, width: int) -> list[Segment]:
        name, value, style = self._lines[index]
        return [
            Segment(self.cells.fit(f" {name}", NAME_CELLS), look.NAME),
            Segment(self.cells.fit(value, width - NAME_CELLS), style),
        ]


def overview(
    number: int,
    row: Row,
    detail: Detail,
    index: IndexReader,
    text: RowText,
    known: Definitions,
    remarks: Sequence[Remark] = (),
) -> list[Line]:
    """The lines of one exchange."""
    entry = index.connection(row.connection)
    plain = look.PLAIN
    node = text.node(row)
    lines: list[Line] = [
        ("exchange", f"{number}  {text.api(row)}{_class(row, text)}", look.BOLD),
        ("about", index.string(row.label), plain),
        ("result", _result(row, text), look.SEVERITY.get(text.severity(row), plain)),
    ]
    note = text.notes.of(number - 1, row) if text.notes is not None else None
    if note is not None and note.comment:
        lines.append(("comment", note.comment, look.BOLD))
    proofs = text.found.of(number - 1) if text.found is not None else []
    lines += [("finding", f"{one.rule}: {one.note}", look.SEVERITY[one.letter]) for one in proofs]
    if len(detail.errors) > 1:
        lines.append(("all errors", ", ".join(f"{code} {errors.name(code)}" for code in detail.errors), plain))
    lines += _advice(row, detail, known)
    lines += _remarks(remarks)
    if detail.reason:
        lines.append(("why", detail.reason, plain))
    if detail.session is not None:
        lines += _session(detail.session)
    if row.latency != layout.NO_LATENCY:
        lines.append(("latency", _latency(row, detail), plain))
    lines += [
        ("client", " ".join(filter(None, (index.string(row.client), index.string(entry.client)))), plain),
        ("broker", (f"{node}  " if node else "") + index.string(entry.broker), plain),
        ("connection", str(row.connection), plain),
        ("request from", "the broker" if detail.asked_by is Side.BROKER else "", plain),
        ("correlation id", "" if row.flags & Flag.NO_CORRELATION else str(row.correlation), plain),
        ("request", _frame(detail.request), plain),
        ("response", _frame(detail.response), plain),
        ("definitions", index.protocol(row) or _definitions(row, known), plain),
    ]
    for problem in detail.problems:
        where = f"{problem.where} byte {problem.offset}" + (f" {problem.path}" if problem.path else "")
        lines.append(("problem", f"{problem.code}: {problem.message} ({where})", look.SEVERITY["E"]))
    for side, frame in (("request", detail.request), ("response", detail.response)):
        lines += [(f"{side} note", comment, plain) for comment in (frame.comments if frame else ())]
    return [line for line in lines if line[1]]


def _session(session: Session) -> list[Line]:
    """Lines about the authentication that a SASL exchange is part of."""
    style = look.SEVERITY["E"] if session.error else look.PLAIN
    times = [("since", session.since), ("until", session.ends)]
    words = [session.in_words(), *(f"{what} {_moment(time)}" for what, time in times if time is not None)]
    return [
        ("authentication", "\n".join(words), style),
        ("offered", ", ".join(session.offered), look.PLAIN),
    ]


def _advice(row: Row, detail: Detail, known: Definitions) -> list[Line]:
    """Lines that say what to do about each error of the response."""
    if row.protocol or not row.error or not known.versions(row.api_key):
        return []
    message = known.response(row.api_key, known.nearest(row.api_key, row.api_version))
    if message is None:
        return []
    codes = detail.errors or [row.error]
    from kproxy.decoders.meanings.table import meaning

    advice = {code: meaning(message.name, "errorCode", row.api_version, code) for code in codes}
    texts = [f"{code}: {text}" if len(codes) > 1 else text for code, text in advice.items() if text]
    return [("to do", "\n".join(texts), look.PLAIN)] if texts else []


def _remarks(remarks: Sequence[Remark]) -> list[Line]:
    """One entry for each kind of remark; its text has a line for each remark of that kind."""
    kinds: dict[str, list[str]] = {}
    for remark in remarks:
        kinds.setdefault(remark.title, []).append(remark.text)
    return [
        (title, "\n".join(texts[:MOST_REMARKS] + [f"… {left:,} more"] * (left > 0)), look.PLAIN)
        for title, texts in kinds.items()
        for left in (len(texts) - MOST_REMARKS,)
    ]


def _class(row: Row, text: RowText) -> str:
    klass = text.api_class(row)
    return f"  ({klass})" if klass else ""


def _result(row: Row, text: RowText) -> str:
    if row.error:
        return f"{row.error} {text.error(row)}" + (" (retriable)" if errors.retriable(row.error) else "")
    return RESULT[State(row.state)]


def _latency(row: Row, detail: Detail) -> str:
    value = latency_text(row.latency)
    value += "" if value.endswith("s") else " ms"
    if row.flags & Flag.WAITED:
        value += ", held by the broker until its max wait (long poll)"
    if detail.throttle_ms:
        value += f", throttled for {detail.throttle_ms} ms"
    return value


def _frame(frame: Frame | None) -> str:
    if frame is None:
        return "not seen"
    pieces = f" in {len(frame.spans)} pieces" if len(frame.spans) > 1 else ""
    return f"{_moment(frame.time)}  {frame.size:,} B{pieces}, at byte {frame.stream_offset:,} of its stream"


def _moment(time: int) -> str:
    second, rest = divmod(time, 1_000_000_000)
    try:
        clock = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        clock = f"{second} s"
    return f"{clock}.{rest:09d}Z"


def _definitions(row: Row, known: Definitions) -> str:
    notes = []
    if row.flags & Flag.GUESSED:
        notes.append("guessed: its own version is not known")
    if row.flags & Flag.OLDER_LAYOUT:
        notes.append("read with the layout of an older release")
    return f"Kafka {known.release}" + (f" ({'; '.join(notes)})" if notes else "")
