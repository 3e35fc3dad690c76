"""Fetch sessions (KIP-227): a Fetch in a session names only partitions that change; this knows all of them."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 1000
"""Maximum number of connections whose sessions are kept."""
MOST_PARTITIONS: Final = 10_000
"""Maximum number of partitions that are kept of one session."""

_Key = tuple[object, int]


class Sessions:
    """The partitions of the Fetch session of each connection, by the connection's number."""

    def __init__(self) -> None:
        self._known: dict[int, dict[_Key, tuple[dict[str, Any], dict[str, Any]]]] = {}

    def whole(self, connection: int, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a Fetch request with all partitions that it asks for; `body` itself outside of a session."""
        epoch = body.get("sessionEpoch", -1)
        known: dict[_Key, tuple[dict[str, Any], dict[str, Any]]] = {}
        if epoch > 0:
            known = self._known.get(connection, {})
        for topic in body.get("topics") or ():
            for partition in topic["partitions"]:
                known[_topic(topic), partition["partition"]] = (topic, partition)
        for topic in body.get("forgottenTopicsData") or ():
            for number in topic["partitions"]:
                known.pop((_topic(topic), number), None)
        if epoch < 0:
            self._known.pop(connection, None)
            return body
        if len(known) <= MOST_PARTITIONS:
            self._known.pop(connection, None)
            self._known[connection] = known
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]
        if epoch == 0:
            return body
        topics: dict[object, dict[str, Any]] = {}
        for (name, _), (topic, partition) in known.items():
            topics.setdefault(name, {**topic, "partitions": []})["partitions"].append(partition)
        return {**body, "topics": list(topics.values())}


def _topic(topic: dict[str, Any]) -> object:
    named = topic.get("topic")
    return named if named is not None else bytes(topic["topicId"])
