"""The relay with its sockets: listeners, outgoing connections, and a pair of transports for each client's connection.

All decisions are made in `kproxy.core`. This module moves bytes, passes back-pressure and the end of a connection from
one side to the other, and gives the recorder its copy of the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.core.brokers import Advertise, Book, Node
from kproxy.core.commands import Changed, Command, Cut, End, Notice, Record, ToBroker, ToClient
from kproxy.core.compiled import Side
from kproxy.core.connection import Connection
from kproxy.core.gate import Own, Refused
from kproxy.core.plans import Plans
from kproxy.core.shared import Budget, Shared
from kproxy.decoders.schema import definitions
from kproxy.recording.recorder import Flow, Recorder, SelectedFlow
from kproxy.relay import ports, probe, tunnel
from kproxy.relay.facts import connection_facts, listener_in_words
from kproxy.relay.limits import Room, Share, high_water
from kproxy.relay.listeners import Listeners
from kproxy.relay.on_behalf import OnBehalf
from kproxy.relay.timer import timer
from kproxy.runs.settings import Settings, shown
from kproxy.tls import ends
from kproxy.tls.layer import Layer
from kproxy.transparent.intercept import Interception, RefusedError

if TYPE_CHECKING:
    from kproxy.addons.acting import Actors as AddonActors
    from kproxy.core.acting import ActedConnection, Actors
    from kproxy.decoders.schema import Definitions
    from kproxy.faults.engine import Engine
    from kproxy.faults.rule import Rule

Event = dict[str, Any]
Address = tuple[str, int]

DIAL_SECONDS = 30.0
DRAIN_SECONDS = 2.0
FIRST_REQUEST_SECONDS = 60.0
"""Seconds within which a client must send its first request.

The deadline is extended while more of the request arrives.
"""
MOST_TOPICS = 1000
FORGOTTEN_SECONDS = 3600.0
"""Seconds after which the topics of shown warnings are forgotten; until then at most MOST_TOPICS topics are shown."""
MOST_MOVES = 20
"""Maximum number of address changes of one node that are reported."""

_LINGER_RESET = struct.pack("ii", 1, 0)


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
        self._warnings: dict[str, int] = {}
        self._warnings_since = self._loop.time()
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
        self._tunnel = None if settings.upstream_proxy is None else tunnel.Tunnel.parse(settings.upstream_proxy)
        self.shared = Shared(
            Plans(
                definitions(settings.release) if self.interception is None else None,
                controllers=settings.controllers is not None,
            ),
            self.book,
            hold_max=settings.hold_max,
            budget=Budget(settings.memory_max) if budget is None else budget,
        )
        self._addons = self._load_addons()
        self.engine = self._load_engine()
        """The rules that act on traffic; None if there are none."""
        self._actors = self._join()
        self.links: set[Link] = set()
        self._beginning: dict[Link, tuple[float, int]] = {}
        """Links whose client has not sent a whole request, with (deadline, `Link.received_of_first`) each."""
        self._timer = timer(self._loop)
        self.room = Room.of(settings.max_connections) if room is None else room
        self.connections = 0
        self.passed = [0, 0]
        """[number of bytes from clients, number of bytes from brokers]"""
        self.draining = False

    def _load_addons(self) -> AddonActors | None:
        if not self.settings.addons:
            return None
        from kproxy.addons import acting, loading

        classes = loading.load(self.settings.addons).actors
        return acting.table(classes, self.known(), self.warn, self._loop.time) if classes else None

    def _load_engine(self) -> Engine | None:
        settings = self.settings
        if not settings.faults and settings.faults_file is None and settings.control is None:
            return None
        return self._engine_of(self.faults())

    def _engine_of(self, rules: Sequence[Rule]) -> Engine:
        from kproxy.faults.engine import Engine

        return Engine(rules, self.known(), self.warn, self._loop.time, self.settings.fault_seed, self._address_of)

    def _address_of(self, node_id: int) -> Address | None:
        """The broker's own address, which its cluster has announced."""
        node = self.book.nodes.get(node_id)
        return None if node is None else (node.host, node.port)

    def faults(self) -> list[Rule]:
        """Reads the rules of the settings. Raises FaultsError."""
        from kproxy.faults.files import load

        path = self.settings.faults_file
        return load(self.settings.faults, None if path is None else Path(path), self.known())

    def known(self) -> Definitions:
        """The definitions by which addons and rules read frames."""
        from kproxy.captures.definitions import definitions as given_definitions

        return given_definitions(self.settings.release, self.settings.user_definitions)

    def _join(self) -> Actors | None:
        """The actors for the frames of new connections: addons, then rules; None without either."""
        there: list[Actors] = [one for one in (self._addons, self.engine) if one is not None]
        if len(there) < 2:
            return there[0] if there else None
        from kproxy.core.chain import Chain

        return Chain(there)

    def add_rules(self, rules: Sequence[Rule]) -> None:
        """Adds rules. Raises ValueError if there is one of the same name; nothing changes then."""
        if self.engine is None:
            self.engine = self._engine_of(())
            self._actors = self._join()
        self.engine.add(rules, added=True)

    def reload(self, name: str | None) -> list[str]:
        """Loads the module of the actor called `name` again, or of all actors if None; returns their names.

        Raises LoadError, and LookupError if there is no such actor.
        """
        if self._addons is None:
            raise LookupError("this proxy has no actors (--addon)")
        from kproxy.addons import loading

        names = self._addons.reload(loading.load(self.settings.addons, again=True).actors, name)
        for one in names:
            self._warnings.pop(f"actor-{one}", None)
        return names

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
        self.warn(f"tls-{client}-{why}", f"{client} {why}")
        self.attempt(layer.peer, layer.own, [f"TLS with the client failed: it {why}"])

    def _ports_of_nodes(self, sockets: int) -> Listeners:
        settings = self.settings
        listeners = Listeners(
            settings.listen_host,
            self.port + 1 if settings.port_base is None else settings.port_base,
            settings.controllers,
            lambda sockets, node: self.spawn(self._serve(sockets, node)),
            self.warn,
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
            self.warn("moves", f"{node.name} changes its address repeatedly; further changes are not reported")
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
            self.warn("room", f"clients are refused: {self.room.most} connections are open ({self.room.reason})")
            return False
        self.links.add(link)
        self.connections += 1
        if self.connections == 1 and link.client.peer is not None:
            self._tell({"event": "client", "client": shown(*link.client.peer)})
        self._give_time(link, 0)
        return True

    def _give_time(self, link: Link, there: int) -> None:
        if not self._beginning:
            self._timer(FIRST_REQUEST_SECONDS, self._end_silent)
        self._beginning[link] = (self._loop.time() + FIRST_REQUEST_SECONDS, there)

    def _end_silent(self) -> None:
        """Ends the connections of clients whose deadline has passed; `_beginning` is ordered by deadline."""
        now = self._loop.time()
        for link, (until, before) in list(self._beginning.items()):
            if until > now:
                break
            del self._beginning[link]
            if link.waits_for_broker:
                self._give_time(link, before)
            elif (there := link.received_of_first) is not None:
                if there > before:
                    self._give_time(link, there)
                else:
                    link.end_silent()
        if self._beginning:
            until, _ = next(iter(self._beginning.values()))
            self._timer(max(until - now, 0.1), self._end_silent)

    def forget(self, link: Link) -> None:
        """Removes a connection that has ended."""
        if link in self.links:
            self.links.remove(link)
            self._beginning.pop(link, None)
            self.room.give()

    # --- services for connections ------------------------------------------------------------------------------------

    def connection(
        self, own_host: str, client: Address | None, broker: Address | None, node: Node | None = None
    ) -> Connection:
        """The state of a connection between `client` and `broker`.

        `own_host` is the proxy's host that the client connected to, `node` the broker of the listener.
        """
        if self._actors is None:
            return Connection(self.shared, own_host)
        from kproxy.core.acting import ActedConnection
        from kproxy.core.verdict import Parties

        parties = ["?" if address is None else shown(*address) for address in (client, broker)]
        who = Parties(parties[0], parties[1], None if node is None else node.node_id, self.connections)
        acted = ActedConnection(self.shared, own_host, self._actors, who, self._loop.time)
        if self.engine is not None:
            self.engine.opened(acted, who.broker)
        return acted

    def login(self, link: Link) -> OnBehalf | None:
        """The authentication on a client's behalf; None if the settings do not ask for it."""
        return OnBehalf(self.settings.sasl, link) if self.settings.sasl.mechanism else None

    def targets(self, link: Link) -> list[Address]:
        """The addresses to try for a client, in order: the bootstrap servers, the address of the listener's node, or
        the client's original destination.

        Empty if the client of transparent mode is refused or has gone.
        """
        if self.interception is not None:
            try:
                return [self.interception.target(link.client.transport)]
            except RefusedError as refused:
                self.warn(refused.topic, str(refused))
            except OSError:  # the client has closed the connection
                pass
            return []
        return list(self.settings.upstream) if link.node is None else [(link.node.host, link.node.port)]

    async def dial(self, link: Link, host: str, port: int) -> None:
        """Connects a link to the broker at (host, port).

        Raises OSError, UnicodeError, and RefusedError from `kproxy.tls.ends`.
        """
        name = host
        if self.interception is None:
            way = await tunnel.way(self._tunnel, host, port)
        else:
            way = {"sock": await self.interception.connect(host, port)}
            name = link.asked or host
        protocol = self.tls.towards_broker(link.broker, name)
        await self._loop.create_connection(lambda: protocol, **way)
        await self.tls.spoken(protocol)

    def recorded(self, target: Address, peer: Address | None) -> Address | None:
        """The broker's address for the recording; `target` is the address that kproxy dialled, `peer` that of the
        socket's other end.
        """
        return tunnel.recorded(self._tunnel, target, peer)

    def facts(self, link: Link, *, refusal: str = "") -> list[str]:
        """The lines for the recording about a connection, or with `refusal` about an attempt that failed."""
        broker = None if refusal else link.broker
        if self.interception is None:
            way = listener_in_words(link.node, self.settings.name)
        else:
            way = f"on its way to {shown(*link.target)}"
        return connection_facts(link.client, broker, link.target, way, self._tunnel, refusal)

    def warn(self, topic: str, text: str, details: str = "") -> None:
        """Shows a warning to the user, once for each topic, and logs the details; the status counts repetitions."""
        if topic not in self._warnings and len(self._warnings) >= MOST_TOPICS:
            now = self._loop.time()
            if now - self._warnings_since < FORGOTTEN_SECONDS:
                topic, text, details = (
                    "more",
                    f"more than {MOST_TOPICS} different warnings: further ones are not shown for now",
                    "",
                )
            else:
                self._warnings.clear()
                self._warnings_since = now
        times = self._warnings[topic] = self._warnings.get(topic, 0) + 1
        if times == 1:
            event = {"event": "warning", "topic": topic, "message": text}
            self._tell({**event, "details": details} if details else event)

    async def check(self) -> None:
        """Warns the user if none of the bootstrap servers answers as a Kafka broker."""
        wrong = []
        for host, port in self.settings.upstream:
            why = await probe.problem(host, port, through=self._tunnel, side=self.tls.brokers)
            if why is None:
                return
            wrong.append((host, port, why))
        for host, port, why in wrong:
            self.warn_upstream(host, port, why)

    def warn_upstream(self, host: str, port: int, why: str) -> None:
        self.warn(f"upstream-{host}:{port}-{why}", f"upstream {shown(host, port)} {why}")

    @property
    def tunnelled(self) -> bool:
        """Whether kproxy connects to brokers through another proxy."""
        return self._tunnel is not None

    def attempt(self, client: Address | None, target: Address | None, facts: Sequence[str]) -> None:
        """Records a failed connection from `client` to `target`, if both are known and are IP addresses."""
        if self.recorder is not None and client is not None and target is not None:
            with contextlib.suppress(ValueError):
                self.recorder.connection(client, target, accepted=False, facts=facts)

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
            "warnings": dict(self._warnings),
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


class Link:
    """A client's connection to kproxy and kproxy's connection to the broker."""

    __slots__ = (
        "_acted",
        "_alarm",
        "_core",
        "_early",
        "_ended",
        "_flow",
        "_login",
        "_relay",
        "broker",
        "client",
        "node",
        "target",
    )

    def __init__(self, relay: Relay, node: Node | None) -> None:
        self._relay = relay
        self.node = node
        self.client = _Side(self, 0, relay.passed)
        self.broker = _Side(self, 1, relay.passed)
        self._core: Connection | None = None
        self._acted: ActedConnection | None = None
        """`_core`, if it is offered to actors."""
        self._alarm: asyncio.TimerHandle | None = None
        self._flow: Flow | SelectedFlow | None = None
        self._login: OnBehalf | None = None
        self._ended = [False, False]
        self._early: list[bytes] = []
        """Bytes that the client sent before the broker was connected: at most one read, then reading is paused."""
        self.target: Address = ("", 0)

    @property
    def idle(self) -> bool:
        return self._core is None or (self._core.idle and not self._authenticating)

    @property
    def _vanished(self) -> bool:
        """Whether a rule hides each side from the other."""
        return self._acted is not None and self._acted.vanished

    @property
    def _authenticating(self) -> bool:
        return self._login is not None and self._login.busy

    @property
    def received_of_first(self) -> int | None:
        """A number that grows while the client's first request arrives; None once the request is complete."""
        return None if self._core is None or self._core.begun or self._vanished else self._core.received

    @property
    def waits_for_broker(self) -> bool:
        """Whether kproxy reads nothing from the client, because it still connects or authenticates to the broker.

        Both have a deadline of their own.
        """
        return self._core is None or self._authenticating

    def end_silent(self) -> None:
        """Ends the connection, because the client's first request has missed its deadline."""
        self._notice(
            Notice(
                "silent",
                f"sent no complete request within {FIRST_REQUEST_SECONDS:g} seconds: kproxy ends its connection",
            ),
            0,
        )
        self.client.reset()
        self.close()

    @property
    def asked(self) -> str | None:
        """The server name (SNI) that the client sent in its TLS handshake; None if there is none."""
        transport = self.client.transport
        name: str | None = None if transport is None else transport.get_extra_info("server_name")
        return name

    @property
    def high_water(self) -> int:
        """How many bytes may wait for a slow reader before kproxy stops reading from the other side."""
        return high_water(self._relay.settings.memory_max, self._relay.room.taken)

    def sides(self, side: int) -> tuple[_Side, _Side]:
        """(the transport of `side`, the transport of the other side)"""
        return (self.client, self.broker) if side == 0 else (self.broker, self.client)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def connected(self, side: int) -> None:
        if side == 1:
            self._begin()
        elif self._relay.admit(self):
            self._relay.spawn(self._dial())
        else:
            self.client.reset()

    async def _dial(self) -> None:
        relay = self._relay
        failures = []
        for host, port in relay.targets(self):
            self.target = (host, port)
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await relay.dial(self, host, port)
            except ends.RefusedError as refused:
                failures.append((host, port, str(refused)))
                peer = relay.recorded(self.target, refused.peer)
                relay.attempt(self.client.peer, peer, relay.facts(self, refusal=str(refused)))
            except TimeoutError:
                failures.append((host, port, f"did not accept within {DIAL_SECONDS:g} seconds"))
                await self._attempt(host, port, refused=False)
            except (OSError, UnicodeError) as error:
                failures.append((host, port, probe.reason(error)))
                await self._attempt(host, port, refused=True)
            else:
                break
        for host, port, why in failures:
            relay.warn_upstream(host, port, why)
        if self._core is None:
            self.client.reset()
            relay.forget(self)

    async def _attempt(self, host: str, port: int, *, refused: bool) -> None:
        """Records the attempt to connect to a broker that failed, once for each address of the broker's name."""
        relay, client = self._relay, self.client.peer
        if relay.recorder is None or client is None:
            return
        facts = relay.facts(self, refusal="did not accept")
        if relay.tunnelled:  # the proxy resolves the name, so kproxy does not know the broker's addresses
            relay.attempt(client, (host, port), facts)
            return
        accepted = False if refused else None
        with contextlib.suppress(OSError, UnicodeError):
            for found in await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM):
                with contextlib.suppress(ValueError):  # raised if one address is IPv4 and the other IPv6
                    relay.recorder.connection(client, (str(found[4][0]), port), accepted=accepted, facts=facts)

    def _begin(self) -> None:
        """Begins relaying once both sides are connected; must be called before the broker's first byte can arrive."""
        client, broker = self.client, self.broker
        if client.transport is None or client.transport.is_closing() or broker.transport is None:
            broker.reset()
            self._relay.forget(self)
            return
        own = client.transport.get_extra_info("sockname")
        listen = self._relay.settings.listen_host
        wildcard = listen in ports.ANYWHERE
        peer = self._relay.recorded(self.target, broker.peer)
        self._core = self._relay.connection(own[0] if wildcard else listen, client.peer, peer, self.node)
        if self._core.records:
            self._act(self._core)
        if self._relay.recorder is not None and client.peer is not None and peer is not None:
            self._flow = self._relay.recorder.connection(client.peer, peer, facts=self._relay.facts(self))
        self._login = self._relay.login(self)
        if self._login is not None:
            self._login.begin()
        client.pause(self._authenticating)  # before the writes below, which may pause the client as well
        early, self._early = self._early, []
        for data in early:
            self.received(0, data)
        if self._ended[0]:
            self._ended[0] = False
            self.ended(0)
        if self._login is None:
            for side, other in ((client, broker), (broker, client)):
                side.other, side.passing = other, self._core.passing
                if self._flow is not None and self._relay.recorder is not None:
                    side.notes, side.record = self._relay.recorder.notes, self._flow.add_data

    # --- bytes -------------------------------------------------------------------------------------------------------

    def received(self, side: int, data: bytes) -> None:
        core = self._core
        if core is None:
            self._early.append(data)
            self.client.pause(True)
            return
        self._relay.passed[side] += len(data)
        if side == 0:
            self._carry_out(core.from_client(data))
        elif self._login is None:
            self.deliver(data)
        else:
            self._login.from_broker(data)
        if self._acted is not None:
            self._set_alarm(self._acted)

    def deliver(self, data: bytes) -> None:
        """Sends bytes from the broker on to the client, and records them."""
        core, flow = self._core, self._flow
        if core is None:
            return
        changed = self._carry_out(core.from_broker(data))
        if flow is not None and not core.records:
            if changed is None:
                flow.data(1, data)
            else:
                _record_changed(flow, data, changed)

    def _carry_out(self, commands: list[Command]) -> list[Changed] | None:
        """Carries out commands of the connection's state.

        Returns the reports on changed frames, None if there are none.
        """
        changed: list[Changed] | None = None
        for command in commands:
            kind = type(command)
            if kind is ToClient:
                self.client.write(command.data)  # type: ignore[union-attr]  # as its type says
            elif kind is ToBroker:
                if self._login is None:
                    self.send(command)  # type: ignore[arg-type]  # as its type says
                else:
                    self._login.to_broker(command)  # type: ignore[arg-type]  # as its type says
            elif isinstance(command, Record):
                if self._flow is not None:
                    self._flow.data(command.side, command.data, command.comment)
            elif isinstance(command, Cut):
                self._cut(command.reset, command.unclean)
            elif isinstance(command, Changed):
                changed = [*(changed or ()), command]
            elif isinstance(command, Notice):
                self._notice(command, 0 if command.topic.startswith("not-kafka-0") else 1)
            elif isinstance(command, End):
                self._notice(Notice(command.topic, command.text), 1)
                self.close()
        return changed

    def send(self, command: ToBroker) -> None:
        """Sends bytes from the client on to the broker, and records them."""
        self.broker.write(command.data)
        if self._flow is not None:
            self._flow.data(0, command.data, command.comment)

    # --- commands of actors and rules --------------------------------------------------------------------------------

    def _act(self, core: Connection) -> None:
        from kproxy.core.acting import ActedConnection

        if isinstance(core, ActedConnection):
            self._acted = core
            core.wake = self._wake
            self._set_alarm(core)

    def _wake(self) -> None:
        asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Sends the frames whose wait is over."""
        self._alarm = None
        if self._acted is not None:
            self._carry_out(self._acted.tick())
            self._set_alarm(self._acted)

    def _set_alarm(self, acted: ActedConnection) -> None:
        at = acted.due
        if self._alarm is not None:
            if self._alarm.when() == at:
                return
            self._alarm.cancel()
            self._alarm = None
        if at is not None:
            self._alarm = asyncio.get_running_loop().call_at(at, self._tick)

    def _cut(self, reset: bool, unclean: bool) -> None:
        """Ends the connection because an actor or rule demands it; in the recording, the broker ends it."""
        if self._flow is not None:
            if reset:
                self._flow.reset(1)
            else:
                self._flow.end(1)
        self.broker.close()
        if reset:
            asyncio.get_running_loop().call_soon(self.client.reset)  # later, so that the bytes just written are sent
        elif unclean:
            self.client.cut()
        else:
            self.client.close()

    # --- authentication on the client's behalf (`kproxy.relay.on_behalf.Ends`) ----------------------------------------

    def exchange_own(self, own: Own) -> None:
        if own.side == 0:
            self.broker.write(own.data)
        if self._flow is not None:
            self._flow.data(own.side, own.recorded, own.comment)

    def hold_client(self, held: bool) -> None:
        self.client.pause(held)

    def end_broker(self) -> None:
        if self._flow is not None:
            self._flow.end(0)
        self.broker.write_eof()
        if all(self._ended):
            self.close()

    def refuse(self, refused: Refused) -> None:
        if refused.answer:
            self.client.write(refused.answer)
        side = 0 if refused.client else 1
        self._notice(Notice(f"sasl-{side}-{refused.why}", refused.why), side)
        self.close()

    def _notice(self, notice: Notice, side: int) -> None:
        client = "a client" if self.client.peer is None else f"client {self.client.peer[0]}"
        where = client if side == 0 else f"upstream {shown(*self.target)}"
        self._relay.warn(notice.topic if notice.once else f"{notice.topic}-{where}", f"{where} {notice.text}")

    # --- back-pressure and ends --------------------------------------------------------------------------------------

    def full(self, side: int, full: bool) -> None:
        """Back-pressure: while the write buffer of `side` is full, stops reading from the other side."""
        _, other = self.sides(side)
        other.pause(full or (side == 1 and self._authenticating))

    def ended(self, side: int) -> None:
        """Called when `side` has sent FIN: the other side gets a FIN after all bytes sent before."""
        if self._core is not None and not self._ended[side]:
            self._carry_out(self._core.client_ended() if side == 0 else self._core.broker_ended())
        _, other = self.sides(side)
        self._ended[side] = True
        if self._core is None:
            return
        if self._login is not None:
            if side == 0:
                self._login.client_ended()
                return
            self._login.broken_off()
        if self._flow is not None:
            self._flow.end(side)
        if side == 1 and self._vanished and not self._ended[0]:
            self.broker.close()
            return
        other.write_eof()
        if all(self._ended):
            self.close()

    def lost(self, side: int, error: Exception | None) -> None:
        """Called when the connection of `side` is gone: ends the other connection in the same way (FIN or RST)."""
        _, other = self.sides(side)
        if side == 1 and self._login is not None:
            self._login.broken_off()
        if isinstance(error, ssl.SSLError):
            why = self._relay.tls.broken(side, error)
            self._notice(Notice(f"tls-{side}-{why}", why), side)
        if side == 1 and self._vanished and not self._ended[0]:
            self._ended[1] = True  # The client is not told.
        elif error is not None:
            if self._core is not None and side == 1:
                self._carry_out(self._core.broker_ended())
            if self._flow is not None:
                self._flow.reset(side)
            asyncio.get_running_loop().call_soon(other.reset)  # later, so that the bytes just written are sent first
        elif not self._ended[side] or other.transport is None:
            other.close()
        if self.client.transport is None and self.broker.transport is None:
            self._finished()

    def close(self) -> None:
        """Closes both connections once their write buffers are sent, the broker's first."""
        self.broker.close()
        self.client.close()

    def _finished(self) -> None:
        if self._login is not None:
            self._login.close()
        if self._flow is not None:
            self._flow.end(0)
            self._flow.end(1)
        if self._alarm is not None:
            self._alarm.cancel()
        if self._core is not None:
            self._core.dropped()
        self._relay.forget(self)


def _record_changed(flow: Flow | SelectedFlow, data: bytes, changed: list[Changed]) -> None:
    """Records bytes from a broker; the last bytes of each changed frame become a packet with the frame's comment."""
    view = memoryview(data)
    at = 0
    for one in changed:
        flow.data(1, view[at : one.start])
        flow.data(1, view[one.start : one.end], one.comment)
        at = one.end
    flow.data(1, view[at:])


class _Side(Side, asyncio.Protocol):
    """One of the two transports of a link. `peer` is the (host, port) of the client or broker at its other end."""

    __slots__ = ("_link", "peer")

    def __init__(self, link: Link, side: int, passed: list[int]) -> None:
        super().__init__(side, passed)
        self._link = link
        self.peer: Address | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = None if peer is None else (peer[0], peer[1])
        transport.set_write_buffer_limits(high=self._link.high_water)
        raw = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # keep-alives do not pass the relay, so it sends its own
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._link.connected(self.side)

    def unlike(self, data: bytes) -> None:
        self._link.received(self.side, data)

    def eof_received(self) -> bool:
        self._link.ended(self.side)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._link.lost(self.side, exc)

    def pause_writing(self) -> None:
        self._link.full(self.side, True)

    def resume_writing(self) -> None:
        self._link.full(self.side, False)

    def pause(self, paused: bool) -> None:
        """Stops reading from this transport if `paused`, else resumes it."""
        if self.transport is None or self.transport.is_closing():
            return
        with contextlib.suppress(RuntimeError):
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def write_eof(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.transport.write_eof()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def cut(self) -> None:
        """Ends the connection with FIN, without a close_notify of TLS."""
        if isinstance(self.transport, Layer):
            self.transport.cut()
        else:
            self.close()

    def reset(self) -> None:
        """Ends the connection with RST."""
        transport = self.transport
        if transport is None:
            return
        raw = transport.get_extra_info("socket")
        with contextlib.suppress(OSError, TypeError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        transport.abort()
