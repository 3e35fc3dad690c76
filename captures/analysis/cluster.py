"""The cluster's control plane over time: brokers, controllers, leaders and ISRs, topics, reassignments.

Sources: Metadata, the control requests between brokers (keys 4 to 7), AlterPartition, requests of admin clients, and
the records of `__cluster_metadata` that brokers fetch from the controllers (KRaft).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kproxy.captures.analysis.leaderless import DELETED, NOBODY
from kproxy.captures.analysis.offsets import over_time
from kproxy.captures.analysis.seen import Seen, Values
from kproxy.captures.analysis.topics import fetch_role
from kproxy.captures.analysis.traffic import Traffic
from kproxy.captures.lag import Lag
from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import api_keys

METADATA_TOPIC: Final = "__cluster_metadata"
EVENTS: Final = 100_000
"""Maximum number of events; later ones are only counted."""
MOST: Final = 200_000
"""Maximum number of partitions whose state is tracked."""
_LEADERLESS: Final = {NOBODY: "has no leader", DELETED: "is being deleted"}


@dataclass(slots=True, eq=False)
class Event:
    """One change in the cluster.

    `about` names a topic, a topic-partition or a broker; "" stands for the cluster. `source` is the message that shows
    the change.
    """

    time: int
    exchange: int
    kind: str
    about: str
    text: str
    source: str

    def line(self) -> dict[str, Any]:
        return {
            "time": timestamp(self.time, 9),
            "exchange": self.exchange,
            "kind": self.kind,
            "about": self.about,
            "text": self.text,
            "source": self.source,
        }


@dataclass(slots=True, eq=False)
class Partition:
    """The latest known state of a partition; a member is None until a message has shown its value."""

    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    offline: tuple[int, ...] | None = None
    """Replicas that are offline, by the latest Metadata response; brokers before 1.0 do not tell."""
    moving: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """(replicas that the reassignment adds, replicas that it removes)."""

    def line(self) -> dict[str, Any]:
        lacking = None if self.isr is None or self.replicas is None else len(self.replicas) - len(self.isr)
        return {
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "replicas": self.replicas,
            "isr": self.isr,
            "offline": self.offline,
            "under_replicated": None if lacking is None else lacking > 0,
        }


@dataclass(slots=True, eq=False)
class Broker:
    """A broker, as Metadata or the controller describes it."""

    node_id: int
    address: str
    rack: str | None = None


class Cluster:
    """Collects the state and the events of the control plane from exchanges."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.cluster_id: str | None = None
        self.controller: tuple[int, int] | None = None
        """(id, epoch) of the current controller; the epoch is -1 if only Metadata named the controller."""
        self.events: list[Event] = []
        self.more_events = 0
        self.partitions: dict[tuple[str, int], Partition] = {}
        self._metadata_controller: int | None = None
        self._topics: set[str] = set()
        self._names: dict[str, str] = {}
        """Names of topics by their ids, from metadata records."""
        self._read = -1
        """Offset up to which the metadata log was read. Several followers fetch the same records; each is used once."""
        self.fetches: Counter[str] = Counter()
        """Number of Fetch requests by the sender's role: "follower", "consumer" or "debugging"."""
        self._lag = Lag()
        self._traffic = Traffic()

    def add(self, seen: Seen) -> None:
        self._lag, self._traffic = seen.lag, seen.traffic
        match seen.key:
            case 1:
                self.fetches[fetch_role(seen)[0]] += 1
                self._metadata_log(seen)
            case 3:
                self._metadata(seen)
            case 4 | 5 | 6:
                self._control(seen)
            case 7:
                node = seen.request.get("brokerId")
                self._event(seen, "broker", f"broker {node}", f"broker {node} asks to shut down", "ControlledShutdown")
            case 19 | 20 | 37 | 45 | 43:
                self._admin(seen)
            case 56:
                self._alter_partition(seen)

    def lines(self) -> Iterator[dict[str, Any]]:
        yield {
            "schema": "kproxy.cluster/1",
            "cluster_id": self.cluster_id,
            "controller": None if self.controller is None else self.controller[0],
            "controller_epoch": None if self.controller is None or self.controller[1] < 0 else self.controller[1],
            "brokers": [
                {"node_id": one.node_id, "address": one.address, "rack": one.rack}
                for one in sorted(self.brokers.values(), key=lambda one: one.node_id)
            ],
            "fetches": dict(sorted(self.fetches.items())),
            "more_events": self.more_events,
        }
        for event in sorted(self.events, key=lambda event: (event.time, event.exchange)):
            yield {"schema": "kproxy.cluster_event/1", **event.line()}
        yield from self._partitions()

    def _partitions(self) -> Iterator[dict[str, Any]]:
        """The partitions that messages describe or clients use, with their traffic and changes."""
        changes: dict[str, list[dict[str, Any]]] = {}
        for event in self.events:
            changes.setdefault(event.about, []).append(event.line())
        for topic, number in sorted({*self.partitions, *self._traffic}):
            yield {
                "schema": "kproxy.partition/1",
                "topic": topic,
                "partition": number,
                **self.partitions.get((topic, number), Partition()).line(),
                "end": self._lag.newest_end(topic, number),
                "over_time": over_time(self._lag.ends(topic, number), "end"),
                **self._traffic.line(topic, number),
                "changes": changes.get(f"{topic}-{number}", []),
            }

    # --- one function for each message ---

    def _metadata(self, seen: Seen) -> None:
        self.cluster_id = seen.response.get("clusterId") or self.cluster_id
        for one in seen.response.get("brokers") or ():
            self._broker(seen, one["nodeId"], f"{one['host']}:{one['port']}", one.get("rack"), "Metadata")
        controller = seen.response.get("controllerId", NOBODY)
        # A KRaft broker names any broker as the controller in Metadata; control requests name the true one.
        if (
            controller >= 0
            and (self.controller is None or self.controller[1] < 0)
            and controller != self._metadata_controller
        ):
            self._metadata_controller = controller
            self.controller = (controller, -1)
        for topic in seen.response.get("topics") or ():
            name = topic.get("name")
            if not name or topic.get("errorCode"):
                continue
            self._topics.add(name)
            for one in topic.get("partitions") or ():
                self._partition(
                    seen, name, one["partitionIndex"], "Metadata", leader=one["leaderId"],
                    epoch=one.get("leaderEpoch"), isr=one["isrNodes"], replicas=one["replicaNodes"],
                    offline=one.get("offlineReplicas"),
                )  # fmt: skip

    def _control(self, seen: Seen) -> None:
        api = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}[seen.key]
        body = seen.request
        if "controllerId" not in body:
            return
        controller = (body["controllerId"], body["controllerEpoch"])
        if self.controller != controller and (self.controller is None or controller[1] >= self.controller[1]):
            text = f"controller {controller[0]} at epoch {controller[1]}"
            self._event(seen, "controller", f"broker {controller[0]}", text, api)
            self.controller = controller
        for one in body.get("liveBrokers") or ():
            ends = one.get("endpoints") or [{"host": one.get("v0Host"), "port": one.get("v0Port")}]
            self._broker(seen, one["id"], f"{ends[0]['host']}:{ends[0]['port']}", one.get("rack"), api)
        if seen.key == api_keys.STOP_REPLICA:
            self._stop_replica(seen)
            return
        states = [(one["topicName"], one) for one in body.get("ungroupedPartitionStates") or ()]
        for topic in body.get("topicStates") or ():
            states += [(topic["topicName"], one) for one in topic.get("partitionStates") or ()]
        for name, one in states:
            self._partition(
                seen, name, one["partitionIndex"], api, leader=one["leader"], epoch=one["leaderEpoch"],
                isr=one["isr"], replicas=one["replicas"],
                moving=(one.get("addingReplicas"), one.get("removingReplicas")),
            )  # fmt: skip

    def _stop_replica(self, seen: Seen) -> None:
        body = seen.request
        every = body.get("deletePartitions", False)
        stopped = [(one["topicName"], one["partitionIndex"], every) for one in body.get("ungroupedPartitions") or ()]
        for topic in body.get("topics") or ():
            stopped += [(topic["name"], number, every) for number in topic["partitionIndexes"]]
        for topic in body.get("topicStates") or ():
            stopped += [
                (topic["topicName"], one["partitionIndex"], one["deletePartition"]) for one in topic["partitionStates"]
            ]
        for name, number, delete in stopped:
            text = "its replica is stopped" + (" and deleted" if delete else "")
            self._event(seen, "replica", f"{name}-{number}", text, "StopReplica")

    def _admin(self, seen: Seen) -> None:
        if seen.key == api_keys.ELECT_LEADERS:
            self._event(seen, "election", "", f"leaders are elected ({_count(seen)})", "ElectLeaders")
            return
        refused = _refused(seen)
        for element in seen.request.get("topics") or seen.request.get("topicNames") or ():
            name = element if isinstance(element, str) else seen.topic(element)
            result = _result(refused.get((name, None)))
            match seen.key:
                case 19:
                    count = element["numPartitions"] if element["numPartitions"] >= 0 else len(element["assignments"])
                    text = f"created with {counted(count, 'partition')}" if count > 0 else "created"
                    self._event(seen, "topic", name, text + result, "CreateTopics")
                case 20:
                    self._event(seen, "topic", name, "deleted" + result, "DeleteTopics")
                case 37:
                    self._event(
                        seen, "topic", name, f"grows to {element['count']} partitions{result}", "CreatePartitions"
                    )
                case 45:
                    for one in element["partitions"]:
                        where = one.get("replicas")
                        text = "reassignment cancelled" if where is None else f"to be moved to {_ids(where)}"
                        number = one["partitionIndex"]
                        result = _result(refused.get((name, number)))
                        self._event(
                            seen, "reassignment", f"{name}-{number}", text + result, "AlterPartitionReassignments"
                        )

    def _alter_partition(self, seen: Seen) -> None:
        for topic in seen.response.get("topics") or ():
            for one in topic.get("partitions") or ():
                if not one.get("errorCode"):
                    self._partition(
                        seen, seen.topic({**topic, "name": topic.get("topicName")}), one["partitionIndex"],
                        "AlterPartition", leader=one["leaderId"], epoch=one["leaderEpoch"], isr=one["isr"],
                    )  # fmt: skip

    def _metadata_log(self, seen: Seen) -> None:
        if not any(seen.topic(element) == METADATA_TOPIC for element in seen.response.get("responses") or ()):
            return
        _, shown = seen.shown(records=True)
        for element in shown.get("responses") or ():
            for partition in element.get("partitions") or ():
                for batch in (partition.get("records") or {}).get("batches") or ():
                    for record in batch.get("records") or ():
                        if record.get("offset", -1) > self._read:
                            self._read = record["offset"]
                            self._record(seen, record)

    def _record(self, seen: Seen, record: Values) -> None:
        """Take a record of the metadata log into account."""
        value = record.get("value")
        decoded = value.get("decoded") if isinstance(value, dict) else None
        if not isinstance(decoded, dict):
            return
        kind, data = decoded.get("name"), decoded.get("data", decoded)
        topic_id = data.get("topicId")
        name = self._names.get(topic_id, topic_id) if isinstance(topic_id, str) else ""
        match kind:
            case "TopicRecord":
                self._names[topic_id] = data["name"]
                self._event(seen, "topic", data["name"], "created", METADATA_TOPIC)
            case "RemoveTopicRecord":
                self._event(seen, "topic", name, "deleted", METADATA_TOPIC)
            case "PartitionRecord" | "PartitionChangeRecord":
                self._partition(
                    seen, name, data["partitionId"], METADATA_TOPIC,
                    leader=None if data.get("leader") == -2 else data.get("leader"), epoch=data.get("leaderEpoch"),
                    isr=data.get("isr"), replicas=data.get("replicas"),
                    moving=(data.get("addingReplicas"), data.get("removingReplicas")),
                )  # fmt: skip
            case "RegisterBrokerRecord":
                ends = data.get("endPoints") or ()
                address = f"{ends[0]['host']}:{ends[0]['port']}" if ends else ""
                self._broker(seen, data["brokerId"], address, data.get("rack"), METADATA_TOPIC)
            case "UnregisterBrokerRecord":
                self._event(seen, "broker", f"broker {data['brokerId']}", "unregistered", METADATA_TOPIC)

    # --- changes ---

    def _broker(self, seen: Seen, node_id: int, address: str, rack: str | None, source: str) -> None:
        known = self.brokers.get(node_id)
        self.brokers[node_id] = Broker(node_id, address, rack)
        if known is None or known.address != address:
            text = f"at {address}" if known is None else f"moved from {known.address} to {address}"
            self._event(seen, "broker", f"broker {node_id}", text, source)

    def _partition(
        self,
        seen: Seen,
        topic: str,
        number: int,
        source: str,
        *,
        leader: int | None = None,
        epoch: int | None = None,
        isr: Any = None,
        replicas: Any = None,
        offline: Any = None,
        moving: tuple[Any, Any] = (None, None),
    ) -> None:
        """Update a partition's state; None stands for no change. Values of an earlier leader epoch are ignored."""
        about = f"{topic}-{number}"
        state = self.partitions.get((topic, number))
        if state is None:
            state = Partition()
            if len(self.partitions) < MOST:
                self.partitions[topic, number] = state
        if epoch is not None and epoch >= 0:
            if state.leader_epoch is not None and epoch < state.leader_epoch:
                return
            state.leader_epoch = epoch
        if leader is not None and leader != state.leader:
            before = state.leader
            state.leader = leader
            if leader in _LEADERLESS:
                self._event(seen, "leader", about, _LEADERLESS[leader], source)
            elif before is not None:
                was = "nobody" if before in _LEADERLESS else before
                at = f" at epoch {epoch}" if epoch is not None and epoch >= 0 else ""
                self._event(seen, "leader", about, f"leader {was} -> {leader}{at}", source)
        if isr is not None and (state.isr is None or set(isr) != set(state.isr)):
            if state.isr is not None:
                self._event(seen, "isr", about, f"ISR {_ids(state.isr)} -> {_ids(isr)}", source)
            state.isr = tuple(isr)
        if replicas is not None:
            if state.replicas is not None and set(replicas) != set(state.replicas):
                self._event(seen, "replicas", about, f"replicas {_ids(state.replicas)} -> {_ids(replicas)}", source)
            state.replicas = tuple(replicas)
        if offline is not None and set(offline) != set(state.offline or ()):
            self._event(
                seen, "offline", about, f"offline replicas {_ids(state.offline or ())} -> {_ids(offline)}", source
            )
        state.offline = state.offline if offline is None else tuple(offline)
        adding, removing = (was if now is None else tuple(now) for was, now in zip(state.moving, moving, strict=True))
        if (adding, removing) != state.moving:
            state.moving = adding, removing
            text = f"reassignment: adding {_ids(adding)}, removing {_ids(removing)}"
            self._event(seen, "reassignment", about, text if adding or removing else "reassignment is over", source)

    def _event(self, seen: Seen, kind: str, about: str, text: str, source: str) -> None:
        if len(self.events) < EVENTS:
            self.events.append(Event(seen.time, seen.number, kind, about, text, source))
        else:
            self.more_events += 1


def _refused(seen: Seen) -> dict[tuple[Any, int | None], int]:
    """Error codes in the response to an admin client, by (topic, partition); the partition None is the whole topic."""
    found: dict[tuple[Any, int | None], int] = {}
    for topic in seen.response.get("topics") or seen.response.get("responses") or seen.response.get("results") or ():
        found[topic.get("name"), None] = topic.get("errorCode", 0)
        for one in topic.get("partitions") or ():
            found[topic.get("name"), one["partitionIndex"]] = one.get("errorCode", 0)
    return found


def _result(code: int | None) -> str:
    return f", refused with {code}" if code else ""


def _count(seen: Seen) -> str:
    topics = seen.request.get("topicPartitions")
    return "all partitions" if topics is None else f"{sum(len(one['partitions']) for one in topics)} partitions"


def _ids(nodes: Any) -> str:
    return "[" + ",".join(map(str, nodes)) + "]"
