"""The topic that shows whether a client lost or duplicated records. kproxy writes and reads it by its own requests.

The values are the numbers from 0 in decimal digits. Requests go to the cluster directly, so no rule acts on them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kproxy.decoders.schema import definitions
from kproxy.decoders.view import View
from kproxy.runs.settings import upstream
from kproxy.sending.broker import Access, SendError
from kproxy.sending.sender import Request, Sender, from_json

PARTITIONS: Final = 3
BATCH: Final = 10
"""Records in a batch that kproxy writes."""
PATIENCE: Final = 30.0
"""Maximum number of seconds until a new topic has leaders, and until a coordinator answers."""
_PAUSE: Final = 0.1
_LATEST: Final = -1
_COMMIT_MARKER: Final = 1
_HIGHEST: Final = {
    "Metadata": 8, "CreateTopics": 4, "ListOffsets": 2, "Fetch": 11, "Produce": 7, "FindCoordinator": 2,
    "OffsetFetch": 5, "InitProducerId": 1, "AddPartitionsToTxn": 1, "EndTxn": 1,
}  # fmt: skip
"""The highest version of each API that kproxy uses: the versions that name topics, without topic ids."""


class CanaryError(Exception):
    """The cluster does not serve kproxy's own requests as expected; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Written:
    """The content of the topic. `values` are the values of committed records in order, by partition.

    `ends` are the offsets after the last record outside of transactions, by partition.
    """

    values: Mapping[int, list[str]]
    ends: Mapping[int, int] = field(default_factory=dict)


class Canary:
    """A topic of the cluster with these bootstrap servers.

    With `mock`, the cluster is librdkafka's mock, which creates topics when clients ask for them. The mock does not
    compare sequence numbers, so a batch that a producer sends again is in its log twice; `read` ignores the duplicate.
    Use as an asynchronous context manager. Methods raise CanaryError.
    """

    def __init__(self, bootstrap: str, topic: str, *, mock: bool) -> None:
        host, port = upstream(bootstrap)[0]
        self.topic = topic
        self._mock = mock
        self._known = definitions()
        self._keys = {self._known.shown_api_name(key): key for key in self._known.apis}
        self._sender = Sender(host, port, Access(seconds=PATIENCE), self._known, View(show_secrets=True))
        self._served: dict[int, tuple[int, int]] = {}
        self._leaders: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        try:
            self._served = await self._sender.versions()
            await self._sender.learn_cluster()
        except SendError as error:
            raise CanaryError(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sender.close()

    async def create(self) -> None:
        """Creates the topic, and waits until all partitions have leaders."""
        if not self._mock:
            wanted = {"name": self.topic, "numPartitions": PARTITIONS, "replicationFactor": -1}
            body = await self._ask("CreateTopics", {"topics": [wanted], "timeoutMs": 10_000})
            if code := body["topics"][0]["errorCode"]:
                raise CanaryError(f"cannot create the topic {self.topic}: error {code}")
        await self._find_leaders()

    async def _find_leaders(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            asked = {"topics": [{"name": self.topic}], "allowAutoTopicCreation": self._mock}
            (found,) = (await self._ask("Metadata", asked))["topics"]
            leaders = {one["partitionIndex"]: one["leaderId"] for one in found["partitions"]}
            if leaders and not found["errorCode"] and min(leaders.values()) >= 0:
                self._leaders = leaders
                return
            await asyncio.sleep(_PAUSE)
        raise CanaryError(f"the topic {self.topic} has no leaders after {PATIENCE:g} s")

    async def write(self, count: int, *, aborted: bool = False) -> None:
        """Writes `count` records, in batches to the partitions in turn.

        With `aborted`, batches of two aborted transactions precede each batch; the second transaction is aborted before
        the first. Brokers list aborted transactions in the order of their ends, so they list the second one first.
        """
        for turn, first in enumerate(range(0, count, BATCH)):
            partition = turn % PARTITIONS
            values = [str(number) for number in range(first, min(first + BATCH, count))]
            if aborted:
                await self._abort_two(partition)
            await self._produce(partition, {"records": [{"value": value} for value in values]})

    async def _produce(self, partition: int, batch: dict[str, Any], txn: str | None = None) -> None:
        deadline = time.monotonic() + PATIENCE
        data = [{"name": self.topic, "partitionData": [{"index": partition, "records": batch}]}]
        wanted = {"transactionalId": txn, "acks": -1, "timeoutMs": 10_000, "topicData": data}
        while True:
            body = await self._ask("Produce", wanted, self._leaders[partition])
            code = body["responses"][0]["partitionResponses"][0]["errorCode"]
            if not code:
                return
            if time.monotonic() > deadline:
                raise CanaryError(f"cannot write to {self.topic}-{partition}: error {code}")
            await asyncio.sleep(_PAUSE)
            await self._find_leaders()

    async def _abort_two(self, partition: int) -> None:
        """Writes a record in each of two transactions, and aborts the one that began last first."""
        begun = [await self._begin(f"{self.topic}-{name}", partition) for name in ("first", "second")]
        for node, named in reversed(begun):
            await self._retried("EndTxn", {**named, "committed": False}, node, lambda body: body["errorCode"])

    async def _begin(self, txn: str, partition: int) -> tuple[int, dict[str, Any]]:
        """Writes a record in a new transaction; returns (its coordinator, its ids as EndTxn takes them)."""
        node = await self._coordinator(txn, 1)
        wanted = {"transactionalId": txn, "transactionTimeoutMs": 10_000}
        given = await self._retried("InitProducerId", wanted, node, lambda body: body["errorCode"])
        ids = {"producerId": given["producerId"], "producerEpoch": given["producerEpoch"]}
        added = {
            "v3AndBelowTransactionalId": txn,
            "v3AndBelowProducerId": ids["producerId"],
            "v3AndBelowProducerEpoch": ids["producerEpoch"],
            "v3AndBelowTopics": [{"name": self.topic, "partitions": [partition]}],
        }
        await self._retried(
            "AddPartitionsToTxn",
            added,
            node,
            lambda body: body["resultsByTopicV3AndBelow"][0]["resultsByPartition"][0]["partitionErrorCode"],
        )
        batch = {"records": [{"value": "aborted"}], "baseSequence": 0, "isTransactional": True, **ids}
        await self._produce(partition, batch, txn)
        return node, {"transactionalId": txn, **ids}

    async def _coordinator(self, key: str, kind: int) -> int:
        body = await self._retried("FindCoordinator", {"key": key, "keyType": kind}, None, lambda one: one["errorCode"])
        return int(body["nodeId"])

    async def _retried(self, api: str, body: Any, node: int | None, code: Any) -> dict[str, Any]:
        """The first answer without an error; asks repeatedly, for PATIENCE seconds. Raises CanaryError."""
        deadline = time.monotonic() + PATIENCE
        while code(answer := await self._ask(api, body, node)):
            if time.monotonic() > deadline:
                raise CanaryError(f"{api} gets the error {code(answer)}")
            await asyncio.sleep(_PAUSE)
        return answer

    async def read(self) -> Written:
        """The present content of the topic."""
        await self._find_leaders()
        values: dict[int, list[str]] = {}
        ends: dict[int, int] = {}
        for partition, leader in self._leaders.items():
            end = await self._end(partition, leader)
            values[partition], ends[partition] = await self._read(partition, leader, end)
        return Written(values, ends)

    async def _end(self, partition: int, leader: int) -> int:
        one = {"partitionIndex": partition, "timestamp": _LATEST}
        wanted = {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": self.topic, "partitions": [one]}]}
        (found,) = (await self._ask("ListOffsets", wanted, leader))["topics"][0]["partitions"]
        if found["errorCode"]:
            raise CanaryError(f"cannot ask for the end of {self.topic}-{partition}: error {found['errorCode']}")
        return int(found["offset"])

    async def _read(self, partition: int, leader: int, end: int) -> tuple[list[str], int]:
        """The values up to the offset `end`, and the offset after the last record outside of transactions."""
        at = plain_end = 0
        values: list[str] = []
        undecided: defaultdict[int, list[str]] = defaultdict(list)
        sequences: set[tuple[int, int, int]] = set()
        while at < end:
            one = {"partition": partition, "fetchOffset": at, "partitionMaxBytes": 1 << 20}
            topics = [{"topic": self.topic, "partitions": [one]}]
            body = await self._ask("Fetch", {"maxWaitMs": 100, "minBytes": 1, "topics": topics}, leader)
            (found,) = body["responses"][0]["partitions"]
            batches = (found["records"] or {}).get("batches") or []
            if found["errorCode"] or not batches:
                raise CanaryError(f"cannot read {self.topic}-{partition} at offset {at}: error {found['errorCode']}")
            for batch in batches:
                at = batch["baseOffset"] + batch["lastOffsetDelta"] + 1
                if not batch["isTransactional"]:
                    plain_end = at
                self._take(batch, values, undecided, sequences)
        return values, plain_end

    def _take(
        self,
        batch: dict[str, Any],
        values: list[str],
        undecided: dict[int, list[str]],
        sequences: set[tuple[int, int, int]],
    ) -> None:
        """Adds a batch's values to `values`; those of a transaction wait in `undecided` for its commit marker.

        With `mock`, ignores a batch whose sequence number was there before.
        """
        producer = batch["producerId"]
        if batch["isControl"]:
            of_transaction = undecided.pop(producer, [])
            if batch["records"][0]["key"]["decoded"]["type"] == _COMMIT_MARKER:
                values += of_transaction
            return
        sequence = producer, batch["producerEpoch"], batch["baseSequence"]
        if self._mock and producer >= 0:
            if sequence in sequences:
                return
            sequences.add(sequence)
        given = [str(record["value"]) for record in batch["records"]]
        (undecided[producer] if batch["isTransactional"] else values).extend(given)

    async def committed(self, group: str) -> dict[int, int]:
        """The offsets that a group has committed, by partition; -1 for none."""
        node = await self._coordinator(group, 0)
        topics = [{"name": self.topic, "partitionIndexes": sorted(self._leaders)}]
        body = await self._retried(
            "OffsetFetch", {"groupId": group, "topics": topics}, node, lambda one: one.get("errorCode", 0)
        )
        return {one["partitionIndex"]: one["committedOffset"] for one in body["topics"][0]["partitions"]}

    async def _ask(self, api: str, body: Any, node: int | None = None) -> dict[str, Any]:
        key = self._keys[api]
        low, high = self._served.get(key, (0, -1))
        version = min(high, _HIGHEST[api])
        if version < low:
            raise CanaryError(f"the cluster does not serve {api} in a version up to {_HIGHEST[api]}")
        values = from_json(self._known, key, version, body)
        connection = 0 if node is None else 1 + node
        line = await self._sender.send(Request(key, version, values, "kproxy-torture", connection, node))
        if line["response"] is None:
            raise CanaryError(str(line["reason"]))
        found: dict[str, Any] = line["response"]["body"]
        return found
