from __future__ import annotations

import pytest

from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import TABLES, Table


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_every_time_has_its_twin_and_arrow_knows_every_type(table: Table) -> None:
    names = [column.name for column in table.columns]
    types = {column.name: column.type for column in table.columns}
    assert len(names) == len(set(names))
    for column in table.columns:
        if column.name.endswith("_ns"):
            assert names[names.index(column.name) + 1] == column.name.removesuffix("_ns")
            assert table.columns[names.index(column.name) + 1].of == (column.name,)
        assert {types[name] for name in column.of} <= {"bigint"}
    assert table.time in names
    assert arrow.schema(table).names == names
    assert all(field.nullable for field in arrow.schema(table))


def test_ddl_is_sparks() -> None:
    assert TABLES["captures"].ddl.startswith("`capture_id` string, `source_id` string, `path` string, `size` bigint")
