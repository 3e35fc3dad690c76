"""Makes facts of administrators' requests: deletions, configurations, ACLs, quotas, unclean elections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, listed

UNCLEAN: Final = 1
"""The election type in an ElectLeaders request that allows an unclean leader, which may lack records."""
RESOURCES: Final = {2: "topic", 4: "broker", 8: "logger", 16: "client metrics", 32: "group"}
"""Types of resources that have a configuration: the values of Kafka's `ConfigResource.Type`."""
NAMES: Final = 20
"""Maximum number of affected names that one fact lists."""


class Change(NamedTuple):
    """A kind of change: its effect in words, and a function that lists what a request affects (empty: no fact)."""

    what: str
    names: Callable[[Said], Iterable[str]]


def _deleted_topics(said: Said) -> Iterator[str]:
    yield from map(str, listed(said.request, "topicNames"))
    yield from (one.get("name") or said.topic(one) for one in listed(said.request, "topics"))


def _deleted_records(said: Said) -> Iterator[str]:
    for topic in listed(said.request, "topics"):
        for one in topic.get("partitions") or ():
            offset = one.get("offset", -1)
            yield f"{topic.get('name')}-{one.get('partitionIndex')} up to {'the end' if offset < 0 else offset}"


def _configs(said: Said) -> Iterator[str]:
    if said.request.get("validateOnly"):
        return
    for one in listed(said.request, "resources"):
        names = ", ".join(config.get("name") or "" for config in one.get("configs") or ())
        yield f"{RESOURCES.get(one.get('resourceType', 0), 'resource')} {one.get('resourceName')}: {names}"


def _unclean(said: Said) -> Iterator[str]:
    if said.request.get("electionType") == UNCLEAN:
        chosen = listed(said.request, "topicPartitions")
        yield from (str(one.get("topic")) for one in chosen)
        if not chosen:
            yield "all partitions without a leader"


def _acls(member: str, resource: str) -> Callable[[Said], Iterator[str]]:
    def names(said: Said) -> Iterator[str]:
        for one in listed(said.request, member):
            who = one.get("principal", one.get("principalFilter"))
            yield f"{one.get(resource) or 'any resource'} for {who or 'anybody'}"

    return names


def _quotas(said: Said) -> Iterator[str]:
    if said.request.get("validateOnly"):
        return
    for one in listed(said.request, "entries"):
        entity = ", ".join(f"{part.get('entityType')} {part.get('entityName')}" for part in one.get("entity") or ())
        yield f"{entity}: {', '.join(str(op.get('key')) for op in one.get('ops') or ())}"


CHANGES: Final = {
    20: Change("deleted topics", _deleted_topics),
    21: Change("deleted records", _deleted_records),
    30: Change("created ACLs", _acls("creations", "resourceName")),
    31: Change("deleted ACLs", _acls("filters", "resourceNameFilter")),
    33: Change("replaced configurations", _configs),
    42: Change("deleted groups", lambda said: map(str, listed(said.request, "groupsNames"))),
    43: Change("elected leaders that may lack records", _unclean),
    44: Change("changed configurations", _configs),
    47: Change("deleted committed offsets", lambda said: [str(said.request.get("groupId"))]),
    49: Change("changed quotas", _quotas),
}
"""Maps the API key of each request that changes something to the kind of its change."""


def _read(said: Said) -> Iterator[Fact]:
    change = CHANGES[said.at.key]
    names = tuple(change.names(said))
    if names and said.answered:
        error = said.error or next(iter(said.errors), 0)
        yield facts.Administration(said.at, change.what, names[:NAMES], len(names), error)


READERS: Final = dict.fromkeys(CHANGES, Reading(frozenset({facts.Administration}), _read))
