"""The brokers' side of a relay: which addresses a link may dial, the way there, and what the recording says of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from typing import Protocol

from kproxy.core.brokers import Node
from kproxy.core.leaks import Address
from kproxy.recording.recorder import Recorder
from kproxy.relay import probe, tunnel
from kproxy.relay.facts import connection_facts, listener_in_words
from kproxy.relay.side import LinkSide
from kproxy.relay.warnings import Warnings
from kproxy.runs.settings import Settings, shown
from kproxy.tls.ends import Ends
from kproxy.transparent.intercept import Interception, RefusedError


class Dialled(Protocol):
    """The part of a link's interface that concerns its way to the broker (`kproxy.relay.link.Link`)."""

    node: Node | None
    target: Address

    @property
    def client(self) -> LinkSide: ...

    @property
    def broker(self) -> LinkSide: ...

    @property
    def asked(self) -> str | None: ...


class Upstream:
    """The way of one relay's links to their brokers."""

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder | None,
        ends: Ends,
        interception: Interception | None,
        warnings: Warnings,
    ) -> None:
        self._settings = settings
        self._recorder = recorder
        self._tls = ends
        self._interception = interception
        self._warnings = warnings
        self._tunnel = None if settings.upstream_proxy is None else tunnel.Tunnel.parse(settings.upstream_proxy)

    def targets(self, link: Dialled) -> list[Address]:
        """The addresses to try for a client, in order: the bootstrap servers, the address of the listener's node, or
        the client's original destination.

        Empty if kproxy refuses a client in transparent mode, or if that client has closed its connection.
        """
        if self._interception is not None:
            try:
                return [self._interception.target(link.client.transport)]
            except RefusedError as refused:
                self._warnings.warn(refused.topic, str(refused))
            except OSError:  # the client has closed the connection
                pass
            return []
        return list(self._settings.upstream) if link.node is None else [(link.node.host, link.node.port)]

    async def dial(self, link: Dialled, host: str, port: int) -> None:
        """Connects a link to the broker at (host, port).

        Raises OSError, UnicodeError, and RefusedError from `kproxy.tls.ends`.
        """
        name = host
        if self._interception is None:
            way = await tunnel.way(self._tunnel, host, port)
        else:
            way = {"sock": await self._interception.connect(host, port)}
            name = link.asked or host
        protocol = self._tls.towards_broker(link.broker, name)
        await asyncio.get_running_loop().create_connection(lambda: protocol, **way)
        await self._tls.spoken(protocol)

    def recorded(self, target: Address, peer: Address | None) -> Address | None:
        """The broker's address for the recording; `target` is the address that kproxy dialled, `peer` that of the
        socket's other end.
        """
        return tunnel.recorded(self._tunnel, target, peer)

    def facts(self, link: Dialled, *, refusal: str = "") -> list[str]:
        """The lines for the recording about a connection, or with `refusal` about an attempt that failed."""
        broker = None if refusal else link.broker
        if self._interception is None:
            way = listener_in_words(link.node, self._settings.name)
        else:
            way = f"on its way to {shown(*link.target)}"
        return connection_facts(link.client, broker, link.target, way, self._tunnel, refusal)

    async def check(self) -> None:
        """Warns the user if none of the bootstrap servers answers as a Kafka broker."""
        wrong = []
        for host, port in self._settings.upstream:
            why = await probe.problem(host, port, through=self._tunnel, side=self._tls.brokers)
            if why is None:
                return
            wrong.append((host, port, why))
        for host, port, why in wrong:
            self.warn(host, port, why)

    def warn(self, host: str, port: int, why: str) -> None:
        """Warns the user of a broker that cannot be used; `why` continues a sentence that begins with its address."""
        self._warnings.warn(f"upstream-{host}:{port}-{why}", f"upstream {shown(host, port)} {why}")

    def attempt(self, client: Address | None, target: Address | None, facts: Sequence[str]) -> None:
        """Records a failed connection from `client` to `target`, if both are known and are IP addresses."""
        if self._recorder is not None and client is not None and target is not None:
            with contextlib.suppress(ValueError):
                self._recorder.connection(client, target, accepted=False, facts=facts)

    async def failed(self, link: Dialled, host: str, port: int, *, refused: bool) -> None:
        """Records a failed attempt to connect to a broker, once for each address of the broker's name."""
        client = link.client.peer
        if self._recorder is None or client is None:
            return
        facts = self.facts(link, refusal="did not accept")
        if self._tunnel is not None:  # the proxy resolves the name, so kproxy does not know the broker's addresses
            self.attempt(client, (host, port), facts)
            return
        accepted = False if refused else None
        with contextlib.suppress(OSError, UnicodeError):
            for found in await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM):
                with contextlib.suppress(ValueError):  # raised if one address is IPv4 and the other IPv6
                    self._recorder.connection(client, (str(found[4][0]), port), accepted=accepted, facts=facts)
