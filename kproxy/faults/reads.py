"""Which APIs only read, so that a client cannot tell whether the broker has done what it answers with an error."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.schema import Definitions

READING: Final = ("Describe", "List", "Get", "Read")
"""Beginnings of the names of APIs that read."""
ALSO: Final = frozenset(
    {
        "Fetch", "FetchSnapshot", "Metadata", "OffsetFetch", "FindCoordinator", "ApiVersions", "OffsetForLeaderEpoch",
        "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe",
    }
)  # fmt: skip
"""Further APIs that read. ShareFetch is not one: it acquires records."""


def changes_state(api_key: int, definitions: Definitions) -> bool:
    """Whether requests of this API may change something at the broker; True for an unknown API."""
    name = definitions.api_name(api_key)
    return name is None or not (name.startswith(READING) or name in ALSO)
