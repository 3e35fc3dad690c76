"""The relay's interface to TLS: makes a layer for each client that connects and each broker that is dialled."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kproxy.core.brokers import Advertise, split_address
from kproxy.relay.ports import ANYWHERE
from kproxy.runs.settings import Settings
from kproxy.tls import contexts, reasons
from kproxy.tls.layer import Address, HandshakeError, Layer


class RefusedError(Exception):
    """The TLS handshake with a broker failed; `peer` is the broker's address."""

    def __init__(self, why: str, peer: Address | None) -> None:
        super().__init__(why)
        self.peer = peer


@dataclass(slots=True)
class Counters:
    """Numbers of TLS failures over all connections."""

    clients_failed: int = 0
    brokers_failed: int = 0


@dataclass(slots=True)
class Ends:
    """TLS towards clients and towards brokers; None stands for a side without TLS."""

    clients: contexts.ClientSide | None = None
    brokers: contexts.BrokerSide | None = None
    counters: Counters = field(default_factory=Counters)
    greeting: set[Layer] = field(default_factory=set)
    """Layers of clients whose handshake is not complete."""

    @classmethod
    def of(cls, settings: Settings) -> Ends:
        """TLS as the settings ask for it. Raises TlsError, AuthorityError."""
        return cls(contexts.client_side(settings.tls, own_hosts(settings)), contexts.broker_side(settings.tls))

    def towards_client(
        self,
        inner: asyncio.Protocol,
        failed: Callable[[Layer, str], None],
        known_as: Callable[[asyncio.Transport], str],
    ) -> asyncio.Protocol:
        """The protocol for a client's transport: `inner` itself without TLS, else a layer around it.

        `failed(layer, reason)` is called if the handshake fails; `known_as(transport)` returns the host that the client
        has connected to.
        """
        side = self.clients
        if side is None:
            return inner
        layer = Layer(inner, lambda incoming, outgoing, outer: side.session(incoming, outgoing, known_as(outer)))
        self.greeting.add(layer)

        def done(ready: asyncio.Future[None]) -> None:
            self.greeting.discard(layer)
            why = None if ready.cancelled() else self._client_reason(ready.exception())
            if why is not None:
                self.counters.clients_failed += 1
                failed(layer, why)

        layer.ready.add_done_callback(done)
        return layer

    def _client_reason(self, error: BaseException | None) -> str | None:
        """Why a handshake with a client failed; None if it did not.

        Also None if the client closed the connection without a byte, as port checks do.
        """
        if isinstance(error, HandshakeError):
            nothing = error.error is None and not error.first and not error.late
            return (
                None if nothing else reasons.of_client(error, minted=self.clients is not None and self.clients.minted)
            )
        return None if error is None else f"got no certificate from kproxy: {error}"

    def towards_broker(self, inner: asyncio.Protocol, host: str) -> asyncio.Protocol:
        """The protocol for the transport to a broker: `inner` itself without TLS, else a layer.

        Await `spoken` before use.
        """
        side = self.brokers
        if side is None:
            return inner
        return Layer(inner, lambda incoming, outgoing, _: side.session(incoming, outgoing, host))

    async def spoken(self, protocol: asyncio.Protocol) -> None:
        """Waits until the handshake with a broker is complete.

        If it fails, closes the connection and raises RefusedError.
        """
        if not isinstance(protocol, Layer):
            return
        try:
            await protocol.ready
        except asyncio.CancelledError:
            protocol.abort()
            raise
        except HandshakeError as failure:
            self.counters.brokers_failed += 1
            raise RefusedError(reasons.of_broker(failure), protocol.peer) from None
        except ValueError as error:
            self.counters.brokers_failed += 1
            raise RefusedError(f"has a host name that TLS cannot send as server name: {error}", protocol.peer) from None

    def broken(self, side: int, error: ssl.SSLError) -> str:
        """Explains why `side` (0 the client, 1 the broker) ended TLS after the handshake.

        With TLS 1.3, a broker that requires a client certificate, or refuses kproxy's, reports that only after the
        handshake.
        """
        failure = HandshakeError(error, b"")
        if side == 0:
            self.counters.clients_failed += 1
            return reasons.of_client(failure, minted=self.clients is not None and self.clients.minted)
        self.counters.brokers_failed += 1
        return reasons.of_broker(failure)

    def close(self) -> None:
        """Ends the connections of clients whose handshake is not complete."""
        for layer in list(self.greeting):
            layer.abort()

    def status(self) -> dict[str, Any]:
        return {name: getattr(self.counters, name) for name in self.counters.__slots__}


def own_hosts(settings: Settings) -> list[str]:
    """The host names of the relay that the settings name."""
    hosts = [] if settings.listen_host in ANYWHERE else [settings.listen_host]
    if Advertise(settings.advertise).same_host:
        hosts.insert(0, split_address(settings.advertise.replace("{port}", "1"))[0])
    return hosts
