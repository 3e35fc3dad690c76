"""Distinguishes APIs that only read from those that change state.

If a request that only reads is answered with an error, it makes no difference whether the broker carried it out.
"""

from __future__ import annotations

from typing import Final

from kproxy.decoders.schema import Definitions

READING: Final = ("Describe", "List", "Get", "Read")
"""Prefixes of the names of APIs that only read."""
ALSO: Final = frozenset(
    {
        "Fetch", "FetchSnapshot", "Metadata", "OffsetFetch", "FindCoordinator", "ApiVersions", "OffsetForLeaderEpoch",
        "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe",
    }
)  # fmt: skip
"""Further APIs that only read. ShareFetch is not one: it acquires records."""


def changes_state(api_key: int, definitions: Definitions) -> bool:
    """Whether requests of this API may change something at the broker; True for an unknown API."""
    name = definitions.api_name(api_key)
    return name is None or not (name.startswith(READING) or name in ALSO)
