"""Filters that follow a connection, partition, key, group or the like, for the thing under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from kproxy.decoders.filters import parse
from kproxy.decoders.filters.values import quote
from kproxy.decoders.schema import api_keys
from kproxy.tui.detail.records import RecordLine

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.tree import Node
    from kproxy.tui.search.clauses import Clause

FOLLOWED: Final[Mapping[str, str]] = {
    "connection": "Connection",
    "partition": "Topic and partition",
    "key": "Record key",
    "group": "Group",
    "txn": "Transaction",
    "producer": "Producer id",
    "client": "Client",
}
"""Kinds of subjects that can be followed, with their titles."""
_FIELDS: Final = {"connection": "connection", "group": "group", "txn": "txn", "client.id": "client"}
PARTITIONS: Final = (
    "request.body.topicData[].partitionData[].index",
    "response.body.responses[].partitionResponses[].index",
    "request.body.topics[].partitions[].partition",
    "request.body.topics[].partitions[].partitionIndex",
    "response.body.responses[].partitions[].partitionIndex",
    "response.body.topics[].partitions[].partitionIndex",
)
"""Paths of partition numbers in requests and responses that produce, fetch and commit."""
PRODUCERS: Final = (
    "request.body.producerId",
    "response.body.producerId",
    "request.body.transactions[].producerId",
    "request.body.markers[].producerId",
    "request.body.topicData[].partitionData[].records.batches[].producerId",
    "response.body.responses[].partitions[].records.batches[].producerId",
)
"""Paths of producer ids in messages."""
_WITH_PRODUCERS: Final = frozenset(
    {
        api_keys.PRODUCE,
        api_keys.FETCH,
        api_keys.INIT_PRODUCER_ID,
        api_keys.ADD_PARTITIONS_TO_TXN,
        api_keys.ADD_OFFSETS_TO_TXN,
        api_keys.END_TXN,
        api_keys.WRITE_TXN_MARKERS,
        api_keys.TXN_OFFSET_COMMIT,
    }
)
"""API keys of messages that may hold producer ids."""
MOST_AROUND: Final = 32
"""Maximum number of children of a field that are inspected."""
_PARTITION_NAMES: Final = frozenset({"index", "partition", "partitionIndex"})


def producer_of(index: IndexReader, number: int, definitions: Definitions) -> int | None:
    """The first producer id in the exchange of an index row, record batches included; None if there is none."""
    row = index.row(number)
    if row.api_key not in _WITH_PRODUCERS or index.protocol(row) is not None:
        return None
    from kproxy.captures.index.exchanges import Exchanges
    from kproxy.decoders.filters import Unavailable
    from kproxy.decoders.filters.bodies import read

    with closing(Exchanges(index, definitions)) as exchanges:
        exchange = exchanges.row(number + 1, row)
        for path in filter(None, (read(name).path for name in PRODUCERS)):
            with suppress(Unavailable):
                for found in exchange.at(path):
                    if isinstance(found, int) and found >= 0:
                        return found
    return None


def filters(
    clauses: Iterable[Clause], node: Node | None, record: RecordLine | None, producer_of: Callable[[], int | None]
) -> dict[str, str]:
    """Display filters that follow the subjects that the arguments determine, by kind of subject (a key of FOLLOWED).

    `clauses` are those of the exchange, `node` and `record` the field and the record under the cursor. `producer_of`
    returns the producer id of the exchange; it is called if `node` and `record` have none.
    """
    found: dict[str, str] = {}
    topic = ""
    for clause in clauses:
        if clause.name in _FIELDS:
            found.setdefault(_FIELDS[clause.name], clause.text)
        if clause.name == "topic":
            topic = topic or clause.text
    partition, producer = _of_node(node)
    if record is not None:
        partition = record.place.partition
        if record.place.topic:
            topic = f"topic == {quote(record.place.topic)}"
        owner = record.batch.header.get("producerId", -1)
        producer = owner if owner >= 0 else producer
    if topic:
        found["partition"] = topic if partition is None else f"{topic} and ({_any(PARTITIONS, partition)})"
    key = next((clause.text for clause in clauses if clause.text.startswith("record.key ==")), "")
    if key:
        found["key"] = f"{topic} and {key}" if topic else key
    if producer is None:
        producer = producer_of()
    if producer is not None:
        found["producer"] = _any(PRODUCERS, producer)
    return {name: found[name] for name in FOLLOWED if name in found and parse(found[name]).expression is not None}


def _any(paths: Iterable[str], value: int) -> str:
    return " or ".join(f"{path} == {value}" for path in paths)


def _of_node(node: Node | None) -> tuple[int | None, int | None]:
    """The partition and the producer id nearest to a field; None for each that is not found.

    Searches the field and its children, then each ancestor and its children; of the root, the children's children.
    """
    partition = producer = None
    while node is not None:
        around = node.children if node.parent is not None else [one for top in node.children for one in top.children]
        for one in (node, *(child for child in around[:MOST_AROUND] if not child.children)):
            if partition is None and one.name in _PARTITION_NAMES and isinstance(one.value, int):
                partition = one.value
            if producer is None and one.name == "producerId" and isinstance(one.value, int) and one.value >= 0:
                producer = one.value
        node = node.parent
    return partition, producer
