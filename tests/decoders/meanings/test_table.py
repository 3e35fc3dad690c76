"""Every row is about a field in Kafka's definitions, and every error has advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from kproxy.decoders.batches import batch as batches
from kproxy.decoders.meanings import errors as advice
from kproxy.decoders.meanings.records import BATCH
from kproxy.decoders.meanings.row import Row
from kproxy.decoders.meanings.table import ROWS, field_help, meaning, node_help, node_meaning
from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.errors import all_errors
from kproxy.decoders.schema.model import ALWAYS, Field, Message, Versions
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.writer import write

LONGEST = 200


def fields(message: Message, version: int) -> Iterator[tuple[str, Field]]:
    """Every field of a message in a version, by path without indexes."""

    def below(some: tuple[Field, ...], above: str) -> Iterator[tuple[str, Field]]:
        for field in some:
            if version not in field.versions:
                continue
            path = above + field.name
            yield path, field
            if field.struct is not None:
                yield from below(field.struct.fields, path + ("[]." if field.array else "."))
            elif field.array:
                yield path + "[]", field

    yield "", Field(message.name, message.name)
    yield from below(message.fields, "")


def everything() -> dict[str, dict[int, dict[str, Field]]]:
    """Fields by message, version and path; of both layouts if a version has two."""
    found: dict[str, dict[int, dict[str, Field]]] = {}
    for message in definitions().messages():
        for version in range(message.versions.low, message.versions.high + 1):
            found.setdefault(message.name, {}).setdefault(version, {}).update(fields(message, version))
    return found


KNOWN = everything()
ROW_IDS = [f"{row.messages.split()[0]} {row.path} {row.versions}" for row in ROWS]


def has(paths: dict[str, Field], pattern: str) -> bool:
    if pattern.startswith("*."):
        return any(path.rpartition(".")[2] == pattern[2:] for path in paths)
    return pattern in paths


@pytest.mark.parametrize("row", ROWS, ids=ROW_IDS)
def test_a_row_s_field_is_in_the_definitions(row: Row) -> None:
    if row.messages == BATCH:
        header = batches.parse(v2_batch()).batches[0].header
        assert row.path.removeprefix("*.") in {*header, "attributes", "deleteHorizon"}
        return
    names = KNOWN if row.messages == "*" else row.messages.split()
    holders = []
    for name in names:
        assert name in KNOWN, name
        if row.versions:
            stated = Versions.parse(row.versions)
            covered = [version for version in KNOWN[name] if version in stated]
            assert covered, f"{name} has none of the versions {row.versions}"
            assert stated.high == ALWAYS.high or stated.high in KNOWN[name]
            missing = [version for version in covered if not has(KNOWN[name][version], row.path)]
            assert not missing, f"{name} has no {row.path} in versions {missing}"
        if any(has(paths, row.path) for paths in KNOWN[name].values()):
            holders.append(name)
    assert holders if row.messages == "*" else holders == names


@pytest.mark.parametrize("row", ROWS, ids=ROW_IDS)
def test_a_row_is_found_and_its_values_have_the_field_s_type(row: Row) -> None:
    for name in () if row.messages in {"*", BATCH} else row.messages.split():
        for version, paths in KNOWN[name].items():
            if row.versions and version not in Versions.parse(row.versions):
                continue
            for path, field in paths.items():
                if path != row.path and not (row.path.startswith("*.") and path.rpartition(".")[2] == row.path[2:]):
                    continue
                if row.help:
                    assert field_help(name, path, version)
                for value in row.values:
                    if isinstance(value, int):
                        assert field.type.startswith(("int", "uint", "bool")), (name, path)
                        assert meaning(name, path, version, value), (name, path, value)
                    elif isinstance(value, str):
                        assert field.type == "string"
                    elif isinstance(value, bytes):
                        assert field.type == "uuid"


def test_there_are_enough_rows_and_each_says_something() -> None:
    assert len({(message, row.path) for row in ROWS for message in row.messages.split()}) > 120
    assert all(row.help or row.values or row.read for row in ROWS)
    keys = [
        (message, row.path, row.versions, value)
        for row in ROWS
        for message in row.messages.split()
        for value in (*row.values, *(["help"] if row.help else []))
    ]
    assert [key for key, count in Counter(keys).items() if count > 1] == []


def texts() -> list[str]:
    """Texts of all rows; an enumeration shared by rows counts once."""
    enumerations = {tuple(row.values.items()) for row in ROWS}
    values = [text for items in enumerations for _, text in items]
    return [*filter(None, (row.help for row in ROWS)), *values, *advice.ADVICE.values()]


def test_texts_are_short_and_no_two_are_the_same() -> None:
    assert [text for text in texts() if len(text) > LONGEST] == []
    assert [text for text, count in Counter(texts()).items() if count > 1] == []
    assert [text for text in texts() if text != text.strip() or "\n" in text] == []


def test_every_error_has_its_advice() -> None:
    assert set(advice.ADVICE) == set(all_errors()) - {0}


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        (6, "Retriable after new metadata. "),
        (14, "Retriable. "),
        (27, "Not retriable. "),
    ],
)
def test_an_error_says_whether_to_try_again(code: int, begins: str) -> None:
    text = meaning("HeartbeatResponse", "errorCode", 4, code)
    assert text is not None
    assert text.startswith(begins)


def test_an_error_tells_its_earlier_names() -> None:
    text = meaning("ProduceResponse", "responses[0].partitionResponses[3].errorCode", 3, 6)
    assert text is not None
    assert text.endswith("Earlier names: NOT_LEADER_FOR_PARTITION.")
    assert meaning("ProduceResponse", "responses[0].partitionResponses[3].errorCode", 3, 12345) is None


@pytest.mark.parametrize(
    ("message", "path", "version", "value", "says"),
    [
        ("ProduceRequest", "acks", 3, 0, "no response ever comes"),
        ("ProduceRequest", "acks", 0, 2, "error 21"),
        ("ProduceRequest", "acks", 13, -1, "min.insync.replicas"),
        ("FetchRequest", "replicaId", 4, -1, "a consumer"),
        ("FetchRequest", "replicaId", 4, 3, "a follower"),
        ("FetchRequest", "replicaId", 4, -2, "debugging"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 1, -1, "latest"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 6, -3, "no release gives this number"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 7, -3, "greatest timestamp"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 10, -6, "no release gives this number"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 11, -6, "waits for its upload"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 0, 1_700_000_000_000, "segments"),
        ("ListOffsetsRequest", "topics[1].partitions[0].timestamp", 1, 1_700_000_000_000, "or later"),
        ("MetadataRequest", "topics", 0, [], "all topics"),
        ("MetadataRequest", "topics", 1, [], "no topics"),
        ("MetadataRequest", "topics", 1, None, "all topics"),
        ("MetadataRequest", "topics", 12, None, "every topic"),
        ("MetadataResponse", "topics[0].partitions[0].leaderId", 9, -1, "neither written nor read"),
        ("MetadataResponse", "topics[0].topicAuthorizedOperations", 9, -(2**31), "were not requested"),
        ("MetadataResponse", "topics[0].topicAuthorizedOperations", 9, 0b1_0000_1000, "May: read, describe"),
        ("OffsetFetchResponse", "topics[0].partitions[0].errorCode", 0, 3, "ZooKeeper"),
        ("OffsetFetchResponse", "topics[0].partitions[0].errorCode", 1, 3, "after new metadata"),
        ("OffsetFetchResponse", "groups[0].topics[0].partitions[0].committedOffset", 8, -1, "auto.offset.reset"),
        ("OffsetCommitRequest", "topics[0].partitions[0].commitTimestamp", 1, -1, "receives the commit"),
        ("OffsetCommitRequest", "generationIdOrMemberEpoch", 2, -1, "empty member id"),
        ("JoinGroupRequest", "memberId", 4, "", "a first join"),
        ("JoinGroupResponse", "members", 4, [], "a follower"),
        ("SyncGroupRequest", "assignments", 4, [], "a follower"),
        ("FindCoordinatorRequest", "keyType", 1, 1, "transactional id"),
        ("ShareFetchRequest", "topics[0].partitions[0].acknowledgementBatches[0].acknowledgeTypes[0]", 1, 3, "reject"),
        ("MetadataRequest", "topics[0].topicId", 12, memoryview(bytes(16)), "the name identifies the topic"),
        (BATCH, "attributes", 2, 4 | 16 | 32, "zstd, transactional, control"),
    ],
)
def test_meaning(message: str, path: str, version: int, value: object, says: str) -> None:
    text = meaning(message, path, version, value)
    assert text is not None
    assert says in text


@pytest.mark.parametrize(
    ("message", "path", "version", "value"),
    [
        ("FetchRequest", "replicaState.replicaId", 15, -7),
        ("MetadataRequest", "topics", 1, ["a"]),
        ("JoinGroupRequest", "memberId", 4, "consumer-1"),
        ("NoSuchRequest", "nothing", 0, 0),
        ("NoSuchRequest", "", 0, None),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_say(message: str, path: str, version: int, value: object) -> None:
    assert meaning(message, path, version, value) is None


def test_help_depends_on_the_version() -> None:
    before, after = field_help("MetadataRequest", "topics", 3), field_help("MetadataRequest", "topics", 4)
    assert before is not None
    assert after is not None
    assert "always creates missing" in before
    assert "allowAutoTopicCreation" in after
    assert "ZooKeeper" in (field_help("OffsetCommitRequest", "", 0) or "")
    assert field_help("OffsetCommitRequest", "", 1) is None
    assert field_help("ProduceRequest", "timeoutMs", 3) != field_help("CreateTopicsRequest", "timeoutMs", 3)


def test_nodes() -> None:
    message = definitions().request(3, 1)
    assert message is not None
    for topics, says in ((None, "all topics"), ([], "no topics"), ([{"name": "a"}], None)):
        data = write(message, 1, {"topics": topics})
        (node,) = tree(message, 1, data, 0, len(data)).children
        text = node_meaning(node, 1)
        assert (text is None) if says is None else text is not None and says in text
        assert "Topics to describe" in (node_help(node, 1) or "")
        assert [node_meaning(below, 1) for below in node.children] == [None] * (node.value or 0)


def v2_batch() -> bytes:
    return bytes.fromhex("000000000000000000000031ffffffff02000000000000") + bytes(4 + 8 + 8 + 8 + 2 + 4 + 4)


def test_nodes_inside_a_batch_are_found_by_their_place_in_it() -> None:
    root = Node("body", "FetchResponse", 0)
    above = root
    for name, type_ in (("records", "records"), ("batches", "[]batch"), ("[3]", "batch"), ("attributes", "int16")):
        above = Node(name, type_, 0, above)
    above.value = 17
    assert node_meaning(above, 12) == "gzip, transactional"
    bit = Node("isControl", "bool", 0, above)
    bit.value = True
    assert node_meaning(bit, 12) == "markers, which consumers never see"
