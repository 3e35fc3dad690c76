"""Translates words of other filter languages to this one, for hints.

The words come from Wireshark, SQL, Lucene, programming languages, and Kafka's own tools and definitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kproxy.decoders.body_path import ROOTS
from kproxy.decoders.fields import BY_NAME, Type
from kproxy.decoders.filters.language import KEYWORDS, PREFIXES
from kproxy.decoders.filters.values import choices, nearest, quote

FIELDS: Final[Mapping[str, str]] = {
    name: ours
    for ours, names in {
        "api": "api_key api.key apikey api.name request kafka.api_key kafka.api_name",
        "version": "api_version api.version apiversion kafka.api_version",
        "correlation": "correlation_id correlation.id correlationid kafka.correlation_id",
        "client.id": "client_id clientid kafka.client_id",
        "client": "ip.src client.ip client.host client.port client_ip src source",
        "broker": "ip.dst node node.id node_id nodeid broker.id broker_id broker.ip dst server destination",
        "client or broker": "ip addr address host port ip.addr ip.host tcp.port tcp.srcport tcp.dstport",
        "error": "error.code error_code errorcode code kafka.error",
        "error.retriable": "retriable retryable",
        "latency": "duration elapsed took rtt latency_ms response.time",
        "throttle": "throttled throttle_ms throttle.time throttletimems",
        "size": "bytes length len frame.len kafka.len",
        "group": "group.id group_id groupid consumer.group",
        "txn": "txn.id txn_id transaction transactional.id transactional_id transactionalid",
        "topic": "topics topic_name kafka.topic_name",
        "time": "timestamp ts date datetime frame.time",
        "record.key": "key",
        "record.value": "value payload message",
        "record.header": "header headers",
        "record.offset": "offset offsets",
        "a path such as response.body.responses[].partitions[].partitionIndex": "partition partitions partition.id",
    }.items()
    for name in names.split()
}
"""Maps field names of other filter languages to the field of this language, or to words that name an alternative."""

OPERATORS: Final[Mapping[str, str]] = {
    "is": "==", "eq": "==", "equals": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "matches": "~", "like": "~", "contain": "contains", "includes": "contains",
}  # fmt: skip
"""For each operator of another language: this language's operator."""

_NUMBER: Final = re.compile(r"-?[0-9]")


def instead_of_field(word: str) -> str | None:
    """A hint on what to write instead of an unknown field; None if there is none."""
    folded = word.casefold()
    if folded in KEYWORDS or folded in PREFIXES:
        return f"write {folded}, in small letters"
    if folded in FIELDS:
        return f"did you mean {FIELDS[folded]}?"
    if _NUMBER.match(word):
        return "a comparison begins with its field, as in latency > 5ms"
    field, colon, value = word.partition(":")
    if colon and field in BY_NAME:
        return f"write {field} == {quote(value) if value else '…'}"
    if (comparison := comparison_with(word)) is not None:
        return f"write {comparison}"
    head, _, rest = word.partition(".")
    if head == "body":
        return "write " + " or ".join(f"{root}.{rest or '…'}" for root in ROOTS)
    if rest:
        roots = {root.partition(".")[0] for root in ROOTS}
        if (near := nearest(head, roots)) is not None and head not in roots and rest.startswith("body"):
            return f"did you mean {near}.{rest}?"
    near = nearest(word, BY_NAME)
    return None if near is None else f"did you mean {near}?"


def comparison_with(word: str) -> str | None:
    """The comparison with the API or error of this name ("api == Fetch"); None if no API or error has it."""
    for kind in (Type.API, Type.ERROR):
        for name in choices(kind):
            if name.casefold() == word.casefold():
                return f"{kind} == {name}"
    return None


def instead_of_operator(word: str, field: str) -> str | None:
    """A hint on what to write instead of a word that is not an operator; None if there is none."""
    folded = word.casefold()
    if folded in KEYWORDS:
        return f"write {folded}, in small letters"
    if folded in OPERATORS:
        return f"{word!r} is not an operator; write {OPERATORS[folded]}"
    if folded in {"startswith", "endswith"}:
        pattern = '"^…"' if folded == "startswith" else '"…$"'
        return f"{word!r} is not an operator; write {field} ~ {pattern}"
    if folded == "between":
        return f"{word!r} is not an operator; write {field} >= … and {field} <= …"
    return None
