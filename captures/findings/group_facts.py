"""Makes facts of the assignments of consumer group members, and of the features that a cluster has finalized."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading
from kproxy.captures.findings.facts import Fact
from kproxy.decoders.schema import api_keys

CONSUMERS: Final = "consumer"
"""Protocol type of consumer groups. Members of Kafka Connect ("connect") are assigned no partitions."""
MEMBERS: Final = 1_000
"""Maximum number of members of one assignment for which facts are made."""
PARTITIONS: Final = 1_000_000
"""Maximum plausible number of partitions of a member; assignments with more are ignored."""
_HEAD: Final = struct.Struct(">hi")
"""Struct of the first fields of a ConsumerProtocolAssignment: its version and its number of topics."""
_SIZE: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")


def _sync(decoded: DecodedExchange) -> Iterator[Fact]:
    """Makes facts of a leader's SyncGroup. Only the leader's request has assignments: those of all members."""
    asked, group = decoded.request, decoded.request.get("groupId") or ""
    plan = asked.get("assignments") or ()
    kind = asked.get("protocolType") or decoded.knowledge.protocol_type(group)
    if not plan or decoded.error or not decoded.answered or kind not in {CONSUMERS, None}:
        return
    protocol = asked.get("protocolName") or decoded.knowledge.protocol(group)
    counted = [
        (one.get("memberId") or "", number_of_partitions(one.get("assignment") or b"")) for one in plan[:MEMBERS]
    ]
    if any(number is None for _, number in counted):
        return
    for member, number in counted:
        yield facts.Assigned(
            decoded.at, group, "classic", member, asked.get("generationId"), number or 0, protocol, len(plan)
        )


def number_of_partitions(assignment: Any) -> int | None:
    """The number of partitions in a ConsumerProtocolAssignment; 0 if it is empty, None if it cannot be parsed."""
    data = bytes(assignment)
    if not data:
        return 0
    if len(data) < _HEAD.size:
        return None
    version, topics = _HEAD.unpack_from(data)
    if not 0 <= version <= 9 or topics < 0:
        return None
    at = _HEAD.size
    found = 0
    for _ in range(topics):
        if at + _SIZE.size > len(data):
            return None
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size + size
        if size < 0 or at + _COUNT.size > len(data):
            return None
        (number,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size + 4 * number
        if number < 0 or at > len(data):
            return None
        found += number
    return found if found <= PARTITIONS else None


def _heartbeat(decoded: DecodedExchange) -> Iterator[Fact]:
    """Makes a fact of a ConsumerGroupHeartbeat response that has an assignment, as it does after each change."""
    assignment, asked = decoded.response.get("assignment"), decoded.request
    if assignment is None or decoded.error or asked.get("memberEpoch", 0) < 0:
        return
    number = sum(len(one.get("partitions") or ()) for one in assignment.get("topicPartitions") or ())
    member = asked.get("memberId") or decoded.response.get("memberId") or ""
    yield facts.Assigned(
        decoded.at,
        asked.get("groupId") or "",
        "consumer",
        member,
        decoded.response.get("memberEpoch"),
        number,
        None,
        None,
    )


def _features(decoded: DecodedExchange) -> Iterator[Fact]:
    for one in decoded.response.get("finalizedFeatures") or ():
        yield facts.Finalized(decoded.at, one.get("name") or "", one.get("maxVersionLevel", 0))


_ASSIGNED: Final = frozenset({facts.Assigned})
READERS: Final = {
    api_keys.SYNC_GROUP: Reading(_ASSIGNED, _sync),
    68: Reading(_ASSIGNED, _heartbeat),
    api_keys.API_VERSIONS: Reading(frozenset({facts.Finalized}), _features),
}
