"""Fields by version, differences and grammar agree with the layouts."""

from __future__ import annotations

import pytest

from kproxy.decoders.schema import Message, definitions
from kproxy.decoders.schema.described import FieldRow, differences, fields, grammar, ranges, runs, since
from kproxy.decoders.schema.layout import Layout, Shape, layout
from tests.decoders.support import every_message


def by_version(name: str) -> dict[int, Message]:
    known = definitions()
    return {version: message for version in range(33) if (message := known.message(name, version)) is not None}


def paths(of: Layout, above: str = "") -> set[str]:
    found = set()
    for slot in of.every():
        path = above + slot.name
        found.add(path)
        if slot.layout is not None:
            found |= paths(slot.layout, f"{path}{'[]' if slot.shape is Shape.ARRAY else ''}.")
    return found


def test_the_fields_of_every_message() -> None:
    for name in sorted({message.name for message, _ in every_message()}):
        messages = by_version(name)
        rows = fields(messages)
        assert len({row.path for row in rows}) == len(rows), name
        for version, message in messages.items():
            there = [row for row in rows if version in row.types]
            assert {row.path for row in there} == paths(layout(message, version)), (name, version)
            top = [row.name for row in there if not row.depth]
            assert top == [slot.name for slot in layout(message, version).every()], (name, version)


def row(name: str, path: str) -> FieldRow:
    return next(one for one in fields(by_version(name)) if one.path == path)


def test_since_when() -> None:
    every = sorted(by_version("FetchRequest"))
    replica = row("FetchRequest", "replicaId")
    assert since(replica.versions, every) == "0-14"
    cluster = row("FetchRequest", "clusterId").to_json(every)
    assert cluster == {
        "path": "clusterId",
        "type": "string",
        "versions": "12+",
        "nullable": "12+",
        "tag": 0,
        "tagged": "12+",
        "default": "null",
        "ignorable": True,
    }
    assert since(row("FetchRequest", "topics[].topicId").versions, every) == "13+"
    topics = row("MetadataRequest", "topics")
    assert since(sorted(topics.nullable), sorted(by_version("MetadataRequest"))) == "1+"


def test_differences() -> None:
    known = definitions()

    def changes(name: str, before: int, after: int) -> list[tuple[str, str, str, str]]:
        old, new = known.message(name, before), known.message(name, after)
        assert old is not None
        assert new is not None
        return [(one.kind, one.path, one.before, one.after) for one in differences((old, before), (new, after))]

    assert changes("FetchRequest", 12, 13) == [
        ("removed", "topics[].topic", "string", ""),
        ("added", "topics[].topicId", "", "uuid"),
        ("removed", "forgottenTopicsData[].topic", "string", ""),
        ("added", "forgottenTopicsData[].topicId", "", "uuid"),
    ]
    assert changes("HeartbeatRequest", 3, 4) == [("changed", "", "not flexible", "flexible")]
    assert changes("MetadataRequest", 0, 1) == [("changed", "topics", "[]struct", "[]struct, nullable")]
    assert ("added", "nodeEndpoints[].host", "", "string") in changes("FetchResponse", 15, 16)
    assert ("changed", "topics[].partitions[].replicaId", "int32", "int64") not in changes("FetchRequest", 12, 13)


def test_a_version_differs_from_no_version_that_is_written_alike() -> None:
    """Versions have no differences exactly if their layouts write the same bytes."""
    for message, version in every_message():
        assert differences((message, version), (message, version)) == []
        after = definitions().message(message.name, version + 1)
        if after is not None and not differences((message, version), (after, version + 1)):
            assert grammar(message, version)[1:] == grammar(after, version + 1)[1:], (message.name, version)


def test_the_grammar_has_every_field_at_its_depth() -> None:
    for message, version in every_message():
        lines = grammar(message, version)
        expected = paths(layout(message, version))
        assert len(lines) == len(expected) + 1, (message.name, version)
        depths = sorted(path.count(".") + 1 for path in expected)
        assert sorted((len(line) - len(line.lstrip())) // 2 for line in lines[1:]) == depths
        assert ("_tagged_fields" in lines[0]) is layout(message, version).flexible


def test_the_grammar_as_the_protocol_guide_has_it() -> None:
    message = definitions().message("FetchRequest", 6)
    assert message is not None
    assert grammar(message, 6) == [
        "Fetch Request (Version: 6) => replica_id max_wait_ms min_bytes max_bytes isolation_level [topics]",
        "  replica_id => INT32",
        "  max_wait_ms => INT32",
        "  min_bytes => INT32",
        "  max_bytes => INT32",
        "  isolation_level => INT8",
        "  topics => topic [partitions]",
        "    topic => STRING",
        "    partitions => partition fetch_offset log_start_offset partition_max_bytes",
        "      partition => INT32",
        "      fetch_offset => INT64",
        "      log_start_offset => INT64",
        "      partition_max_bytes => INT32",
    ]


@pytest.mark.parametrize(
    ("numbers", "every", "text"),
    [
        ([0, 1, 2], [0, 1, 2], "0+"),
        ([2], [0, 1, 2], "2+"),
        ([0, 2], [0, 1, 2], "0, 2+"),
        ([0, 1], [0, 1, 2], "0-1"),
        ([], [0], ""),
    ],
)
def test_versions_in_words(numbers: list[int], every: list[int], text: str) -> None:
    assert since(numbers, every) == text


def test_runs() -> None:
    assert runs([0, 1, 3]) == [(0, 1), (3, 3)]
    assert ranges([0, 1, 3]) == "0-1, 3"
