"""What messages of a capture tell that later ones leave out: names of topic ids, protocol types of groups.

One object serves all connections of a reading. It learns from bodies in the order in which exchanges complete.
"""

from __future__ import annotations

from typing import Final

from decoders.primitives import Buffer

RESERVED: Final = {bytes(15) + b"\1": "__cluster_metadata"}
"""Names of topics whose id is the same in every cluster (`Uuid.METADATA_TOPIC_ID`)."""

MOST: Final = 100_000
"""Topics, and groups, that are kept: a capture may claim any number of them."""


class Knowledge:
    """Names of topics by id (16 bytes), and protocol types of groups ("consumer", "connect") by group id."""

    def __init__(self) -> None:
        self._topics: dict[bytes, str] = dict(RESERVED)
        self._protocol_types: dict[str, str] = {}

    def learn_topic(self, topic_id: Buffer, name: str) -> None:
        if len(self._topics) < MOST:
            self._topics[bytes(topic_id)] = name

    def learn_protocol_type(self, group: str, protocol_type: str) -> None:
        if len(self._protocol_types) < MOST:
            self._protocol_types[group] = protocol_type

    def topic(self, topic_id: Buffer) -> str | None:
        return self._topics.get(bytes(topic_id))

    def protocol_type(self, group: str) -> str | None:
        return self._protocol_types.get(group)
