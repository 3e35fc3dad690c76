"""The upgrade audit: which clients would be cut off by a release of Kafka or by another cluster, and who they are.

A version of an API is judged by what the release serves (`decoders.schema.served`), or by the other cluster's
ApiVersions responses. A client that is not in the capture may still exist: `watched` says how long and how much was
captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kproxy.captures.analysis.seen import Decoder, Seen, Values
from kproxy.captures.bodies import Bodies
from kproxy.captures.tables.places import parts
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.exchange_json import health_json, timestamp
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.schema.apis import all_apis
from kproxy.decoders.schema.model import NEVER, Versions
from kproxy.decoders.schema.served import Served, all_served, produce_floor, refused_by
from kproxy.decoders.stream import Source

MOST_CLIENTS: Final = 10_000
MOST_USES: Final = 256
"""Maximum number of (API, version) pairs of one client."""
MOST_USES_IN_ALL: Final = 200_000
MOST_NAMES: Final = 100
"""Maximum number of groups, and of topics, of one client."""
MOST_NAMES_IN_ALL: Final = 200_000
MOST_BROKERS: Final = 1_000
MOST_SESSIONS: Final = 100_000
"""Maximum number of connections whose principal is remembered."""
FEW: Final = 8
"""Maximum number of principals and of programs of one client, and of brokers of one use."""
DAY_IN_MINUTES: Final = 24 * 60
SECOND: Final = 1_000_000_000
NEWEST_MAGIC: Final = 2


class Verdict(StrEnum):
    """The effect of an upgrade on a use of an API, worst first.

    CUT_OFF: the version is refused. UNSURE: the version is refused, but the client may be able to use another one.
    DEPRECATED: the version is served, but deprecated. BROKER: one of these applies, but the sender is a broker, which
    is upgraded with the cluster.
    """

    CUT_OFF = "cut-off"
    UNSURE = "unsure"
    DEPRECATED = "deprecated"
    BROKER = "broker"


LOSES: Final = {
    0: "writing to topics",
    1: "reading from topics",
    2: "looking up offsets",
    8: "committing offsets",
    9: "reading committed offsets",
    11: "joining groups",
    19: "creating topics",
    20: "deleting topics",
    23: "detecting truncated logs",
    27: "ending transactions",
    29: "listing ACLs",
    30: "creating ACLs",
    31: "deleting ACLs",
    32: "reading configurations",
    34: "moving logs between directories",
    35: "listing log directories",
    38: "creating delegation tokens",
    39: "renewing delegation tokens",
    40: "ending delegation tokens",
    41: "listing delegation tokens",
    56: "changing in-sync replicas",
}
"""By API key, what a client can no longer do if the API is refused; `LOSES_BY_CLASS` has the other APIs."""
LOSES_BY_CLASS: Final = {
    "core": "reading and writing",
    "group": "its groups",
    "transaction": "transactions and idempotent writes",
    "admin": "administration",
    "security": "logging in, or administration of access",
    "control": "control between brokers",
    "quorum": "the controllers' quorum",
    "share": "share groups",
    "streams": "Streams groups",
    "telemetry": "client metrics",
}
BETWEEN_BROKERS: Final = frozenset({api_keys.WRITE_TXN_MARKERS, 52, 53, 54, api_keys.FETCH_SNAPSHOT, 82})
"""Keys of requests that only brokers and controllers send, in addition to those of the class "control"."""
OF_CLIENTS: Final = frozenset({api_keys.PRODUCE, api_keys.OFFSET_COMMIT, api_keys.JOIN_GROUP})
"""Keys of requests that no broker sends: the sender is a client, whatever replica id it gives."""


@dataclass(slots=True, eq=False)
class Use:
    """The use of one version of an API by a client.

    `first` and `last` are times in ns since the epoch, `exchange` is the first exchange's number. `formats` counts
    batches in the old message formats 0 and 1, by format.
    """

    count: int = 0
    first: int = 0
    last: int = 0
    exchange: int = 0
    brokers: set[str] = field(default_factory=set)
    formats: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class Client:
    """A client id at a host.

    `broker`: whether it sent a request that only brokers send (`judge` decides whether it is one). `negotiates`:
    whether it sent ApiVersions. `began`: whether one of its connections began in the capture, so that an ApiVersions
    request would have been captured.
    """

    host: str
    client_id: str
    principals: set[str] = field(default_factory=set)
    software: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    more_names: bool = False
    negotiates: bool = False
    began: bool = False
    broker: bool = False
    uses: dict[tuple[int, int], Use] = field(default_factory=dict)


class Offers:
    """The versions that the brokers in a capture offer in their ApiVersions responses."""

    def __init__(self) -> None:
        self._brokers: dict[str, dict[int, Versions]] = {}

    def add(self, seen: Seen) -> None:
        if seen.key != api_keys.API_VERSIONS or not seen.response.get("apiKeys"):
            return
        broker = seen.exchange.connection.broker
        if broker in self._brokers or len(self._brokers) < MOST_BROKERS:
            offered = self._brokers.setdefault(broker, {})
            for one in seen.response["apiKeys"]:
                versions = Versions(one["minVersion"], one["maxVersion"])
                if versions.low >= 0 and versions and one["apiKey"] in all_apis():
                    offered[one["apiKey"]] = versions

    def highest(self, brokers: Iterable[str], key: int) -> int | None:
        """The highest version of an API that one of these brokers offers; None if none is known to offer the API."""
        found = [self._brokers[one][key].high for one in brokers if key in self._brokers.get(one, ())]
        return max(found, default=None)

    def together(self, name: str) -> Served | None:
        """The versions that all captured offers of brokers have in common, as a release `name`; None without an offer.

        Offers without Metadata are ignored: they come from controllers, or from brokers that refused the version of
        ApiVersions.
        """
        brokers = [offered for offered in self._brokers.values() if api_keys.METADATA in offered]
        if not brokers:
            return None
        common = {}
        for key in set.intersection(*(set(offered) for offered in brokers)):
            ranges = [offered[key] for offered in brokers]
            versions = Versions(max(one.low for one in ranges), min(one.high for one in ranges))
            if key == api_keys.PRODUCE and versions:
                versions = Versions(produce_floor(versions), versions.high)
            if versions:
                common[key] = versions
        return Served(name, common)


class Watched:
    """How long, and how much of, the traffic was captured."""

    def __init__(self) -> None:
        self.first = self.last = 0
        self.exchanges = self.orphans = self.unanswered = self.encrypted = 0
        self._minutes: set[int] = set()

    def add(self, exchange: Exchange) -> None:
        self.exchanges += 1
        self.orphans += exchange.status is Status.ORPHAN_RESPONSE
        self.unanswered += exchange.status is Status.NO_RESPONSE
        self.encrypted += exchange.status is Status.TLS
        for frame in (exchange.request, exchange.response):
            if frame is not None:
                self.first = min(self.first or frame.time, frame.time)
                self.last = max(self.last, frame.time)
                self._minutes.add(frame.time // (60 * SECOND) % DAY_IN_MINUTES)

    def line(self) -> dict[str, Any]:
        return {
            "from": timestamp(self.first, 9) if self.first else None,
            "to": timestamp(self.last, 9) if self.last else None,
            "seconds": round((self.last - self.first) / SECOND, 3),
            "share_of_day": round(len(self._minutes) / DAY_IN_MINUTES, 4),
            "exchanges": self.exchanges,
            "without_request": self.orphans,
            "without_response": self.unanswered,
            "encrypted": self.encrypted,
        }


class Audit:
    """Collects clients and the versions that they use; memory is bounded, and what is left out is counted."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        """`health`, if given, counts undecodable frames."""
        self.offers = Offers()
        self._watched = Watched()
        self._definitions = definitions
        self._decoder = Decoder(source, definitions, health)
        self._source = source
        self._clients: dict[tuple[str, str], Client] = {}
        self._sessions: dict[int, str] = {}
        self._uses = self._names = 0
        self._left_out: Counter[str] = Counter(clients=0, versions=0, names=0)

    @property
    def knowledge(self) -> Knowledge:
        return self._decoder.knowledge

    def learn(self, exchange: Exchange) -> None:
        """Take only the offered versions and the client's negotiation from an exchange; the exchange is not judged."""
        if exchange.api_key == api_keys.API_VERSIONS and exchange.protocol is None:
            seen = self._decoder.of(exchange)
            if seen is not None:
                self.offers.add(seen)
                self._identify(seen)

    def add(self, exchange: Exchange) -> None:
        """Take a complete exchange into account. Never raises on bad bytes."""
        self._watched.add(exchange)
        bodies = Bodies(exchange, self._source, self._definitions)
        seen = self._decoder.of(exchange, bodies)
        if seen is None:
            return
        self.offers.add(seen)
        client = self._identify(seen)
        if client is None or exchange.api_version is None:
            return
        use = client.uses.get((seen.key, exchange.api_version))
        if use is None:
            if len(client.uses) >= MOST_USES or self._uses >= MOST_USES_IN_ALL:
                self._left_out["versions"] += 1
                return
            self._uses += 1
            use = client.uses[seen.key, exchange.api_version] = Use(first=seen.time, exchange=seen.number)
        use.count += 1
        use.first = min(use.first, seen.time)
        use.last = max(use.last, seen.time)
        if len(use.brokers) < FEW:
            use.brokers.add(exchange.connection.broker)
        if client.client_id and _is_of_a_broker(seen):
            client.broker = True
        if seen.key in {api_keys.PRODUCE, api_keys.FETCH}:
            use.formats.update(old_formats(seen))
        self._name(client, client.groups, _groups(seen))
        self._name(client, client.topics, _topics(bodies, self.knowledge))

    def result(self, target: Served) -> dict[str, Any]:
        """The JSON object "kproxy.audit/1", without its health; `target` is the release or the other cluster."""
        rows = sorted(self._rows(target), key=_rank)
        counts = Counter(row["verdict"] for row in rows)
        released = target in all_served()
        return {
            "schema": "kproxy.audit/1",
            "target": target.release if released else None,
            "against": None if released else target.release,
            "watched": self._watched.line(),
            "clients": len(self._clients),
            "verdicts": {verdict.value: counts[verdict] for verdict in Verdict},
            "left_out": dict(self._left_out),
            "rows": rows,
        }

    def _rows(self, target: Served) -> Iterator[dict[str, Any]]:
        for client in self._clients.values():
            for (key, version), use in client.uses.items():
                offered = self.offers.highest(use.brokers, key)
                found = judge(client, key, version, use, target, offered)
                if found is not None:
                    yield self._row(client, key, version, use, target, offered, *found)

    def _row(
        self,
        client: Client,
        key: int,
        version: int,
        use: Use,
        target: Served,
        offered: int | None,
        verdict: Verdict,
        why: str,
    ) -> dict[str, Any]:
        return {
            "verdict": verdict.value,
            "why": why,
            "loses": _loses(key),
            "host": client.host,
            "client_id": client.client_id,
            "principals": sorted(client.principals),
            "software": sorted(client.software),
            "negotiates": _negotiates(client),
            "api": self._definitions.shown_api_name(key),
            "api_key": key,
            "version": version,
            "served": str(target.versions[key]) if key in target.versions else None,
            "offered_highest": offered,
            "refused_by": list(refused_by(key, version)),
            "message_formats": sorted(use.formats),
            "count": use.count,
            "first": timestamp(use.first, 9),
            "last": timestamp(use.last, 9),
            "first_exchange": use.exchange,
            "groups": sorted(client.groups),
            "topics": sorted(client.topics),
            "more_names": client.more_names,
        }

    def _identify(self, seen: Seen) -> Client | None:
        """The client of an exchange, updated from the exchange; None if the maximum number of clients is reached."""
        exchange = seen.exchange
        number = exchange.connection.number
        if (
            exchange.session is not None
            and exchange.session.principal
            and (number in self._sessions or len(self._sessions) < MOST_SESSIONS)
        ):
            self._sessions[number] = exchange.session.principal
        key = (seen.client.host, seen.client.client_id)
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._left_out["clients"] += 1
                return None
            client = self._clients[key] = Client(*key)
        client.negotiates = client.negotiates or seen.key == api_keys.API_VERSIONS
        client.began = client.began or exchange.connection.opened is True
        _add(client.principals, self._sessions.get(number))
        _add(client.software, seen.client.software)
        return client

    def _name(self, client: Client, names: set[str], found: Iterable[str]) -> None:
        for name in found:
            if name in names:
                continue
            if len(names) >= MOST_NAMES or self._names >= MOST_NAMES_IN_ALL:
                client.more_names = True
                self._left_out["names"] += 1
            else:
                names.add(name)
                self._names += 1


def judge(
    client: Client, key: int, version: int, use: Use, target: Served, offered: int | None
) -> tuple[Verdict, str] | None:
    """(verdict, reason) on a version of an API that a client uses; None if the upgrade does not affect this use.

    `offered` is the highest version that the client's present brokers offer. A client that negotiates and uses this
    version may support higher ones; a client that uses a lower version supports none above that. ApiVersions is never
    refused (KIP-511). APIs that Kafka does not define are not judged.
    """
    if key == api_keys.API_VERSIONS or key not in all_apis():
        return None
    found = _judge(client, key, version, use, target, offered)
    of_client = any(key in OF_CLIENTS for key, _ in client.uses)
    if found is not None and (_between_brokers(key) or (client.broker and not of_client)):
        return Verdict.BROKER, found[1]
    return found


def _judge(
    client: Client, key: int, version: int, use: Use, target: Served, offered: int | None
) -> tuple[Verdict, str] | None:
    name, known = target.release, target.versions.get(key)
    if (key, version) in target:
        return _served(client, key, version, use, target)
    if known is None:
        if _class(key) == "telemetry":
            return None  # clients send these requests only where they are offered, and work without them
        return Verdict.CUT_OFF, f"{name} does not serve this API"
    negotiates = _negotiates(client)
    if version > known.high:
        if negotiates is not False:
            return None
        return Verdict.CUT_OFF, f"{name} serves no version above {known.high}, and the client does not negotiate"
    why = f"{name} serves no version below {known.low}"
    if negotiates is False:
        return Verdict.CUT_OFF, f"{why}, and the client does not negotiate"
    if offered is not None and offered > version:
        return Verdict.CUT_OFF, f"{why}, and the client uses no higher version although its broker offers {offered}"
    if negotiates is None:
        return Verdict.UNSURE, f"{why}; no connection of the client began in the capture, so it may negotiate"
    if offered is None:
        return Verdict.UNSURE, f"{why}; the client negotiates, but the capture does not show what its broker offers"
    return Verdict.UNSURE, f"{why}; the client negotiates, and its broker offers no version above {offered}"


def _negotiates(client: Client) -> bool | None:
    """Whether a client asks brokers for their versions; None if it may have done so before the capture began."""
    return True if client.negotiates else False if client.began else None


def _served(client: Client, key: int, version: int, use: Use, target: Served) -> tuple[Verdict, str] | None:
    name = target.release
    if version in target.unstable.get(key, NEVER):
        if _negotiates(client) is not False and target.stable(key):
            return None
        return Verdict.UNSURE, f"{name} serves this version only with unstable.api.versions.enable (early access)"
    if version in target.deprecated.get(key, NEVER):
        return Verdict.DEPRECATED, f"{name} marks this version as deprecated"
    if refusing := refused_by(key, version):
        return Verdict.DEPRECATED, f"{name} serves this version, Kafka {_between(refusing)} does not"
    if use.formats:
        return Verdict.DEPRECATED, "messages are in an old format"
    return None


def _between(releases: tuple[str, ...]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def old_formats(seen: Seen) -> Iterator[int]:
    """The magic of each batch in a Produce request or Fetch response that has an old message format (0 or 1)."""
    if seen.key == api_keys.PRODUCE:
        topics, partitions = seen.request.get("topicData"), "partitionData"
    else:
        topics, partitions = seen.response.get("responses"), "partitions"
    for topic in topics or ():
        for partition in topic.get(partitions) or ():
            if records := partition.get("records"):
                yield from _old_magics(records)


def _old_magics(records: Buffer) -> Iterator[int]:
    """The magic of each batch in a records field that is in an older format than the newest.

    In every format, a batch has its length at byte 8 and its magic at byte 16.
    """
    at = 0
    while at + 17 <= len(records):
        size, magic = int.from_bytes(records[at + 8 : at + 12]), records[at + 16]
        if magic < NEWEST_MAGIC:
            yield magic
        at += 12 + size


def _is_of_a_broker(seen: Seen) -> bool:
    state = seen.request.get("replicaState") or {}
    return _between_brokers(seen.key) or seen.request.get("replicaId", -1) >= 0 or state.get("replicaId", -1) >= 0


def _between_brokers(key: int) -> bool:
    return key in BETWEEN_BROKERS or _class(key) == "control"


def _class(key: int) -> str:
    api = all_apis().get(key)
    return "" if api is None else api.klass


def _loses(key: int) -> str:
    return LOSES.get(key) or LOSES_BY_CLASS.get(_class(key), "")


def _groups(seen: Seen) -> Iterator[str]:
    request: Values = seen.request
    if isinstance(name := request.get("groupId"), str) and name:
        yield name
    for group in request.get("groups") or ():
        name = group.get("groupId") if isinstance(group, dict) else group
        if isinstance(name, str) and name:
            yield name


def _topics(bodies: Bodies, knowledge: Knowledge) -> Iterator[str]:
    """The topics that a request names, by name or id; a response may name topics that the client does not use."""
    decoded = bodies.request
    if decoded is None or decoded.body is None or decoded.message is None:
        return
    learn_both(bodies.request, bodies.response, knowledge)
    for topic, topic_id, *_ in parts(decoded.body, decoded.message, decoded.version, len):
        if name := topic or (topic_id and knowledge.topic(topic_id)):
            yield name
        elif topic_id:
            yield uuid_json(topic_id)


def _add(some: set[str], one: str | None) -> None:
    if one and len(some) < FEW:
        some.add(one)


def _rank(row: dict[str, Any]) -> tuple[Any, ...]:
    order = [verdict.value for verdict in Verdict].index(row["verdict"])
    return order, row["host"], row["client_id"], row["api_key"], row["version"]


def with_health(result: dict[str, Any], health: Health) -> dict[str, Any]:
    return {**result, "health": health_json(health)}
