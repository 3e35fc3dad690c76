"""Tables of `kproxy export --format parquet`, with which tables made in other ways are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.dataset as ds
from click.testing import CliRunner

from kproxy.captures.tables import schema
from kproxy.captures.tables.schema import FINDINGS, PARTITIONS
from kproxy.cli.exits import Exit
from kproxy.cli.main import main

TABLES: Final = {name: table for name, table in schema.TABLES.items() if name != FINDINGS.name}
"""All tables but findings, with which Spark makes no claims; test_findings.py compares these."""
Rows = Mapping[str, Counter[Any]]


def exported(paths: Sequence[Path], *more: str, tables: Sequence[str] = tuple(TABLES)) -> Rows:
    """The rows of an export, by table."""
    with TemporaryDirectory() as folder:
        command = ["export", *map(str, paths), "--format", "parquet", "-o", folder, "--tables", ",".join(tables)]
        result = CliRunner().invoke(main, [*command, *more])
        assert result.exit_code in {Exit.OK, Exit.INPUT}, result.stderr
        return written(Path(folder), tables)


def written(folder: Path, tables: Sequence[str] = tuple(TABLES)) -> Rows:
    """The rows of a folder of tables."""
    return {
        name: counted(ds.dataset(folder / name, format="parquet").to_table().to_pylist())
        if (folder / name).exists()
        else Counter()
        for name in tables
    }


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """Rows with their counts, without the columns that are in names of folders."""
    return Counter(
        tuple((name, _plain(value)) for name, value in sorted(row.items()) if name not in PARTITIONS) for row in rows
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((name, _plain(one)) for name, one in value.items()))
    if isinstance(value, list):
        return tuple(sorted(map(_plain, value)) if value and isinstance(value[0], tuple) else map(_plain, value))
    return value


def assert_same(found: Rows, expected: Rows) -> None:
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        missing, more = rows - found[name], found[name] - rows
        assert not missing, f"{name}: {len(missing)} rows missing, {len(more)} in their place, {next(iter(missing))}"
        assert not more, f"{name}: {len(more)} rows too many, {next(iter(more))}"
