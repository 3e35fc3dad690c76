"""The relay of one cluster: its listeners, and the connections that clients open to them.

All decisions are made in `kproxy.core`; a connection with its sockets is a `Link` (kproxy/relay/link.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

from kproxy.core.brokers import Advertise, Book, Node
from kproxy.core.plans import Plans
from kproxy.core.shared import Budget, Shared
from kproxy.decoders.schema import definitions
from kproxy.recording.recorder import Recorder
from kproxy.relay import ports
from kproxy.relay.acting import Acting
from kproxy.relay.first_requests import FirstRequests
from kproxy.relay.limits import Room, Share
from kproxy.relay.link import Link
from kproxy.relay.listeners import Listeners
from kproxy.relay.side import Refused
from kproxy.relay.upstream import Upstream
from kproxy.relay.warnings import Event, Warnings
from kproxy.runs.settings import Settings, shown
from kproxy.tls import ends
from kproxy.tls.layer import Layer
from kproxy.transparent.intercept import Interception, RefusedError

DRAIN_SECONDS = 2.0
MOST_MOVES = 20
"""Maximum number of address changes of one node that are reported."""


class Relay:
    """All listeners and connections of one cluster; `tell` receives events for the user (see `kproxy.relay.process`).

    Several relays may share a `budget`. Raises TlsError and AuthorityError if the TLS settings cannot be used,
    LoadError if an addon cannot be loaded, and FaultsError if a rule cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder | None,
        tell: Callable[[Event], None],
        budget: Budget | None = None,
        room: Room | None = None,
        share: Share | None = None,
    ) -> None:
        self.settings = settings
        self.recorder = recorder
        self.tls = ends.Ends.of(settings)
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.warnings = Warnings(tell, self._loop.time)
        self._moves: dict[str, int] = {}
        self.port = 0
        self._share = Share.of(settings.max_listeners) if share is None else share
        self.book = Book(
            lambda node: self._ports().open(node),
            Advertise(settings.advertise),
            self._node_changed,
            lambda: self._ports().nowhere(),
        )
        self.interception = None if settings.transparent is None else Interception(settings)
        self._listeners: Listeners | None = None
        self.upstream = Upstream(settings, recorder, self.tls, self.interception, self.warnings)
        self.shared = Shared(
            Plans(
                definitions(settings.release) if self.interception is None else None,
                controllers=settings.controllers is not None,
            ),
            self.book,
            hold_max=settings.hold_max,
            budget=Budget(settings.memory_max) if budget is None else budget,
        )
        self.acting = Acting(settings, self.shared, self.warnings, self._loop.time)
        self.links: set[Link] = set()
        self.first_requests = FirstRequests(self._loop)
        self.room = Room.of(settings.max_connections) if room is None else room
        self.connections = 0
        self.passed = [0, 0]
        """[number of bytes from clients, number of bytes from brokers]"""
        self.draining = False

    # --- listeners ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the bootstrap listener. Raises OSError if the port cannot be bound."""
        sockets = ports.bind(self.settings.listen_host, self.settings.listen_port)
        if self.interception is not None:
            self.interception.prepare(sockets)
        self.port = sockets[0].getsockname()[1]
        self._listeners = self._ports_of_nodes(len(sockets))
        for host, port in self.settings.upstream:
            self.book.known.remember(host, port)
        await self._serve(sockets, None)

    async def _serve(self, sockets: list[socket.socket], node: Node | None) -> None:
        for listener in sockets:
            server = await self._loop.create_server(lambda: self._accept(node), sock=listener, backlog=1024)
            self._servers.append(server)

    def _accept(self, node: Node | None) -> asyncio.Protocol:
        # clients get room once their handshake is complete, but use a file descriptor before that
        if self.room.taken + len(self.tls.greeting) >= self.room.most and self.tls.greeting:
            self.room.refused += 1
            self._warn_of_refused()
            return Refused()
        return self.tls.towards_client(Link(self, node).client, self._client_failed, self._known_as)

    def _known_as(self, transport: asyncio.Transport) -> str:
        """The host that the client has connected to: kproxy's, or in transparent mode the broker's."""
        if self.interception is not None:
            with contextlib.suppress(RefusedError, OSError):  # dialling fails for this reason too, and reports it
                return self.interception.target(transport)[0].partition("%")[0]
        own = transport.get_extra_info("sockname")
        return str(own[0]) if own else ""

    def _client_failed(self, layer: Layer, why: str) -> None:
        """Warns of a client's failed TLS handshake, and records it as a refused connection to kproxy's own address.

        No broker was dialled, so the recording cannot name one.
        """
        client = "a client" if layer.peer is None else f"client {layer.peer[0]}"
        self.warnings.warn(f"tls-{client}-{why}", f"{client} {why}")
        self.upstream.attempt(layer.peer, layer.own, [f"TLS with the client failed: it {why}"])

    def _ports_of_nodes(self, sockets: int) -> Listeners:
        settings = self.settings
        listeners = Listeners(
            settings.listen_host,
            self.port + 1 if settings.port_base is None else settings.port_base,
            settings.controllers,
            lambda sockets, node: self.spawn(self._serve(sockets, node)),
            self.warnings.warn,
            self._loop.call_later,
            self._share,
            strict=settings.strict_ports,
        )
        listeners.reserve(self.port, sockets)
        return listeners

    def _ports(self) -> Listeners:
        assert self._listeners is not None  # noqa: S101 (`start` comes before any connection)
        return self._listeners

    def _node_changed(self, node: Node) -> None:
        moves = self._moves[node.name] = self._moves.get(node.name, 0) + 1
        if moves > MOST_MOVES:
            self.warnings.warn("moves", f"{node.name} changes its address repeatedly; further changes are not reported")
            return
        self._tell(
            {
                "event": "broker",
                "node": node.node_id,
                "controller": node.controller,
                "upstream": shown(node.host, node.port),
                "listener": shown(self.settings.listen_host, node.listener),
            }
        )

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Starts a task; the relay keeps a reference to the task until it is done."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients; in transparent mode, the address that the relay listens on."""
        settings = self.settings
        if settings.transparent is not None:
            return shown(settings.listen_host, self.port)
        host = "127.0.0.1" if settings.listen_host in ports.ANYWHERE else settings.listen_host
        if not self.book.advertise.same_host:
            return shown(host, self.port)
        return shown(*self.book.advertise.address(Node(-1, host, self.port, self.port), host))

    def admit(self, link: Link) -> bool:
        """Registers a new connection; returns False after a warning if too many are open."""
        if not self.room.take():
            self._warn_of_refused()
            return False
        self.links.add(link)
        self.connections += 1
        if self.connections == 1 and link.client.peer is not None:
            self._tell({"event": "client", "client": shown(*link.client.peer)})
        self.first_requests.add(link)
        return True

    def _warn_of_refused(self) -> None:
        text = f"clients are refused: {self.room.most} connections are open ({self.room.reason})"
        self.warnings.warn("room", text)

    def forget(self, link: Link) -> None:
        """Removes a connection that has ended."""
        if link in self.links:
            self.links.remove(link)
            self.first_requests.remove(link)
            self.room.give()

    def status(self) -> Event:
        """The counters that the control socket returns."""
        counters = self.shared.counters
        return {
            "connections": len(self.links),
            "connections_total": self.connections,
            "connections_refused": self.room.refused,
            "bytes_from_clients": self.passed[0],
            "bytes_from_brokers": self.passed[1],
            "brokers": listed(self.book.nodes),
            "controllers": listed(self.book.controllers),
            "recorder": None if self.recorder is None else self.recorder.status(),
            "responses": {name: getattr(counters, name) for name in counters.__slots__},
            "tls": self.tls.status(),
            "held_bytes": self.shared.budget.held,
            "warnings": dict(self.warnings.times),
        }

    # --- the end -----------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Stops accepting connections; ends each open one when it has no request in flight, or after DRAIN_SECONDS."""
        self.draining = True
        for server in self._servers:
            server.close()
        self.tls.close()
        deadline = self._loop.time() + DRAIN_SECONDS
        while self.links and self._loop.time() < deadline:
            for link in list(self.links):
                if link.idle:
                    link.close()
            await asyncio.sleep(0.02)
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        for link in list(self.links):
            link.close()


def listed(nodes: Mapping[int, Node]) -> Event:
    """Nodes by node id, as a table for the status."""
    return {
        str(node.node_id): {"upstream": shown(node.host, node.port), "port": node.listener} for node in nodes.values()
    }
