"""Falsifies answers about the cluster: versions, leaders, coordinators, brokers and topic ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from kproxy.decoders.schema import errors
from kproxy.faults.rule import Brokers, Coordinator, Leader, TopicId, Versions
from kproxy.faults.trouble import CannotError

Body = Mapping[str, Any]
Told = Versions | Leader | Coordinator | Brokers | TopicId


@dataclass(frozen=True, slots=True)
class Known:
    """What falsifying needs besides the answer: its request, the (host, port) of a node id, the name of a topic id."""

    asked: Body
    address: Callable[[int], tuple[str, int] | None]
    topic: Callable[[bytes], str | None]


def told(action: Told, body: Body, known: Known) -> dict[str, Any] | None:
    """The values of an answer as the action falsifies them; None if the action changes nothing.

    Raises CannotError if the address of a node is not known.
    """
    new = _with(action, body, known)
    return None if new == body else new


@singledispatch
def _with(action: Told, body: Body, known: Known) -> dict[str, Any]:
    raise NotImplementedError(action, body, known)


@_with.register
def _(action: Versions, body: Body, known: Known) -> dict[str, Any]:
    del known
    offered = []
    for one in body["apiKeys"]:
        if one["apiKey"] != action.api_key:
            offered.append(one)
        elif not action.hides:
            offered.append({**one, "minVersion": action.low, "maxVersion": action.high})
    return {**body, "apiKeys": offered}


@_with.register
def _(action: Leader, body: Body, known: Known) -> dict[str, Any]:
    named = False

    def led(partition: Body) -> Body:
        nonlocal named
        if partition.get("partitionIndex", partition.get("index")) != action.partition:
            return partition
        if "leaderId" in partition:
            return {**partition, "leaderId": action.node}
        if "currentLeader" in partition and partition["errorCode"]:  # brokers set it only with an error
            named = True
            return {**partition, "currentLeader": {**partition["currentLeader"], "leaderId": action.node}}
        return partition

    topics = "topics" if "topics" in body else "responses"
    partitions = "partitionResponses" if body[topics] and "partitionResponses" in body[topics][0] else "partitions"
    changed = [
        {**topic, partitions: [led(one) for one in topic[partitions]]} if _name(topic, known) == action.topic else topic
        for topic in body[topics]
    ]
    new = {**body, topics: changed}
    if named and action.node >= 0:
        new["nodeEndpoints"] = _endpoints(body.get("nodeEndpoints", ()), action.node, known)
    return new


def _name(topic: Body, known: Known) -> str | None:
    name = topic.get("name") or topic.get("topic")
    return str(name) if name else known.topic(bytes(topic.get("topicId", b"")))


def _endpoints(there: Sequence[Body], node: int, known: Known) -> list[Body]:
    """The endpoints, with that of `node` added: a client needs the address of the leader that the answer names."""
    if any(one["nodeId"] == node for one in there):
        return list(there)
    host, port = _address(node, known)
    return [*there, {"nodeId": node, "host": host, "port": port, "rack": None}]


def _address(node: int, known: Known) -> tuple[str, int]:
    address = known.address(node)
    if address is None:
        raise CannotError(f"kproxy has not seen the address of broker {node} yet")
    return address


@_with.register
def _(action: Coordinator, body: Body, known: Known) -> dict[str, Any]:
    batched = "coordinators" in body
    if action.key not in ([one["key"] for one in body["coordinators"]] if batched else [known.asked.get("key")]):
        return dict(body)
    host, port = ("", -1) if action.node < 0 else _address(action.node, known)
    code = errors.by_name("COORDINATOR_NOT_AVAILABLE") if action.node < 0 else 0
    named = {"nodeId": action.node, "host": host, "port": port, "errorCode": code}
    if not batched:
        return {**body, **named}
    new = [{**one, **named} if one["key"] == action.key else one for one in body["coordinators"]]
    return {**body, "coordinators": new}


@_with.register
def _(action: Brokers, body: Body, known: Known) -> dict[str, Any]:
    del known
    new = dict(body)
    for name, node in (("brokers", "nodeId"), ("brokers", "brokerId"), ("nodeEndpoints", "nodeId")):
        if name in body:
            new[name] = [one for one in new[name] if node not in one or one[node] in action.nodes]
    if body.get("controllerId", -1) not in {-1, *action.nodes}:
        new["controllerId"] = -1
    return new


@_with.register
def _(action: TopicId, body: Body, known: Known) -> dict[str, Any]:
    topics = [
        {**one, "topicId": action.topic_id} if "topicId" in one and _name(one, known) == action.topic else one
        for one in body["topics"]
    ]
    return {**body, "topics": topics}
