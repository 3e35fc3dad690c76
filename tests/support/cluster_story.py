"""Stories of what brokers and controllers say to each other (see tests/support/facts.py)."""

from __future__ import annotations

from typing import Any, Self

from kproxy.captures.findings import facts
from tests.support.facts import Story

CLUSTER = "c1"
FETCH, LEADER_AND_ISR, UPDATE_METADATA = 1, 4, 6


class ClusterStory(Story):
    """Facts about brokers are named by node: node 1 speaks as client "1"."""

    def at(self, seconds: float) -> Self:
        self.now = seconds
        return self

    def add(self, fact: Any) -> Self:
        self.made.append(fact)
        return self

    def to(self, broker: str) -> Self:
        """The broker or controller that is asked from here on."""
        self.broker = broker
        return self

    def state(self, *, key: int = FETCH, api_version: int = 0, **said: Any) -> Self:
        """The controller's word about t-0, of which only what is given is said."""
        fact = facts.PartitionState(
            self.where("controller", key=key), "t", 0, None, False, False, None, None, None, None, None, None, None,
            False, False,
        )  # fmt: skip
        return self.add(fact._replace(at=fact.at._replace(version=api_version), **said))

    def zookeeper(self, **said: Any) -> Self:
        """A LeaderAndIsr of ZooKeeper mode about t-0: node 1 leads, 2 follows."""
        given: dict[str, Any] = {
            "leader": 1, "leader_epoch": 5, "replicas": (1, 2), "isr": (1, 2), "version": 7, "key": LEADER_AND_ISR,
        }  # fmt: skip
        return self.state(**given | said)

    def control(self, controller: int = 1, epoch: int = 1, error: int = 0, broker: str = "10.0.0.2:9092") -> Self:
        at = self.where(f"controller {controller}", key=UPDATE_METADATA)._replace(broker=broker)
        return self.add(facts.ControlRequest(at, controller, epoch, error))

    def leaving(self, node: int) -> Self:
        return self.add(facts.Leaving(self.where(str(node), key=7), node))

    def changes(self, topic: str, *, created: bool = True, past: bool = False) -> Self:
        return self.add(facts.TopicChange(self.where("controller", key=FETCH), topic, created, past))

    def deletes(self, topic: str, error: int = 0) -> Self:
        return self.add(facts.Administration(self.where("admin", key=20), "deleted topics", (topic,), 1, error))

    def asks_to_move(self, *replicas: int, error: int = 0) -> Self:
        return self.add(facts.Reassignment(self.where("admin", key=45), "t", 0, replicas or None, error))

    def quorum(self, what: str, node: int, epoch: int, error: int = 0, **places: Any) -> Self:
        at = self.where(str(node), **places)
        return self.add(facts.QuorumStep(at, CLUSTER, what, node, epoch, error, True))

    def beat(self, *nodes: int, **said: Any) -> Self:
        """Heartbeats of brokers, answered with no error; `took` is how long the answer took."""
        places = {name: said.pop(name) for name in ("took", "connection") if name in said}
        for node in nodes:
            at = self.where(str(node), key=63, **places)
            fact = facts.BrokerHeartbeat(at, node, 100 + node, 50, False, False, False, 0, 0, True)
            self.add(fact._replace(**said))
        return self

    def registers(self, node: int, error: int = 0) -> Self:
        return self.add(facts.BrokerRegistration(self.where(str(node), key=62), node, error))

    def record(self, node: int, **said: Any) -> Self:
        """A record of the metadata log about a broker."""
        at = self.where("observer", key=FETCH)
        return self.add(facts.BrokerState(at, node, 100 + node, None, None, False, False)._replace(**said))

    def follows(self, replica: int, *behind: tuple[str, int, int], **places: Any) -> Self:
        """A Fetch of a follower."""
        at = self.where(f"fetcher {replica}", key=FETCH, **places)
        return self.add(facts.ReplicaFetch(at, replica, behind))

    def every(self, step: float, until: float, *nodes: int, **said: Any) -> Self:
        """Heartbeats at regular times, up to a time."""
        second = self.now
        while second < until:
            self.at(second).beat(*nodes, **said)
            second += step
        return self
