"""Recognises Kafka by responses alone, for captures that hold no bytes of the client's side.

Only one proof is accepted: an ApiVersions response that lists a broker's APIs, as the direction's first frame. Nearly
every client requests it first, and no other protocol's first bytes look like it. A sequence of frames whose lengths and
rising correlation ids fit proves nothing: ZooKeeper's replies look the same (length, xid, zxid, error) and are in many
captures beside Kafka's. Clients before 0.10, and captures that begin later, are therefore recognised only at a port
that the user named (`answers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kproxy.decoders.conversation.recognition import HTTP, Known, is_tls, unfit
from kproxy.decoders.conversation.stretch import Stretch
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Event, Gap, Run, Source

FEWEST_APIS = 8
LONGEST = 1 << 16
"""Maximum size in bytes of an ApiVersions response; each API in it has at most 7 bytes, each feature about 40."""


def answers(events: Sequence[Event], source: Source, limit: int, *, opened: bool) -> bool:
    """Whether the broker side's `events` may be Kafka's, at a port that the user named as Kafka's.

    False if they begin with TLS or HTTP. Also False if the capture holds the connection's beginning (`opened`), and the
    first bytes are not a response of at most `limit` bytes.
    """
    first = events[0] if events else None
    if not isinstance(first, Run):
        return isinstance(first, Gap)
    stretch = Stretch(source, first.start)
    for event in events:
        if not isinstance(event, Run) or stretch.end - first.start >= 8:
            break
        stretch.extend(event)
    head = stretch.gather(first.start, 8)
    if is_tls(head) or head[:4] in HTTP:
        return False
    return not opened or (len(head) == 8 and 4 <= int.from_bytes(head[:4], "big") <= limit)


def announces_kafka(events: Iterable[Event], source: Source, definitions: Definitions, known_apis: Known) -> bool:
    """Whether the broker side's `events` begin with a whole ApiVersions response that lists a broker's APIs."""
    stretch: Stretch | None = None
    for event in events:
        if not isinstance(event, Run):
            break
        if stretch is None:
            stretch = Stretch(source, event.start)
        stretch.extend(event)
        if stretch.end - stretch.start >= LONGEST:
            break
    if stretch is None:
        return False
    start = stretch.start
    size = 4 + int.from_bytes(stretch.gather(start, 4), "big")
    if not 16 < size <= min(LONGEST, stretch.end - start):
        return False
    frame = stretch.gather(start, size)
    low, high = known_apis.versions[api_keys.API_VERSIONS]
    return any(_lists_apis(frame, version, definitions) for version in range(high, low - 1, -1))


def _lists_apis(frame: bytes, version: int, definitions: Definitions) -> bool:
    decoded = decode_response(frame, api_keys.API_VERSIONS, version, definitions)
    if decoded.body is None or unfit(decoded, len(frame)) is not None or decoded.body["errorCode"]:
        return False
    listed: list[dict[str, Any]] = decoded.body["apiKeys"] or []
    ranges = {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in listed}
    return (
        FEWEST_APIS <= len(ranges) == len(listed)
        and {api_keys.METADATA, api_keys.API_VERSIONS} <= ranges.keys()
        and all(key >= 0 and 0 <= lowest <= highest for key, (lowest, highest) in ranges.items())
    )
