"""Makes facts of administrators' requests: deletions, configurations, ACLs, quotas, unclean elections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, listed
from kproxy.captures.findings.facts import Fact

UNCLEAN: Final = 1
"""The election type in an ElectLeaders request that allows an unclean leader, which may lack records."""
RESOURCES: Final = {2: "topic", 4: "broker", 8: "logger", 16: "client metrics", 32: "group"}
"""Types of resources that have a configuration: the values of Kafka's `ConfigResource.Type`."""
NAMES: Final = 20
"""Maximum number of affected names that one fact lists."""


class Change(NamedTuple):
    """A kind of change: its effect in words, and a function that lists what a request affects (empty: no fact)."""

    what: str
    names: Callable[[DecodedExchange], Iterable[str]]


def _deleted_topics(decoded: DecodedExchange) -> Iterator[str]:
    yield from map(str, listed(decoded.request, "topicNames"))
    yield from (one.get("name") or decoded.topic(one) for one in listed(decoded.request, "topics"))


def _deleted_records(decoded: DecodedExchange) -> Iterator[str]:
    for topic in listed(decoded.request, "topics"):
        for one in topic.get("partitions") or ():
            offset = one.get("offset", -1)
            yield f"{topic.get('name')}-{one.get('partitionIndex')} up to {'the end' if offset < 0 else offset}"


def _configs(decoded: DecodedExchange) -> Iterator[str]:
    if decoded.request.get("validateOnly"):
        return
    for one in listed(decoded.request, "resources"):
        names = ", ".join(config.get("name") or "" for config in one.get("configs") or ())
        yield f"{RESOURCES.get(one.get('resourceType', 0), 'resource')} {one.get('resourceName')}: {names}"


def _unclean(decoded: DecodedExchange) -> Iterator[str]:
    if decoded.request.get("electionType") == UNCLEAN:
        chosen = listed(decoded.request, "topicPartitions")
        yield from (str(one.get("topic")) for one in chosen)
        if not chosen:
            yield "all partitions without a leader"


def _acls(member: str, resource: str) -> Callable[[DecodedExchange], Iterator[str]]:
    def names(decoded: DecodedExchange) -> Iterator[str]:
        for one in listed(decoded.request, member):
            who = one.get("principal", one.get("principalFilter"))
            yield f"{one.get(resource) or 'any resource'} for {who or 'anybody'}"

    return names


def _quotas(decoded: DecodedExchange) -> Iterator[str]:
    if decoded.request.get("validateOnly"):
        return
    for one in listed(decoded.request, "entries"):
        entity = ", ".join(f"{part.get('entityType')} {part.get('entityName')}" for part in one.get("entity") or ())
        yield f"{entity}: {', '.join(str(op.get('key')) for op in one.get('ops') or ())}"


CHANGES: Final = {
    20: Change("deleted topics", _deleted_topics),
    21: Change("deleted records", _deleted_records),
    30: Change("created ACLs", _acls("creations", "resourceName")),
    31: Change("deleted ACLs", _acls("filters", "resourceNameFilter")),
    33: Change("replaced configurations", _configs),
    42: Change("deleted groups", lambda decoded: map(str, listed(decoded.request, "groupsNames"))),
    43: Change("elected leaders that may lack records", _unclean),
    44: Change("changed configurations", _configs),
    47: Change("deleted committed offsets", lambda decoded: [str(decoded.request.get("groupId"))]),
    49: Change("changed quotas", _quotas),
}
"""Maps the API key of each administrative request that changes something to its kind of change."""


def _read(decoded: DecodedExchange) -> Iterator[Fact]:
    change = CHANGES[decoded.at.key]
    names = tuple(change.names(decoded))
    if names and decoded.answered:
        error = decoded.error or next(iter(decoded.errors), 0)
        yield facts.Administration(decoded.at, change.what, names[:NAMES], len(names), error)


READERS: Final = dict.fromkeys(CHANGES, Reading(frozenset({facts.Administration}), _read))
