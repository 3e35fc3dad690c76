"""Sends requests to the brokers of a cluster, each to the broker that the request names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.decoders.framing import request_frame
from kproxy.decoders.from_json import body_values
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from kproxy.sending.broker import Access, Answer, Broker, SendError
from kproxy.sending.exchanges import line

CLIENT_ID: Final = "kproxy-send"
_KPROXY: Final = "kproxy"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send: API, version, client id and decoded values of its body.

    `connection` numbers the connection to send it on, `node` the broker; None stands for the first one, at the address
    that the user gave.
    """

    api_key: int
    api_version: int
    values: Mapping[str, Any]
    client_id: str | None = CLIENT_ID
    connection: int = 1
    node: int | None = None

    @property
    def replies(self) -> bool:
        return not (self.api_key == api_keys.PRODUCE and self.values.get("acks") == 0)


@dataclass(slots=True)
class Sender:
    """Sends requests to the cluster of which one broker is at the address (host, port)."""

    host: str
    port: int
    access: Access
    definitions: Definitions
    view: View
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Addresses of the cluster's brokers by node id; `learn_cluster` asks for them."""
    cluster_id: str | None = None
    _brokers: dict[int, Broker] = field(default_factory=dict)
    _correlation_id: int = 0
    _sent: int = 0

    async def send(self, request: Request) -> dict[str, Any]:
        """Send a request; returns its exchange JSON, which says why if there is no response.

        Raises SendError if kproxy does not know the version, WriteError if a value does not fit.
        """
        message = self.definitions.request(request.api_key, request.api_version)
        if message is None:
            name = self.definitions.shown_api_name(request.api_key)
            raise SendError(f"kproxy does not know version {request.api_version} of {name}")
        body = write(message, request.api_version, request.values)
        self._correlation_id += 1
        self._sent += 1
        number = self._sent
        api = request.api_key, request.api_version
        frame = request_frame(self.definitions, api, self._correlation_id, request.client_id, body)
        broker = self._broker(request)
        ends = request.connection, _KPROXY, broker.address
        asked = *api, request.client_id
        begun = time.time_ns()
        try:
            answer = await broker.ask(frame, replies=request.replies)
        except SendError as error:
            return line(number, ends, asked, frame, Answer(None, begun, begun), self.definitions, self.view, str(error))
        return line(number, ends, asked, frame, answer, self.definitions, self.view)

    async def versions(self) -> dict[int, tuple[int, int]]:
        """The (lowest, highest) version of each API that the first broker serves. Raises SendError."""
        body = await self._ask(api_keys.API_VERSIONS, 0, {})
        return {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in body.get("apiKeys") or ()}

    async def learn_cluster(self, topics: list[str] | None = None) -> dict[str, bytes]:
        """Ask for the brokers' addresses and the cluster id; returns the ids of `topics` by name. Raises SendError."""
        lowest, highest = (await self.versions()).get(api_keys.METADATA, (0, 0))
        ours = self.definitions.versions(api_keys.METADATA)
        version = min(highest, ours.high)
        if version < lowest:
            raise SendError("kproxy and the broker have no version of Metadata in common")
        values: dict[str, Any] = {"topics": [{"name": name} for name in topics or ()]}
        if version >= 4:
            values["allowAutoTopicCreation"] = False
        body = await self._ask(api_keys.METADATA, version, values)
        self.nodes = {one["nodeId"]: (one["host"], one["port"]) for one in body.get("brokers") or ()}
        self.cluster_id = body.get("clusterId")
        found = {}
        for topic in body.get("topics") or ():
            if not topic["errorCode"] and topic.get("topicId"):
                found[topic["name"]] = bytes(topic["topicId"])
        return found

    async def _ask(self, api_key: int, version: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The decoded body of the first broker's response to a request of kproxy's own. Raises SendError."""
        message = self.definitions.request(api_key, version)
        assert message is not None  # noqa: S101 (callers choose a known version)
        self._correlation_id += 1
        frame = request_frame(
            self.definitions, (api_key, version), self._correlation_id, CLIENT_ID, write(message, version, values)
        )
        broker = Broker(self.host, self.port, self.access)
        try:
            answer = await broker.ask(frame, replies=True)
        finally:
            await broker.close()
        assert answer.frame is not None  # noqa: S101 (a reply was expected)
        decoded = decode_response(answer.frame, api_key, version, self.definitions)
        if decoded.body is None:
            raise SendError(f"{broker.address} sent a response that kproxy cannot read")
        return decoded.body

    def _broker(self, request: Request) -> Broker:
        found = self._brokers.get(request.connection)
        if found is None:
            host, port = self.nodes.get(-1 if request.node is None else request.node, (self.host, self.port))
            found = self._brokers[request.connection] = Broker(host, port, self.access)
        return found

    async def close(self) -> None:
        for broker in self._brokers.values():
            await broker.close()


async def chosen_version(sender: Sender, api_key: int) -> int:
    """The highest version of an API that kproxy and the broker both have. Raises SendError."""
    name = sender.definitions.shown_api_name(api_key)
    served = (await sender.versions()).get(api_key)
    if served is None:
        raise SendError(f"{sender.host}:{sender.port} does not serve {name}; give --api-version to send it anyway")
    ours = sender.definitions.versions(api_key)
    version = min(served[1], ours.high)
    if version < served[0] or version not in ours:
        raise SendError(f"the broker serves versions {served[0]} to {served[1]} of {name}, which kproxy does not know")
    return version


def from_json(definitions: Definitions, api_key: int, version: int, body: Any) -> dict[str, Any]:
    """The values of a request's body from JSON. Raises JsonError, or SendError for an unknown version."""
    message = definitions.request(api_key, version)
    if message is None:
        raise SendError(f"{definitions.shown_api_name(api_key)} has no version {version}")
    return body_values(_timed(body, time.time_ns() // 1_000_000), message, version)


def _timed(value: Any, now: int) -> Any:
    """A body in which batches written as {"records": […]} get the time `now` (ms), unless they give another."""
    if isinstance(value, list):
        return [_timed(one, now) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("records"), list) and "batches" not in value:
        return {"baseTimestamp": now, **value}
    return {name: _timed(one, now) for name, one in value.items()}
