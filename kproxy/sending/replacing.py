"""Replaces ids and counters that the recorded cluster assigned by those that another cluster assigns.

`REPLACED` says how each kind of value of `kproxy.decoders.canonical` is treated in requests that are sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.writing import with_producer
from kproxy.decoders.canonical import kind_of, sorted_body
from kproxy.decoders.jsonform import uuid_bytes, uuid_json

REPLACED: Final[Mapping[str, str]] = {
    "producer": "by the id that the cluster gave for the same InitProducerId, in record batches as well",
    "producer-epoch": "by the epoch that came with the producer id",
    "member": "by the member id that the cluster gave for the same JoinGroup",
    "generation": "by the generation or member epoch that came with the member id",
    "topic-id": "by the id of the topic with the same name",
    "session": "by the session id of the same Fetch; a Fetch of a session that began earlier is sent without session",
    "leader-epoch": "by -1 (unknown), which every broker accepts",
    "cluster": "by the cluster's own id",
}
"""How values of each kind are replaced. Others are sent as they were recorded."""

_OWNERS: Final = {"producer-epoch": "producer", "generation": "member"}
"""Counters that belong to an identifier in the same struct."""


class Replacements:
    """Maps values of the recording (ids, epochs, counters) to the values that the cluster gave out in their place."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, Any], Any] = {}
        self._counters: dict[tuple[str, Any], int] = {}
        """For each counter, its present value minus the recorded one: clients increment both in the same way."""

    def topic_id(self, recorded: str, given: str) -> None:
        """Let `given` replace the topic id `recorded`; both are written as in the exchange JSON."""
        self._ids["topic-id", recorded] = given

    def learn(self, recorded: Any, given: Any) -> None:
        """Learn replacements from the recorded and the new body of a response, both as in the exchange JSON."""
        for old, new in _structs(sorted_body(recorded), sorted_body(given)):
            owners = {}
            for name, value in old.items():
                kind = kind_of(name, value)
                if kind is None or name not in new or kind.name not in REPLACED:
                    continue
                if kind.numbered:
                    if kind_of(name, new[name]) is not None:
                        self._ids[kind.name, value] = new[name]
                    owners[kind.name] = value
            for name, value in old.items():
                kind = kind_of(name, value)
                owner = None if kind is None else owners.get(_OWNERS.get(kind.name, ""))
                if kind is not None and owner is not None and isinstance(new.get(name), int):
                    self._counters[kind.name, owner] = new[name] - value

    def applied(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The decoded values of a recorded request, with the replacements in them."""
        owners = {}
        for name, value in values.items():
            kind = kind_of(name, value)
            if kind is not None and kind.numbered:
                owners[kind.name] = value
        new = {name: self._value(name, value, owners) for name, value in values.items()}
        session = values.get("sessionId")
        if session and ("session", session) not in self._ids:
            new |= {"sessionId": 0, "sessionEpoch": -1}
        return new

    def _value(self, name: str, value: Any, owners: Mapping[str, Any]) -> Any:
        if isinstance(value, Mapping):
            return self.applied(value)
        if isinstance(value, list):
            return [self._value(name, one, owners) for one in value]
        if name == "records" and isinstance(value, bytes | memoryview):
            return self._records(bytes(value))
        if isinstance(value, bytes | memoryview):
            shown = uuid_json(value) if len(value) == 16 else None
            given = self._ids.get(("topic-id", shown)) if kind_of(name, shown) is not None else None
            return value if given is None else uuid_bytes(given)
        kind = kind_of(name, value)
        if kind is None:
            return value
        if kind.name == "leader-epoch":
            return -1
        if kind.numbered:
            return self._ids.get((kind.name, value), value)
        owner = _OWNERS.get(kind.name)
        return value if owner is None else value + self._counters.get((kind.name, owners.get(owner)), 0)

    def _records(self, records: bytes) -> bytes:
        parts = []
        at = 0
        for batch in parse(records, check=False).batches:
            data = records[batch.start : batch.end]
            producer = batch.header.get("producerId", -1)
            given = self._ids.get(("producer", producer))
            if given is not None:
                epoch = batch.header["producerEpoch"] + self._counters.get(("producer-epoch", producer), 0)
                data = with_producer(data, given, epoch)
            parts.append(data)
            at = batch.end
        return b"".join(parts) + records[at:]


def _structs(old: Any, new: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The pairs of structs at the same places of two bodies."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield old, new
        for name in old.keys() & new.keys():
            yield from _structs(old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list):
        for first, second in zip(old, new, strict=False):
            yield from _structs(first, second)
