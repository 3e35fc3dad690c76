"""Finds frames in the bytes of one direction, and reports problems in these bytes; the base for both directions.

A framer keeps the bytes that are not processed yet as a Stretch and walks it frame by frame, reading only the first
bytes of each. It appends Items to a list. While the position of the next frame is known, the framer is *aligned*. After
a lost or absurd length, a Search resynchronises: the caller steps it segment by segment until it finds the next frame.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from kproxy.decoders.conversation import comments, overlap
from kproxy.decoders.conversation.items import PROBLEM, Item
from kproxy.decoders.conversation.recognition import Known
from kproxy.decoders.conversation.resync import Search
from kproxy.decoders.conversation.stretch import Stretch
from kproxy.decoders.exchange import Connection, Frame, Health, StreamProblem
from kproxy.decoders.plurals import are, counted, were
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Copy, Gap, Run, Side, Source

SIZE = Struct(">i")
_NEVER = 1 << 62
_POSSIBLE, _PLAUSIBLE, _PROVEN = 1, 2, 3
"""Values of `Framer._standing`, from weak to strong evidence that a frame begins at an offset.

_POSSIBLE: the length is possible. _PLAUSIBLE: the header is plausible as well. _PROVEN: every field fits to the last
byte.
"""


def _missing(size: int) -> str:
    return f"{counted(size, 'byte')} {are(size)} missing"


def _better(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether the first of two (standing, size) is likelier. If both stand equal, it is the smaller size.

    Wrong sizes are mostly large.
    """
    return one[0] > other[0] or (one[0] == other[0] > 0 and one[1] < other[1])


class Framer:
    """Finds the frames of one direction; the base class for both directions."""

    __slots__ = (
        "attention", "begun", "comments", "connection", "definitions", "floor", "health", "known", "later", "limit",
        "need", "over", "overlaps", "position", "search", "source", "stretch",
    )  # fmt: skip

    side: Side
    where: str
    head: int
    """Number of bytes that are needed to decide whether a frame may begin."""
    kept = 0
    """Number of bytes that stay in memory after a search has read them."""

    def __init__(
        self,
        connection: Connection,
        source: Source,
        definitions: Definitions,
        known: Known,
        limit: int,
        health: Health,
    ) -> None:
        self.connection = connection
        self.source = source
        self.definitions = definitions
        self.known = known
        self.limit = limit
        self.health = health
        self.stretch = Stretch(source, 0)
        self.begun = False
        self.position = 0
        """Offset at which the next frame begins; valid while the framer is aligned."""
        self.need = 0
        """Offset that the bytes must reach before the next frame can be processed."""
        self.floor = 0
        """Highest key of an item so far (see Stretch)."""
        self.search: Search | None = None
        self.over = False
        self.comments: dict[int, str] = {}
        self.overlaps: list[tuple[int, int]] = []
        self.later: tuple[int, int] | None = None
        """The last range [start, end) that was read from the second copy of retransmitted bytes.

        The second copy is read if no frame begins in the first.
        """
        self.attention = _NEVER
        """Lowest offset of a packet comment or an overlap; frames that end before it have neither."""

    def begin(self, start: int) -> None:
        """Begin at stream offset `start`, the offset of the first captured byte."""
        self.begun = True
        self.stretch = Stretch(self.source, start)
        self.position = start

    def take(self, event: Run | Gap, out: list[Item]) -> None:
        """Append the bytes of a run, or a gap, to the stretch; problems with them are appended to `out`."""
        if not self.begun:
            self.begin(event.start)
        if isinstance(event, Gap):
            if self.stretch.gap(event):
                lost = event.end - max(event.start, self.stretch.ends[-2])
                self.health.gaps += 1
                self.health.lost += lost
                if self.search is not None:
                    key = max(self.floor, event.at)
                    start = self.stretch.ends[-2]
                    self.report(out, key, start, lost, Code.GAP, _missing(lost), event.time)
            return
        if event.comments:
            self.comments.update(event.comments)
            self.attention = min(self.attention, *event.comments)
        for low, high in event.overlaps:
            if high > self.position:
                self.overlaps.append((low, high))
                self.attention = min(self.attention, low)
            else:
                key = max(self.floor, event.released, self.stretch.top)
                time = (event.times or self.stretch.times)[-1]
                self.report(out, key, low, high - low, Code.OVERLAP, overlap.text(high - low), time)
        self.stretch.extend(event)
        for copy in event.copies:
            self._read_instead(copy, event.released)

    def _read_instead(self, copy: Copy, released: int) -> None:
        """Read another copy of retransmitted bytes if a frame fits it better than the first copy.

        This happens only where no frame was found or the frame is incomplete.

        If the copy also changes frames that were processed already, a frame must begin with the copy's first bytes.
        `released` is the address of the packet that brought the copy.
        """
        search, first = self.search, self.stretch
        start = self.position if search is None else search.lost
        if not copy.start <= start <= copy.end or start >= first.end or (search is not None and search.begin):
            return
        found = 0 if search is not None else self._standing(start), self._size(start)
        for begin in dict.fromkeys((start, copy.start)):
            other = first.with_copy(copy, begin, self.side, max(released, self.floor))
            if begin == copy.end or other is None:
                continue
            self.stretch = other
            standing = self._standing(begin)
            if standing > _POSSIBLE or (begin == start and _better((standing, self._size(begin)), found)):
                self.withdraw()
                self.search = None
                self.position, self.need = begin, 0
                self.later = begin, copy.end
                return
            self.stretch = first

    def _size(self, start: int) -> int:
        """The value of the length field of the frame at `start`; -1 if bytes of the field are missing."""
        head = self.stretch.gather(start, 4)
        return -1 if len(head) < 4 else int.from_bytes(head, "big")

    def _standing(self, start: int) -> int:
        """How strong the evidence is that a frame begins at `start`; 0 if none can begin there."""
        size = self._size(start)
        if not self.head - 4 <= size <= self.limit:
            return 0
        end = start + 4 + size
        if end <= self.stretch.end and self.refute(start, end) is None:
            return _PROVEN
        head = self.stretch.gather(start, self.head)
        if len(head) < self.head:
            return _POSSIBLE
        return _PLAUSIBLE if any(position == 0 for position, _ in self.candidates(head)) else 0

    def withdraw(self) -> None:
        """Discard the state of the next frame, so that its first bytes are read anew."""

    def report(self, out: list[Item], key: int, offset: int, size: int, code: Code, message: str, time: int) -> None:
        self.floor = max(self.floor, key)
        problem = StreamProblem(self.connection, self.side, time, offset, size, code, message, self.floor)
        out.append((self.floor, PROBLEM, problem, None))

    def frame(self, start: int, end: int, problems: list[Problem]) -> Frame:
        """The frame at [start, end), even if some or all of its bytes are missing; problems with it are appended to
        `problems`.
        """
        stretch = self.stretch
        stop = min(end, stretch.end)
        key = max(stretch.key(stop - 1), self.floor)
        spans, missing = stretch.spans(start, end)
        frame = Frame(
            self.side, start, end - start - 4, stretch.time(start), stretch.time_held(stop - 1, start), key, spans, (),
            missing,
        )  # fmt: skip
        if missing:
            self.health.cut += 1
            problems += self._missing(start, end, missing)
        if end > self.attention:
            self.attend(frame, start, end, problems)
        return frame

    def _missing(self, start: int, end: int, missing: int) -> list[Problem]:
        """One problem for each reason why bytes of the frame [start, end) are missing; `missing` is their number."""
        stretch = self.stretch
        found = []
        tail = end - max(stretch.end, start)
        lost = 0
        for gap_start, gap_end in stretch.gaps:
            low, high = max(gap_start, start), min(gap_end, end)
            if low < high:
                lost += high - low
                found.append(Problem(self.where, low - start, "", _missing(high - low), Code.GAP))
        if missing > lost + max(tail, 0):
            first = start + len(stretch.gather(start, end - start))
            if found:
                first = start
                while stretch.stored(first) or stretch.gap_at(first) is not None:
                    first = self._next_change(first)
            cut = missing - lost - max(tail, 0)
            text = f"{counted(cut, 'byte')} {were(cut)} on the wire but {were(cut)} not captured"
            found.append(Problem(self.where, first - start, "", text, Code.CUT_BY_SNAPLEN))
        if tail > 0:
            text = f"the stream ends {counted(tail, 'byte')} early"
            found.append(Problem(self.where, stretch.end - start, "", text, Code.TRUNCATED))
        return found

    def _next_change(self, offset: int) -> int:
        """First offset after `offset` at which stored bytes end or begin."""
        stretch = self.stretch
        k = bisect_right(stretch.ends, offset, 1)
        have = stretch.ends[k] if stretch.have is None else stretch.have[k]
        return have if offset < have else stretch.ends[k]

    def attend(self, frame: Frame, start: int, end: int, problems: list[Problem]) -> None:
        """Add packet comments to the frame, and problems for retransmissions that differ."""
        for offset in sorted(self.comments):
            if offset < end:
                text = self.comments.pop(offset)
                if offset >= start:
                    frame.comments = (*frame.comments, text)
                    problems += comments.problems(text, self.where)
        rest = []
        for low, high in self.overlaps:
            if high > start and low < end:
                later = self.later is not None and low < self.later[1] and high > self.later[0]
                problems.append(overlap.problem(self.where, start, max(low, start), min(high, end), later=later))
            if high > end:
                rest.append((low, high))
        self.overlaps = rest
        self.attention = min([*self.comments, *(max(low, end) for low, _ in rest)], default=_NEVER)

    def lost(self, out: list[Item], offset: int) -> None:
        """Report that bytes of the length field at `position` are missing from `offset` on.

        Begin a search after them.
        """
        stretch = self.stretch
        gap = stretch.gap_at(offset)
        resume = stretch.next_stored(offset)
        key, time = stretch.key(offset), stretch.time(offset)
        if gap is not None:
            size = gap[1] - gap[0]
            self.report(out, key, gap[0], size, Code.GAP, _missing(size), time)
        else:
            size = stretch.ends[stretch.segment(offset)] - offset
            text = "a frame's length is not in the capture"
            self.report(out, key, offset, size, Code.CUT_BY_SNAPLEN, text, time)
            resume = offset + size
        self.look(resume, chained=True)

    def absurd(self, out: list[Item], size: int, last: int) -> None:
        """Report an impossible length `size`, whose last byte is at `last`; begin a search after the length."""
        stretch = self.stretch
        first = stretch.gather(self.position, 4)
        if size < 0:
            code, text = Code.BAD_LENGTH, f"a frame's length is {size}"
        else:
            code, text = Code.OVERSIZE_FRAME, f"a frame's length is {size}, the limit is {self.limit}"
        if all(0x20 <= byte < 0x7F for byte in first):
            text += f' (as text "{first.decode()}")'
        self.report(out, stretch.key(last), self.position, 4, code, text, stretch.time(last))
        start = self.position
        self.look(start + 1, chained=False, lost=start)

    def look(self, start: int, *, chained: bool, begin: bool = False, lost: int | None = None) -> None:
        """Begin a search at `start`.

        `lost` is the offset at which the alignment was lost, if that is before `start`. `chained` says that a frame is
        likely to begin at `start`, `begin` that `start` is the beginning of the capture.
        """
        self.search = Search(
            start,
            lost=start if lost is None else lost,
            chained=chained,
            begin=begin,
        )
        self.position = start

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        """The frames that may begin in `window`; see `Judge.candidates`."""
        raise NotImplementedError

    def link(self, window: bytes, position: int) -> int:
        """The size of the frame at `position`; see `Judge.link`."""
        raise NotImplementedError

    def refute(self, start: int, end: int) -> int | None:
        """The number of bytes decoded to refute the frame [start, end); None if it is proved. See `Judge.refute`."""
        raise NotImplementedError

    def probe(self) -> int | None:
        """Key of the last byte of the segment that the search reads next; None if the search needs more bytes."""
        stretch, search = self.stretch, self.search
        if search is None or search.done >= stretch.end:
            return None
        return max(stretch.key(stretch.ends[stretch.segment(search.done)] - 1), self.floor)

    def seek(self, out: list[Item]) -> bool:
        """Take one step of the search; returns True once it has found the next frame."""
        stretch, search = self.stretch, self.search
        if search is None:
            return True
        found = search.step(stretch, self)
        if found is None:
            stretch.drop(min(search.needed(), search.done - self.kept))
            return False
        position, end = found
        self.aligned(out, position, end)
        return True

    def aligned(self, out: list[Item], position: int, end: int) -> None:
        """End the search and continue reading at `position`: the bytes before `end` prove that a frame begins there."""
        stretch, search = self.stretch, self.search
        if search is None:
            return
        end = min(end, stretch.end)
        skipped = position - search.lost
        self.floor = max(self.floor, stretch.key(end - 1))
        if not search.begin or skipped:
            self.health.resyncs += 1
            text = f"reading resumed after {counted(skipped, 'byte')} that belong to no frame"
            self.report(out, self.floor, search.lost, skipped, Code.RESYNC, text, stretch.time(end - 1))
        self.search = None
        self.position = self.need = position

    def unread(self, out: list[Item], key: int, time: int) -> None:
        """Report, at the end of the stream, the bytes that belong to no frame."""
        stretch, search = self.stretch, self.search
        if search is not None:
            size = stretch.end - search.lost
            if size > 0:
                text = f"no frame begins in the last {counted(size, 'byte')}"
                self.report(out, key, search.lost, size, Code.RESYNC, text, time)
        elif stretch.end > self.position:
            size = stretch.end - self.position
            text = f"the stream ends {counted(size, 'byte')} into a frame's header"
            self.report(out, key, self.position, size, Code.TRUNCATED, text, time)
