"""The text in the topic/group/transaction column of an exchange: by API, the fields that give it.

"orders.v1-3 +2" is a topic-partition and two more, "9 topics" topics without partitions, "g:billing" a group, "t:pay-7
commit" a transactional id. Fields have the JSON names of Kafka's message definitions; if an API's fields differ between
versions, all of them are listed, and missing ones are ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.plurals import counted

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Shows the values at `path` ("groups[].groupId"): the first one, and how many others there are.

    `words` maps values to texts; values that it lacks are not shown.
    """

    path: str
    prefix: str = ""
    words: Mapping[Any, str] | None = None

    def render(self, body: Body, _known: Knowledge) -> str:
        values = [value for value in _at(body, self.path) if value is not None and value != ""]
        if self.words is not None:
            values = [self.words[value] for value in values if value in self.words]
        if not values:
            return ""
        return f"{self.prefix}{values[0]}" + (f" +{len(values) - 1}" if len(values) > 1 else "")


@dataclass(frozen=True, slots=True)
class Topics:
    """Shows the topics in the list at `path`, with their partitions if the list has them."""

    path: str

    def render(self, body: Body, known: Knowledge) -> str:
        topics = [element for element in _at(body, self.path + "[]") if isinstance(element, dict | str)]
        partitions = 0
        first = ""
        for element in topics:
            if isinstance(element, str):
                first = first or element
                continue
            name = topic_name(element, known)
            listed = _partitions(element)
            partitions += len(listed)
            first = first or (f"{name}-{listed[0]}" if listed else name)
        if not first or (not partitions and len(topics) == 1):
            return first
        if not partitions:
            return f"{counted(len(topics), 'topic')}"
        return first + (f" +{partitions - 1}" if partitions > 1 else "")


@dataclass(frozen=True, slots=True)
class Typed:
    """Shows the values at `paths` with a prefix that depends on field `by`; versions without that field get the first
    prefix.
    """

    paths: tuple[str, ...]
    by: str
    prefixes: Mapping[int, str]

    def render(self, body: Body, known: Knowledge) -> str:
        kind = body.get(self.by, next(iter(self.prefixes)))
        prefix = self.prefixes.get(kind, f"{kind}:")
        return next((text for path in self.paths if (text := Text(path, prefix).render(body, known))), "")


Part = Text | Topics | Typed

GROUP = Text("groupId", "g:")
TXN = Text("transactionalId", "t:")

REQUEST: Mapping[str, tuple[Part, ...]] = {
    "Produce": (Topics("topicData"),),
    "Fetch": (Topics("topics"),),
    "FindCoordinator": (Typed(("key", "coordinatorKeys[]"), "keyType", {0: "g:", 1: "t:", 2: "share:"}),),
    "OffsetFetch": (GROUP, Text("groups[].groupId", "g:")),
    "OffsetCommit": (GROUP,),
    "OffsetDelete": (GROUP,),
    "DescribeGroups": (Text("groups[]", "g:"),),
    "DeleteGroups": (Text("groupsNames[]", "g:"),),
    "SaslHandshake": (Text("mechanism"),),
    "ApiVersions": (Text("clientSoftwareName"), Text("clientSoftwareVersion")),
    "AddPartitionsToTxn": (
        Text("v3AndBelowTransactionalId", "t:"),
        Topics("v3AndBelowTopics"),
        Text("transactions[].transactionalId", "t:"),
        Topics("transactions[].topics"),
    ),
    "AddOffsetsToTxn": (TXN, GROUP),
    "EndTxn": (TXN, Text("committed", words={True: "commit", False: "abort"})),
    "TxnOffsetCommit": (TXN, GROUP),
    "WriteTxnMarkers": (Topics("markers[].topics"),),
    "DescribeConfigs": (Text("resources[].resourceName"),),
    "AlterConfigs": (Text("resources[].resourceName"),),
    "IncrementalAlterConfigs": (Text("resources[].resourceName"),),
}
"""By API, what is shown of a request; `_generic` handles all other APIs."""

RESPONSE: Mapping[str, tuple[Part, ...]] = {
    "Fetch": (Topics("responses"),),
    "ShareFetch": (Topics("responses"),),
    "Metadata": (Topics("topics"),),
}
"""By API, what is shown of a response if the request shows nothing (incremental Fetch, Metadata for all topics)."""

_GENERIC: tuple[Part, ...] = (
    TXN,
    GROUP,
    Text("groups[].groupId", "g:"),
    Text("groupIds[]", "g:"),
    Text("transactionalIds[]", "t:"),
)
_TOPIC_LISTS = ("topics", "topicStates", "topicData", "responses", "topicNames", "ungroupedPartitionStates")
_NAMES = ("name", "topic", "topicName")
_PARTITION_LISTS = ("partitions", "partitionData", "partitionStates", "partitionIndexes", "partitionIds")
_INDEXES = ("index", "partition", "partitionIndex", "partitionId")


def label(api: str, request: Body | None, response: Body | None, known: Knowledge) -> str:
    """The column's text for an exchange; "" if there is none. `api` is the newest name of its API ("Fetch")."""
    text = ""
    if request is not None:
        parts = REQUEST.get(api)
        text = _join(parts, request, known) if parts is not None else _generic(request, known)
    if not text and response is not None and api in RESPONSE:
        text = _join(RESPONSE[api], response, known)
    return text


def topic_id(value: Any) -> bytes | None:
    """The 16 bytes of a topic id; None for the zero id and for other values."""
    if value is None or isinstance(value, str | int):
        return None
    raw = bytes(value)
    return raw if len(raw) == 16 and any(raw) else None


def id_text(raw: bytes) -> str:
    """A UUID as Kafka prints it: base64url, 22 characters."""
    return base64.urlsafe_b64encode(raw)[:22].decode()


def _join(parts: tuple[Part, ...], body: Body, known: Knowledge) -> str:
    if len(parts) == 1:
        return parts[0].render(body, known)
    return " ".join(text for part in parts if (text := part.render(body, known)))


def _generic(body: Body, known: Knowledge) -> str:
    text = _join(_GENERIC, body, known)
    if text:
        return text
    return next((text for path in _TOPIC_LISTS if (text := Topics(path).render(body, known))), "")


def topic_name(element: Body, known: Knowledge) -> str:
    """The name of the topic in an element of a list; its id in Kafka's text form if the name is unknown."""
    for key in _NAMES:
        value = element.get(key)
        if isinstance(value, str) and value:
            return value
    raw = topic_id(element.get("topicId"))
    return "" if raw is None else known.topic(raw) or id_text(raw)


def _partitions(element: Body) -> list[int]:
    for key in _PARTITION_LISTS:
        listed = element.get(key)
        if isinstance(listed, list):
            return [number for entry in listed if (number := _index(entry)) is not None]
    number = _index(element)
    return [] if number is None else [number]


def _index(entry: Any) -> int | None:
    if isinstance(entry, int):
        return entry
    if isinstance(entry, dict):
        for key in _INDEXES:
            if isinstance(number := entry.get(key), int):
                return number
    return None


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[tuple[str, bool], ...]:
    """A dotted path as steps: (name, whether the next step applies to each element of a list)."""
    return tuple((step.removesuffix("[]"), step.endswith("[]")) for step in path.split("."))


def _at(body: Any, path: str) -> list[Any]:
    """All values at a dotted path; "[]" in it stands for each element of a list."""
    steps = _steps(path)
    if len(steps) == 1 and isinstance(body, dict):
        name, each = steps[0]
        value = body.get(name)
        if each:
            return value if isinstance(value, list) else []
        return [value] if name in body else []
    values = [body]
    for name, each in steps:
        found = [value[name] for value in values if isinstance(value, dict) and name in value]
        values = [element for value in found if isinstance(value, list) for element in value] if each else found
    return values
