"""Makes the table findings from the event rows of all flows, in capture order (captures.spark.read.events).

One task reads them all: the state of facts and rules extends over connections, so only the order of a whole reading
gives the same findings with the same ids. The task holds no more state than `kproxy findings` does. For each batch of a
stream, the task continues from the state that the batch before it left (captures.spark.follow.finding_states).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.findings.reading import Findings
from kproxy.captures.findings.rows import finding_rows
from kproxy.captures.spark.read import events
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import FINDINGS
from kproxy.decoders.exchange import Exchange

FOUND: Final = pa.schema([
    (FINDINGS.name, pa.list_(pa.struct(list(arrow.schema(FINDINGS))))), ("state", pa.binary()),
])  # fmt: skip
"""The result: one row with the list of all rows of the table, and the state for the next batch of a stream."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A source without bytes, for frames that hold their own bytes; `decrypted` says whether the capture was TLS."""

    decrypted: bool

    def read(self, start: int, end: int) -> bytes:  # noqa: ARG002  # the signature of a source
        return b""


class Fold:
    """Numbers exchanges and connections where they begin, and gives each complete item to the rules."""

    def __init__(self, options: Options, *, decrypted: bool) -> None:
        self._findings = Findings(Unread(decrypted), options.definitions)
        self._exchanges = 0
        self._connections = 0
        self._numbers: dict[tuple[int, int, int], int] = {}
        """Numbers of the exchanges that are not complete, by flow, first address of the connection, and rank."""
        self._open: dict[tuple[int, int], int] = {}
        """Numbers of open connections, by flow and first address."""

    def add(self, batch: Any) -> None:
        """The next rows, with the columns events.COLUMNS, in the order events.ORDER."""
        columns = (batch.column(name).to_pylist() for name in ("kind", "flow_id", "born", "rank", "ended"))
        for kind, flow, born, rank, ended, data in zip(*columns, batch.column("event"), strict=True):
            if kind == events.BEGUN:
                self._begin(flow, born, rank)
                continue
            number = self._numbers.pop((flow, born, rank), 0) if kind == events.DONE else 0
            held = data.as_buffer()
            if held.size:
                one, time = events.load(held)
                one.connection.number = self._open.get((flow, born), 0)
                if isinstance(one, Exchange):
                    one.number = number
                self._findings.add_one(one, time)
            if kind == events.ENDED and not ended:  # problems may follow the end of the capture
                self._open.pop((flow, born), None)

    def _begin(self, flow: int, born: int, rank: int) -> None:
        self._exchanges += 1
        self._numbers[flow, born, rank] = self._exchanges
        if (flow, born) not in self._open:
            self._connections += 1
            self._open[flow, born] = self._connections

    def resume(self, options: Options, *, decrypted: bool) -> None:
        """Continue from a stored state."""
        self._findings.resume(Unread(decrypted), options.definitions)

    def found(self, capture: str, state: bytes | None = None) -> Any:
        """The findings of the capture with this id, which ends here: a batch of FOUND."""
        rows = arrow.batch(FINDINGS, list(finding_rows(capture, self._findings.finish())))
        every = pa.ListArray.from_arrays([0, len(rows)], rows.to_struct_array())
        return pa.record_batch([every, pa.array([state], pa.binary())], FOUND)


def folded(
    batches: Iterable[Any], fold: Fold, capture: str, leave: Callable[[Fold], bytes] | None = None
) -> Iterator[Any]:
    """A batch of FOUND from all rows (see `Fold.add`).

    `leave` returns the state for the next batch; it is called before the first row that only the capture's end
    completes.
    """
    state = None
    for batch in batches:
        before = pc.sum(pc.equal(batch.column("ended"), 0)).as_py() or 0
        fold.add(batch.slice(0, before))
        if before < len(batch):
            if leave is not None and state is None:
                state = leave(fold)
            fold.add(batch.slice(before))
    if leave is not None and state is None:
        state = leave(fold)
    yield fold.found(capture, state)
