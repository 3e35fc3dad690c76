"""The state that a batch of a stream leaves to the next for all flows together; each flow also has its own state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kproxy.captures.spark.plan.order import Order, Summary
from kproxy.captures.spark.plan.splits import WIDE
from kproxy.captures.spark.read.facts import LearnedFact
from kproxy.captures.spark.read.flows import COUNTED, OPEN, PRESUMED, Beginning

Late = tuple[str, int]
"""(path of a file, time of its first packet in nanoseconds since the epoch)."""
SCHEMA: Final = "kproxy.carry/3"


@dataclass(frozen=True, slots=True)
class Carry:
    """The state that one batch leaves to the next for all flows together.

    `capture` names the reading; `summaries` has one entry for each file that was read. `facts` holds the last known
    value of each fact, `counts` the number of numbered exchanges and flows, and `numbers` the numbers of those that are
    not complete. `late` are files that arrived after files with later packets were read.
    """

    capture: str | None = None
    summaries: Sequence[Summary] = ()
    facts: Sequence[LearnedFact] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: {"exchange": 0, "flow": 0})
    numbers: Mapping[Beginning, int] = field(default_factory=dict)
    late: Sequence[Late] = ()

    @property
    def groups(self) -> int:
        """Number of groups of files read so far, or more: a group has no address of files that were merged before."""
        bases = [one.base for one in self.summaries]
        bases += [each.base for one in self.summaries for each in one.given if each.base is not None]
        return 1 + max((base // WIDE for base in bases), default=-1)

    @property
    def begun(self) -> int:
        """Time of the first packet of the latest file read so far, in nanoseconds since the epoch; 0 without files."""
        return max((one.first for one in self.summaries if one.first is not None), default=0)

    def order(self, batch: Order) -> Order:
        """The order of all files read so far, followed by the files of a batch."""
        return Order(self.capture or batch.capture, (*self.summaries, *batch.summaries))

    def after(self, order: Order, facts: Iterable[LearnedFact], items: Iterable[Mapping[str, Any]]) -> Carry:
        """The state that a batch leaves to the next one. `order` covers all files read up to the end of the batch.

        `facts` are those in the batch's final items; `items` are all its items (captures.spark.read.closing.PLACES).
        """
        latest = {one[:2]: one for one in sorted((*self.facts, *facts), key=lambda one: one[3])}
        numbers: dict[Beginning, int] = {}
        counts = dict(self.counts)
        for item in items:
            counted = COUNTED.get(item["kind"])
            if counted is None or item["standing"] == PRESUMED:
                continue
            counts[counted] = max(counts[counted], item["number"])
            if item["standing"] == OPEN:
                numbers[counted, item["started"], item["born"], item["rank"]] = item["number"]
        return Carry(order.capture, order.files, list(latest.values()), counts, numbers, self.late)

    def json(self) -> str:
        return json.dumps({
            "schema": SCHEMA,
            "capture": self.capture,
            "summaries": [asdict(one) for one in self.summaries],
            "told": self.facts,
            "counts": self.counts,
            "late": self.late,
            "numbers": [[*place, number] for place, number in self.numbers.items()],
        })  # fmt: skip

    @classmethod
    def of(cls, text: str) -> Carry:
        """The Carry that `json` wrote as this text. Raises ValueError if the text is no Carry."""
        try:
            text_json = json.loads(text)
            held = {SCHEMA: text_json}[text_json["schema"]]
            return cls(
                None if held["capture"] is None else str(held["capture"]),
                [Summary.made(one) for one in held["summaries"]],
                [(str(fact), str(about), str(known), tuple(position)) for fact, about, known, position in held["told"]],
                {kind: int(held["counts"][kind]) for kind in ("exchange", "flow")},
                {
                    (str(kind), int(started), int(born), int(rank)): int(number)
                    for kind, started, born, rank, number in held["numbers"]
                },
                [(str(path), int(first)) for path, first in held["late"]],
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            text = f"is not a {SCHEMA} ({type(error).__name__}: {error}): remove the folder .follow with the tables"
            raise ValueError(f"the state of the batch before {text} and begin again") from None
