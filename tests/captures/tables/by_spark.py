"""Writes tables by Spark in a session, as one of the ways of tests.captures.tables.again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kproxy.captures.spark import job
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.write.parquet import write
from kproxy.captures.tables.origin import Overlap
from kproxy.captures.tables.schema import USUAL
from tests.captures.tables.again import Place


class InSession:
    """By Spark in a session, without asking the folder before; tables are at a URL of Hadoop's file systems."""

    def __init__(self, spark: Any, captures: Place, tables: Place) -> None:
        self.captures = captures
        self.tables = tables
        self._spark = spark

    def write(self, out: Path, captures: Sequence[Path]) -> str | None:
        made = job.make(self._spark, list(map(self.captures.url, captures)), Options(USUAL), size=1 << 16)
        try:
            write(made, self.tables.url(out))
        except Overlap as error:
            return f"{self.tables.name(out)}: {error}"
        finally:
            made.release()
        return None
