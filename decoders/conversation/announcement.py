"""Kafka told by the answering side alone, where a capture holds nothing of the asking side.

An ApiVersions response that lists a broker's APIs is believed, as a direction's first frame: nearly every client asks
for it first, and nothing else looks like it. Frames that follow each other length by length, with correlation ids that
rise one by one, are no proof: ZooKeeper's replies do the same (length, xid, zxid, error), and stand beside Kafka's in
many captures. So clients before 0.10, and captures that begin later, are told only on a port that the user named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kproxy.decoders.conversation.recognition import API_VERSIONS, Known, unfit
from kproxy.decoders.conversation.stream import Event, Run, Source
from kproxy.decoders.conversation.stretch import Stretch
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema.lookup import Definitions

FEWEST_APIS = 8
LONGEST = 1 << 16
"""Bytes of the response; each API that it lists takes seven at most, each feature some forty."""
METADATA = 3
FRAMES = 3
"""How many must follow each other to be believed, on a port that the user named."""
LOOKED_AT = 1 << 20
"""Bytes among which these are looked for."""


def announces_kafka(events: Iterable[Event], source: Source, definitions: Definitions, known_apis: Known) -> bool:
    """Whether the answering side's `events` begin with a whole ApiVersions response that lists a broker's APIs."""
    stretch = _beginning(events, source, LONGEST)
    if stretch is None:
        return False
    start = stretch.start
    size = 4 + int.from_bytes(stretch.gather(start, 4), "big")
    if not 16 < size <= min(LONGEST, stretch.end - start):
        return False
    frame = stretch.gather(start, size)
    low, high = known_apis.versions[API_VERSIONS]
    return any(_lists_apis(frame, version, definitions) for version in range(high, low - 1, -1))


def frames_follow(events: Iterable[Event], source: Source, limit: int) -> bool:
    """Whether the answering side's `events` begin with frames of at most `limit` bytes, length by length.

    FRAMES of them are believed, or fewer that end where the bytes end.
    """
    stretch = _beginning(events, source, LOOKED_AT)
    if stretch is None:
        return False
    position, count = stretch.start, 0
    while count < FRAMES and position < stretch.end:
        size = int.from_bytes(stretch.gather(position, 4), "big", signed=True)
        if not 4 <= size <= limit:
            return False
        position += 4 + size
        count += 1
    return count == FRAMES or position == stretch.end


def _beginning(events: Iterable[Event], source: Source, enough: int) -> Stretch | None:
    """The first bytes of a direction, up to what is missing or until there are `enough`; None where there are none."""
    stretch: Stretch | None = None
    for event in events:
        if not isinstance(event, Run):
            break
        if stretch is None:
            stretch = Stretch(source, event.start)
        stretch.extend(event)
        if stretch.end - stretch.start >= enough:
            break
    return stretch


def _lists_apis(frame: bytes, version: int, definitions: Definitions) -> bool:
    decoded = decode_response(frame, API_VERSIONS, version, definitions)
    if decoded.body is None or unfit(decoded, len(frame)) is not None or decoded.body["errorCode"]:
        return False
    listed: list[dict[str, Any]] = decoded.body["apiKeys"] or []
    ranges = {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in listed}
    return (
        FEWEST_APIS <= len(ranges) == len(listed)
        and {METADATA, API_VERSIONS} <= ranges.keys()
        and all(key >= 0 and 0 <= lowest <= highest for key, (lowest, highest) in ranges.items())
    )
