"""Makes facts about group members and committed offsets, from requests to the coordinator of a group."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact
from kproxy.decoders.schema import api_keys

LONGEST: Final = 64
"""Maximum length in characters of `Member.subscription` in the protocols of KIP-848."""
_EPOCHS: Final = {68: "consumer", 76: "share", 88: "streams"}
_SUBSCRIPTION: Final = struct.Struct(">hi")
"""Struct of the first fields of a ConsumerProtocolSubscription: version and number of topics."""


def _member(decoded: DecodedExchange, what: str, **more: Any) -> facts.Member:
    asked, answered = decoded.request, decoded.response
    member = asked.get("memberId") or ""
    return facts.Member(
        decoded.at,
        asked.get("groupId") or "",
        more.get("kind", "classic"),
        what,
        member or answered.get("memberId") or "",
        not member,
        more.get("instance", asked.get("groupInstanceId")),
        known(more.get("generation", asked.get("generationId"))),
        more.get("error", decoded.error),
        known(asked.get("sessionTimeoutMs")),
        known(asked.get("rebalanceTimeoutMs")),
        more.get("reason", asked.get("reason")),
        answered.get("protocolName") or asked.get("protocolName") or None,
        answered.get("leader") or None,
        more.get("subscription"),
        decoded.answered,
    )


def _join(decoded: DecodedExchange) -> Iterator[Fact]:
    protocols = listed(decoded.request, "protocols")
    names = ",".join(str(one.get("name")) for one in protocols)
    topics = _subscribed(protocols[0].get("metadata") or b"") if protocols else b""
    yield _member(
        decoded,
        "join",
        generation=decoded.response.get("generationId"),
        subscription=None if topics is None else f"{names} {blake2b(topics, digest_size=8).hexdigest()}",
    )


def _subscribed(metadata: Any) -> bytes | None:
    """The topics in a ConsumerProtocolSubscription, sorted, as bytes; None if it cannot be parsed.

    Owned partitions are left out, because they change with each rebalance.
    """
    data = bytes(metadata)
    if len(data) < _SUBSCRIPTION.size:
        return None
    version, count = _SUBSCRIPTION.unpack_from(data)
    at, names = _SUBSCRIPTION.size, []
    if not 0 <= version <= 9:
        return None
    while count > 0 and at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        names.append(data[at : at + 2 + size])
        at += 2 + size
        count -= 1
    return None if count else b"".join(sorted(names))


def _sync(decoded: DecodedExchange) -> Iterator[Fact]:
    yield _member(decoded, "sync")


def _heartbeat(decoded: DecodedExchange) -> Iterator[Fact]:
    yield _member(decoded, "heartbeat")


def _leave(decoded: DecodedExchange) -> Iterator[Fact]:
    answers = listed(decoded.response, "members")
    for place, one in enumerate(listed(decoded.request, "members") or [decoded.request]):
        error = decoded.error or (answers[place].get("errorCode", 0) if place < len(answers) else 0)
        fact = _member(decoded, "leave", instance=one.get("groupInstanceId"), reason=one.get("reason"), error=error)
        yield fact._replace(member=one.get("memberId") or fact.member)


def _epoch_heartbeat(decoded: DecodedExchange) -> Iterator[Fact]:
    epoch = decoded.request.get("memberEpoch", 0)
    what = "leave" if epoch < 0 else "join" if epoch == 0 else "heartbeat"
    names = decoded.request.get("subscribedTopicNames")
    yield _member(
        decoded,
        what,
        kind=_EPOCHS[decoded.at.key],
        generation=epoch if epoch < 0 else decoded.response.get("memberEpoch", epoch),
        instance=decoded.request.get("instanceId"),
        reason="static" if epoch == -2 else None,
        subscription=None if names is None else ",".join(sorted(map(str, names)))[:LONGEST],
    )


def _commit(decoded: DecodedExchange) -> Iterator[Fact]:
    codes = {
        (decoded.topic(topic), one.get("partitionIndex")): one.get("errorCode", 0)
        for topic in listed(decoded.response, "topics")
        for one in listed(topic, "partitions")
    }
    generation = decoded.request.get("generationIdOrMemberEpoch")
    group, member = decoded.request.get("groupId") or "", decoded.request.get("memberId") or ""
    if member:
        error = next((code for code in codes.values() if code), 0)
        yield _member(decoded, "commit", generation=generation, error=error)
    for topic in listed(decoded.request, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            offset = known(one.get("committedOffset"))
            yield facts.Commit(decoded.at, group, member, name, index, offset, codes.get((name, index), 0))


def _offset_fetch(decoded: DecodedExchange) -> Iterator[Fact]:
    groups = listed(decoded.response, "groups") or [{**decoded.response, "groupId": decoded.request.get("groupId")}]
    for group in groups:
        for topic in listed(group, "topics"):
            name = decoded.topic(topic)
            for one in listed(topic, "partitions"):
                yield facts.Committed(
                    decoded.at, group.get("groupId") or "", name, one.get("partitionIndex", 0),
                    known(one.get("committedOffset")), group.get("errorCode") or one.get("errorCode") or 0,
                )  # fmt: skip


_MEMBER = frozenset({facts.Member})
READERS: Final = {
    api_keys.OFFSET_COMMIT: Reading(frozenset({facts.Member, facts.Commit}), _commit),
    9: Reading(frozenset({facts.Committed}), _offset_fetch),
    api_keys.JOIN_GROUP: Reading(_MEMBER, _join),
    api_keys.HEARTBEAT: Reading(_MEMBER, _heartbeat),
    api_keys.LEAVE_GROUP: Reading(_MEMBER, _leave),
    api_keys.SYNC_GROUP: Reading(_MEMBER, _sync),
    **dict.fromkeys(_EPOCHS, Reading(_MEMBER, _epoch_heartbeat)),
}
