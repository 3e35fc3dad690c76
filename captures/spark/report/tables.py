"""The interface to tables in a folder that `kproxy export --format parquet` or `kproxy spark` wrote."""

from __future__ import annotations

from string import Formatter
from typing import Any, Final, Protocol

from kproxy.captures.tables.schema import TABLES

SOURCE_ID: Final = "source_id"
"""The column by which the queries join tables, beside exchange_id: the id of a row's reading."""


class Executor(Protocol):
    """Runs queries of this package over the tables of a folder."""

    def rows(self, query: str, most: int | None = None) -> list[dict[str, Any]]:
        """The first `most` rows of a query's result, or all; times have no zone and are UTC."""


class NoTables(Exception):  # noqa: N818 (a finding about a folder)
    """A folder has none of the tables that kproxy writes."""

    def __init__(self, directory: str) -> None:
        names = ", ".join(TABLES)
        super().__init__(f"{directory}: holds no tables, which are folders named {names} (docs/tables.md)")


class OldTables(Exception):  # noqa: N818 (a finding about a folder)
    """A folder has tables of an earlier version of kproxy, whose rows do not name the reading to which they belong."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory}: an earlier version of kproxy wrote tables there; export the captures again")


def named(query: str) -> list[str]:
    """The names of the tables in a query."""
    return sorted({name for _, name, _, _ in Formatter().parse(query) if name})
