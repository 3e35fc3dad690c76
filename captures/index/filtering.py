"""Display filters over an index: evaluated on chunks of its columns; exchanges are decoded only where columns do not
suffice.

A test runs once for each distinct value of the columns that it depends on; its result holds for all rows with that
value. Results have three values: 0 is no, 3 is yes, 1 is unknown from the columns. So `and` and `or` are the bitwise
operations on whole chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kproxy.captures.index import format as layout
from kproxy.captures.index.exchanges import Exchanges
from kproxy.captures.index.format import UNSETTLED, Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.values import CHUNK, KEYS, NUMBERS, Columns, RowValues, of_row
from kproxy.decoders.fields import attribute
from kproxy.decoders.filters import Expression, Unavailable, Why
from kproxy.decoders.filters.expression import And, Compare, Not, Or, Present
from kproxy.decoders.schema import Definitions

_NO, _UNTOLD, _YES = 0, 1, 3
_OPPOSITE: Final = bytes([_YES, _UNTOLD, 2, _NO]) + bytes(252)

NEARLY: Final = 1_024
"""Number of rows at the end of an index among which the newest request is searched for."""


def _number_fits(test: Compare) -> Callable[[int], bool]:
    """A function that maps the number in the field's column to whether the test holds."""
    more = NUMBERS[test.field.name][2]
    fits = test.fits()
    if test.field.stored:
        return lambda number: number != layout.NOT_THERE and fits(number)
    if not more:
        return fits
    return replace(test, values=tuple(int(value) - more for value in test.values)).fits()


class _Test:
    """One comparison, evaluated on columns; the result for each value is cached."""

    def __init__(self, test: Compare | Present, values: RowValues) -> None:
        self._field = test.field
        self._values = values
        self._asks = test.compile(values.getter)
        self._fits = _number_fits(test) if isinstance(test, Compare) and test.field.name in NUMBERS else None
        self._known: dict[Hashable, int] = {}

    def codes(self, columns: Columns) -> bytes:
        field = self._field
        if self._fits is not None:
            return self._numbers(columns, self._fits)
        names = KEYS.get(field.name)
        if names is None:
            return bytes(self._ask(columns, at) for at in range(columns.count))
        keys: Sequence[Hashable] = (
            columns[names[0]] if len(names) == 1 else list(zip(*(columns[name] for name in names), strict=True))
        )
        single = self._learn(columns, keys)
        known = self._known
        codes = bytearray(map(known.__getitem__, keys))
        if single:
            for at, key in enumerate(keys):
                if key in single:
                    codes[at] = self._ask(columns, at)
        for key in [key for key, code in known.items() if code == _UNTOLD]:
            del known[key]  # facts that are learnt later may decide these values
        return bytes(codes)

    def _learn(self, columns: Columns, keys: Sequence[Hashable]) -> set[Hashable]:
        """Evaluate values that are not cached yet.

        Returns the values whose rows must be evaluated one by one, because the result depends on more than the value.
        """
        single: set[Hashable] = set()
        for key in set(keys):
            if key in self._known:
                continue
            at = keys.index(key)
            if of_row(self._field, columns.row(at)):
                single.add(key)
                self._known[key] = _UNTOLD
            else:
                self._known[key] = self._ask(columns, at)
        return single

    def _ask(self, columns: Columns, at: int) -> int:
        self._values.number = columns.start + at + 1
        try:
            return _YES if self._asks(columns.row(at)) else _NO
        except Unavailable:
            return _UNTOLD

    def _numbers(self, columns: Columns, fits: Callable[[int], bool]) -> bytes:
        column, absent, _ = NUMBERS[self._field.name]
        numbers = columns[column]
        codes = bytearray([_YES if fits(number) else _NO for number in numbers])
        if absent in numbers:
            codes_by_tail: dict[int, int] = {}
            tails = columns[layout.TAIL]
            for at, number in enumerate(numbers):
                if number == absent:
                    if tails[at] not in codes_by_tail:
                        codes_by_tail[tails[at]] = self._ask(columns, at)
                    codes[at] = codes_by_tail[tails[at]]
        return bytes(codes)


Codes = Callable[[Columns], bytes]


def _compile(expression: Expression, values: RowValues) -> Codes:
    if isinstance(expression, Not):
        item = _compile(expression.item, values)
        return lambda columns: item(columns).translate(_OPPOSITE)
    if isinstance(expression, And | Or):
        return _joined(expression, [_compile(item, values) for item in expression.items])
    if isinstance(expression, Compare | Present):
        return _Test(expression, values).codes
    raise TypeError(f"no filter over an index: {expression!r}")


def _joined(expression: And | Or, items: Sequence[Codes]) -> Codes:
    every = isinstance(expression, And)

    def codes(columns: Columns) -> bytes:
        size = columns.count
        decided = bytes([_NO if every else _YES]) * size
        found = items[0](columns)
        for item in items[1:]:
            if found == decided:
                break
            one, other = int.from_bytes(found, "little"), int.from_bytes(item(columns), "little")
            found = (one & other if every else one | other).to_bytes(size, "little")
        return found

    return codes


def newest(index: IndexReader) -> int:
    """Time (ns since the epoch) of the newest request, 0 without one.

    Only the last rows are examined, because rows are nearly in the order of time.
    """
    return max(Columns(index, max(index.first, index.count - NEARLY), index.count)["time"], default=0)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of testing rows; the scan ended before row `stop`.

    `matched` are the numbers of matching rows; `unsettled` those of incomplete rows, which may already match. `unknown`
    counts the other rows for which the filter is undecided, by reason.
    """

    stop: int
    matched: list[int]
    unsettled: list[int]
    unknown: Counter[Why]


class IndexFilter:
    """A filter over an index. Row numbers count from 0. Never raises on bad bytes or deleted captures.

    Times relative to the end count back from the newest request in the index.
    """

    def __init__(self, index: IndexReader, expression: Expression, definitions: Definitions) -> None:
        self._index = index
        self._values = RowValues(index, definitions)
        expression = expression.anchored(newest(index))
        self._codes = _compile(expression, self._values)
        self._exchanges = Exchanges(index, definitions)
        self._asks = expression.compile(self._getter)

    def scan(self, start: int, stop: int, *, most_bodies: int | None = None) -> Scan:
        """Test the rows from `start` on; ends at `stop`, after CHUNK rows, or when `most_bodies` exchanges were
        decoded.
        """
        columns = Columns(self._index, start, min(stop, start + CHUNK, self._index.count))
        states = columns["state"]
        codes = self._codes(columns) if columns.count else b""
        matched: list[int] = []
        unsettled = (
            [start + at for at, state in enumerate(states) if state in UNSETTLED]
            if State.EMPTY in states or State.WAITING in states
            else []
        )
        unknown: Counter[Why] = Counter()
        opened = 0
        for at, code in enumerate(codes):
            if not code or states[at] == State.EMPTY:
                continue
            if code == _YES:
                matched.append(start + at)
                continue
            if opened == most_bodies:
                end = start + at
                return Scan(end, matched, [number for number in unsettled if number < end], unknown)
            opened += 1
            answer = self._test(start + at, columns.row(at))
            if answer is True:
                matched.append(start + at)
            elif isinstance(answer, Why) and states[at] not in UNSETTLED:
                unknown[answer] += 1
        return Scan(start + columns.count, matched, unsettled, unknown)

    def test(self, number: int) -> bool | Why:
        """Whether the row matches in its present state; a Why if that is undecided."""
        return self._test(number, self._index.row(number))

    def close(self) -> None:
        self._exchanges.close()

    def _test(self, number: int, row: Row) -> bool | Why:
        if row.state == State.EMPTY:
            return False
        self._values.number = number + 1
        try:
            return self._asks(row)
        except Unavailable as unavailable:
            return unavailable.why

    def _getter(self, name: str) -> Callable[[Row], Any]:
        """A function that reads attribute `name` from a row, or from the decoded bodies if the row lacks it."""
        stored, of_exchange = self._values.getter(name), attribute(name)
        if name == "node":
            return stored  # bodies lack it too: it comes from Metadata of other exchanges

        def read(row: Row) -> Any:
            try:
                return stored(row)
            except Unavailable:
                return of_exchange(self._exchanges.row(self._values.number, row))

        return read
