"""The canonical form of an exchange: its JSON without what differs from run to run.

Two runs of the same deterministic client have equal canonical exchanges, also against different clusters. `kproxy send
--expect` and `kproxy serve` compare exchanges in this form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Kind(NamedTuple):
    """Fields, by name, whose values differ from run to run.

    A `numbered` kind identifies something: each value becomes the kind's name and a number that counts its values by
    first appearance ("member#1"), so that equal values stay equal. A value of another kind, such as a small counter or
    a time, becomes the kind's name alone, because such values are often equal by chance. With an empty name the field
    is removed. Values in `sentinels`, and negative numbers if `negative_stays`, have a meaning of their own and stay.
    """

    name: str
    fields: frozenset[str]
    numbered: bool = False
    sentinels: frozenset[Any] = frozenset({"", 0})
    negative_stays: bool = True


_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The UUID of zeros, in the form of Kafka's JSON."""

KINDS: Final = (
    Kind("", frozenset({"throttleTimeMs", "crc", "sizeInBytes", "uncompressedSizeInBytes", "errorMessage"})),
    Kind("host", frozenset({"host", "hostName", "v0Host", "clientHost", "clientHostAddress"})),
    Kind("port", frozenset({"port", "v0Port"})),
    Kind(
        "time",
        frozenset(
            {
                "timestamp", "logAppendTimeMs", "baseTimestamp", "maxTimestamp", "maxTimestampMs", "deleteHorizon",
                "issueTimestamp", "issueTimestampMs", "expiryTimestamp", "expiryTimestampMs", "lastTimestamp",
                "commitTimestamp", "lastFetchTimestamp", "lastCaughtUpTimestamp", "transactionStartTimeMs",
                "expireTimestamp",
            }
        ),
    ),
    Kind("producer", frozenset({"producerId", "v3AndBelowProducerId", "ongoingTxnProducerId"}), numbered=True,
         sentinels=frozenset()),
    Kind("producer-epoch", frozenset({"producerEpoch", "v3AndBelowProducerEpoch", "ongoingTxnProducerEpoch"}),
         sentinels=frozenset()),
    Kind("member", frozenset({"memberId", "memberIds", "leader"}), numbered=True),
    Kind("generation", frozenset({"generationId", "generationIdOrMemberEpoch", "memberEpoch", "groupEpoch",
                                  "assignmentEpoch", "generation"})),
    Kind("topic-id", frozenset({"topicId", "topicIds"}), numbered=True, sentinels=frozenset({_NO_ID})),
    Kind("cluster", frozenset({"clusterId"}), numbered=True),
    Kind("session", frozenset({"sessionId"}), numbered=True),
    Kind("session-epoch", frozenset({"sessionEpoch", "shareSessionEpoch"})),
    Kind("leader-epoch", frozenset({"leaderEpoch", "currentLeaderEpoch", "committedLeaderEpoch", "partitionEpoch",
                                    "partitionLeaderEpoch", "lastFetchedEpoch", "lastOffsetEpoch", "offsetEpoch"}),
         sentinels=frozenset(), negative_stays=False),
    Kind("broker-epoch", frozenset({"brokerEpoch", "previousBrokerEpoch", "controllerEpoch", "coordinatorEpoch",
                                    "replicaEpoch", "finalizedFeaturesEpoch"}), sentinels=frozenset()),
    Kind("client-instance", frozenset({"clientInstanceId", "processId", "subscriptionId"}), numbered=True,
         sentinels=frozenset({"", 0, _NO_ID})),
    Kind("directory", frozenset({"replicaDirectoryId", "voterDirectoryId", "candidateDirectoryId", "incarnationId"}),
         numbered=True, sentinels=frozenset({_NO_ID})),
    Kind("token", frozenset({"tokenId", "hmac", "authBytes", "token"}), numbered=False),
)  # fmt: skip
"""All fields that differ from run to run. docs/faults.md lists them."""

IN_ORDER: Final = frozenset({"batches", "records", "headers", "abortedTransactions"})
"""Names of lists of objects whose order has a meaning. All other lists of objects are sorted, because brokers return
them in the order of hash tables.
"""

_BY_FIELD: Final = {name: kind for kind in KINDS for name in kind.fields}


class Canonical:
    """Makes the canonical forms of the exchanges of one run, in their order; it numbers the values of identifiers."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[Any, int]] = {}

    def exchange(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical form of an exchange in the form of the exchange JSON (`kproxy.exchange/1`)."""
        request, response = (line.get(side) for side in ("request", "response"))
        return {
            "api": line["api"],
            "api_version": line["api_version"],
            "client_id": line["client_id"],
            "request": None if request is None else self.body(request["body"]),
            "response": None if response is None else self.body(response["body"]),
        }

    def body(self, body: Any) -> Any:
        """The canonical form of a body in its JSON form."""
        return self._numbered("", sorted_body(body))

    def _numbered(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._numbered(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._numbered(name, one) for one in value]
        kind = kind_of(name, value)
        if kind is None or not kind.numbered:
            return value if kind is None else kind.name
        numbers = self._numbers.setdefault(kind.name, {})
        return f"{kind.name}#{numbers.setdefault(value, len(numbers) + 1)}"


def sorted_body(body: Any) -> Any:
    """A body in its JSON form with its lists in canonical order, without the fields that are removed."""
    return _sorted("", body)[1]


def blank(body: Any) -> str:
    """The canonical form of a body as text, with identifiers of one kind all alike."""
    return _sorted("", body)[0]


def kind_of(name: str, value: Any) -> Kind | None:
    """The kind that replaces a plain value of a field; None if the value stays."""
    kind = _BY_FIELD.get(name)
    if kind is None or value is None or isinstance(value, list | Mapping) or value in kind.sentinels:
        return None
    if isinstance(value, int) and value < 0 and kind.negative_stays:
        return None
    if name == "leader" and not isinstance(value, str):
        return None  # a node id, which stays; only in JoinGroup is the leader a member id
    return kind


def _sorted(name: str, value: Any) -> tuple[str, Any]:
    """(text to sort by, the value with its lists sorted and without removed fields).

    In the text, identifiers of one kind are alike, so that it does not depend on numbers.
    """
    if isinstance(value, Mapping):
        fields = {
            key: _sorted(key, one)
            for key, one in value.items()
            if not (key in _BY_FIELD and not _BY_FIELD[key].name) and not (key == "base64" and "decoded" in value)
        }
        text = ",".join(f"{key}:{inner}" for key, (inner, _) in sorted(fields.items()))
        return f"{{{text}}}", {key: one for key, (_, one) in fields.items()}
    if isinstance(value, list):
        elements = [_sorted(name, one) for one in value]
        if name not in IN_ORDER and any(isinstance(one, Mapping) for one in value):
            elements.sort(key=lambda element: element[0])
        return f"[{','.join(text for text, _ in elements)}]", [one for _, one in elements]
    kind = kind_of(name, value)
    return json.dumps(value if kind is None else kind.name), value
