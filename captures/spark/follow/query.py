"""Makes tables that grow with a folder of captures, by Spark's Structured Streaming.

The stream consists of closed files (captures.spark.follow.closed_files); Spark's checkpoint says which of them belong
to a batch. A batch writes its final rows as files named after its number; rows of open connections and waiting requests
are in files of their own, which each batch replaces. Both enter the tables in one atomic step
(captures.spark.follow.switching). The state for the next batch is written last: its presence completes the batch, and a
repeated batch begins with the state that the batch before it left. So the tables always equal those of all files of the
completed batches.

    OUT/exchanges/capture_date=2026-11-21/capture_hour=05/9f3c…-000007-0001.parquet
    OUT/flows/capture_date=2026-11-21/capture_hour=05/9f3c…-open-0001.parquet
    OUT/.follow/{checkpoint,carry/batch=7,files,read,a,b}
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kproxy.captures import private
from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import job
from kproxy.captures.spark.follow import batches
from kproxy.captures.spark.follow.batches import File
from kproxy.captures.spark.follow.carry import Carry
from kproxy.captures.spark.follow.closed_files import MOST, MOST_BYTES, NAME, ClosedFiles
from kproxy.captures.spark.follow.ledger import QUIET
from kproxy.captures.spark.follow.switching import Switch
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, began
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.write.parquet import fill

STATE: Final = ".follow"
KEPT: Final = 2
"""Number of the latest batches whose state is kept."""
_COMMON, _STATES = "carry.json", "flows"

Step = Callable[[int, str], None]
"""A function called with a batch's number and the name of the step just completed.

Steps are "begun", "tables" (written), "switched" (readable) and "carry" (state written).
"""


def follow(
    spark: SparkSession,
    folder: Path,
    out: Path,
    options: Options,
    *,
    once: bool = False,
    quiet: float = QUIET,
    most: int = MOST,
    most_bytes: int = MOST_BYTES,
    size: int = SPLIT_SIZE,
    seconds: float = 1,
    step: Step | None = None,
    bad: Callable[[CaptureError], None] | None = None,
) -> StreamingQuery:
    """Start making the tables of a folder's captures below `out`; every executor must see both folders.

    With `once`, the query ends after the files that are closed now; otherwise the folder is checked every `seconds`.
    `quiet` is the number of seconds for which the newest file must be unchanged to be read. A batch has at most `most`
    files and `most_bytes` bytes; a larger file is a batch of its own. `bad` is called with the reason why a file could
    not be read to its end, once the tables have the batch of that file. Raises OSError if `out` cannot be written,
    ValueError if `out` was begun for another folder, with other options or by another version, or if the filter
    needs the end of the capture.
    """
    refuse_undecided(options)
    state = out.absolute() / STATE
    private.place(out)
    private.inherited(state)
    _begin(state / "begun.json", folder, options)
    spark.dataSource.register(ClosedFiles)
    stream = spark.readStream.format(NAME).options(
        path=str(folder.absolute()), ledger=str(state / "files"), quiet=quiet, most=most, bytes=most_bytes
    )
    follower = _Follower(spark, out.absolute(), options, size, step or _nothing, bad or _nothing)
    writer = stream.load().writeStream.foreachBatch(follower.batch)
    writer = writer.option("checkpointLocation", str(state / "checkpoint"))
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{seconds} seconds"}
    return writer.trigger(**trigger).start()


def refuse_undecided(options: Options) -> None:
    """Raise ValueError if the filter needs facts that are known only at the end of the capture."""
    if options.undecided:
        text = "the filter needs exchange numbers, or topics or brokers that other connections name"
        raise ValueError(f"{text}; these are not final while a folder is followed: filter the tables instead")


def _begin(path: Path, folder: Path, options: Options) -> None:
    """Store the folder and the options, because the state depends on them.

    Raises ValueError if others are stored already.
    """
    description = json.dumps({
        "version": version("kafka-kproxy"),
        "folder": str(folder.absolute()),
        "tables": list(options.tables),
        "bodies": options.bodies,
        "record_sizes": options.record_sizes,
        "filter": None if options.filter is None else str(options.filter),
        "ports": None if options.ports is None else str(options.ports),
        "release": options.release,
        "definitions": list(options.user_definitions),
    })  # fmt: skip
    if not path.exists():
        private.replace(path, description, flush=True)
    elif path.read_text("utf-8") != description:
        text = "was started with different options, or by another version of kproxy"
        raise ValueError(f"{path.parent.parent}: {text} ({path}): use another folder")


def _nothing(*_: object) -> None:
    """Stands for a function of the caller that was not given."""


class _Follower:
    def __init__(
        self,
        spark: SparkSession,
        out: Path,
        options: Options,
        size: int,
        step: Step,
        bad: Callable[[CaptureError], None],
    ) -> None:
        self._spark = spark
        self._out = out
        self._carries = out / STATE / "carry"
        self._aside = out / STATE / "aside"
        self._switch = Switch(out, out / STATE)
        self._options = options
        self._size = size
        self._step = step
        self._bad = bad

    def batch(self, frame: DataFrame, number: int) -> None:
        """Make the batch with this number from the files in `frame`, unless it is complete already."""
        if self._carry(number).exists():
            return
        self._step(number, "begun")
        rows = frame.orderBy("number").collect()
        self._make(number, [File(row["path"], row["size"]) for row in rows])

    def _make(self, number: int, files: Sequence[File]) -> None:
        carry, states = self._carried(number - 1)
        lost: list[File] = []
        while True:
            try:
                shutil.rmtree(self._aside, ignore_errors=True)
                late = [one for one in files if self._is_late(one, carry)]
                alone = [self._alone(one) for one in late]
                at_hand = replace(carry, late=[*carry.late, *((one.path, began(one.path) or 0) for one in late)])
                made = batches.make(
                    self._spark, [one for one in files if one not in late], self._options, at_hand, states,
                    size=self._size,
                )  # fmt: skip
                self._put(number, made, [name for name, _ in alone])
                break
            except Exception:  # Spark reports a missing file by various exceptions
                # A file of a ring may be deleted at any time: the batch is repeated and reports it as lost.
                gone = [one for one in files if not Path(one.path).exists()]
                if gone == lost:
                    raise
                lost = gone
        made.release()
        for error in chain(*(errors for _, errors in alone), made.errors):
            self._bad(error)

    def _put(self, number: int, made: batches.Batch, names: list[str]) -> None:
        """Move the files of a batch and of late captures into the tables, and store the state for the next batch.

        `names` are the prefixes of the late captures' files.
        """
        capture = made.carry.capture
        if capture:
            final, open_ = f"{capture}-{number:06}", f"{capture}-open"
            fill([made.final], {}, self._options.tables, self._aside / final, final)
            fill(made.open, made.given, self._options.tables, self._aside / open_, open_)
            names = [*names, final, open_]
            self._step(number, "tables")
        self._switch.put([self._aside / name for name in names], [f"{name}-" for name in names])
        self._step(number, "switched")
        shutil.rmtree(self._aside, ignore_errors=True)
        self._leave(number, made)
        self._step(number, "carry")

    def _leave(self, number: int, made: batches.Batch) -> None:
        aside = self._carries / ".partial"
        shutil.rmtree(aside, ignore_errors=True)
        private.folder(aside)
        made.states.write.parquet(str(aside / _STATES))
        private.replace(aside / _COMMON, made.carry.json(), flush=True)
        aside.replace(self._carry(number))
        shutil.rmtree(self._carry(number - KEPT), ignore_errors=True)

    def _carried(self, number: int) -> tuple[Carry, DataFrame | None]:
        """(Carry, states of flows) that the batch with this number left; before batch 0, an empty Carry and None."""
        folder = self._carry(number)
        if number < 0:
            return Carry(), None
        carry = Carry.of((folder / _COMMON).read_text("utf-8"))
        return carry, self._spark.read.schema("flow_id bigint, state binary").parquet(str(folder / _STATES))

    def _carry(self, number: int) -> Path:
        return self._carries / f"batch={number}"

    def _is_late(self, file: File, carry: Carry) -> bool:
        try:
            first = began(file.path)
        except CaptureError:
            return False
        return first is not None and first < carry.begun

    def _alone(self, file: File) -> tuple[str, Sequence[CaptureError]]:
        """Make the tables of a late file as those of another capture; returns that capture's id, and why the file could
        not be read to its end.
        """
        made = job.make(self._spark, [file.path], self._options, size=self._size)
        try:
            name = made.order.capture
            fill(made.parts, made.given, made.names, self._aside / name, name)
        finally:
            made.release()
        return name, made.order.errors
