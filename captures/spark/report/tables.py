"""The interface to tables in a folder that `kproxy export --format parquet` or `kproxy spark` wrote."""

from __future__ import annotations

from string import Formatter
from typing import Any, Protocol

from kproxy.captures.tables.schema import TABLES


class Executor(Protocol):
    """Runs queries of this package over the tables of a folder."""

    def rows(self, query: str, most: int | None = None) -> list[dict[str, Any]]:
        """The first `most` rows of a query's result, or all; times have no zone and are UTC."""


class NoTables(Exception):  # noqa: N818 (a finding about a folder)
    """A folder has none of the tables that kproxy writes."""

    def __init__(self, directory: str) -> None:
        names = ", ".join(TABLES)
        super().__init__(f"{directory}: holds no tables, which are folders named {names} (docs/tables.md)")


def named(query: str) -> list[str]:
    """The names of the tables in a query."""
    return sorted({name for _, name, _, _ in Formatter().parse(query) if name})
