"""Remembers all partitions of Fetch sessions (KIP-227); a Fetch in a session names only those that change."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from kproxy.core.verdict import Parties

MOST: Final = 1000
"""Maximum number of connections whose sessions are kept."""
MOST_PARTITIONS: Final = 100_000
"""Maximum number of partitions that are kept of all sessions; the oldest sessions are forgotten first."""

_Partitions = dict[tuple[object, int], tuple[dict[str, Any], dict[str, Any]]]
"""The (topic, partition) structs of a session's requests, by topic name or id and partition number."""


class Sessions:
    """The partitions of the Fetch session of each open connection."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Parties, _Partitions] = WeakKeyDictionary()
        self._size = 0
        """Number of partitions that are kept; those of ended connections are included until `_keep` counts again."""

    def whole(self, connection: Parties, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a Fetch request, completed by the partitions of its session; `body` itself without one."""
        epoch = body.get("sessionEpoch", -1)
        before = self._known.pop(connection, {})
        self._size -= len(before)
        if epoch < 0:
            return body
        known: _Partitions = before if epoch > 0 else {}
        for topic in body.get("topics") or ():
            for partition in topic["partitions"]:
                known[_topic(topic), partition["partition"]] = (topic, partition)
        for topic in body.get("forgottenTopicsData") or ():
            for number in topic["partitions"]:
                known.pop((_topic(topic), number), None)
        self._keep(connection, known)
        if epoch == 0:
            return body
        topics: dict[object, dict[str, Any]] = {}
        for (name, _), (topic, partition) in known.items():
            topics.setdefault(name, {**topic, "partitions": []})["partitions"].append(partition)
        return {**body, "topics": list(topics.values())}

    def _keep(self, connection: Parties, partitions: _Partitions) -> None:
        self._known[connection] = partitions
        self._size += len(partitions)
        if self._size > MOST_PARTITIONS:
            self._size = sum(map(len, self._known.values()))
        while len(self._known) > MOST or self._size > MOST_PARTITIONS:
            self._size -= len(self._known.pop(next(iter(self._known))))


def _topic(topic: dict[str, Any]) -> object:
    named = topic.get("topic")
    return named if named is not None else bytes(topic["topicId"])
