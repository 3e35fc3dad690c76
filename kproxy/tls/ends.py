"""What the relay uses of TLS: a layer for each client that comes and each broker that is dialled."""

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
    """A broker with which TLS cannot be spoken; `peer` is its address."""

    def __init__(self, why: str, peer: Address | None) -> None:
        super().__init__(why)
        self.peer = peer


@dataclass(slots=True)
class Counters:
    """Failures of TLS, over all connections."""

    clients_failed: int = 0
    brokers_failed: int = 0


@dataclass(slots=True)
class Ends:
    """Both sides' TLS; a side that is None speaks none."""

    clients: contexts.ClientSide | None = None
    brokers: contexts.BrokerSide | None = None
    counters: Counters = field(default_factory=Counters)
    greeting: set[Layer] = field(default_factory=set)
    """Clients whose handshake is not done."""

    @classmethod
    def of(cls, settings: Settings) -> Ends:
        """As the settings say. Raises TlsError, AuthorityError."""
        return cls(contexts.client_side(settings.tls, own_hosts(settings)), contexts.broker_side(settings.tls))

    def towards_client(
        self,
        inner: asyncio.Protocol,
        failed: Callable[[Layer, str], None],
        known_as: Callable[[asyncio.Transport], str],
    ) -> asyncio.Protocol:
        """The protocol for a client's transport.

        `failed` hears of a handshake that fails, and why; `known_as` says which host the client has connected to.
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
        """Why a handshake failed; None where it did not, or where somebody only tried whether the port is open."""
        if isinstance(error, HandshakeError):
            nothing = error.error is None and not error.first and not error.late
            return (
                None if nothing else reasons.of_client(error, minted=self.clients is not None and self.clients.minted)
            )
        return None if error is None else f"could not be shown a certificate: {error}"

    def towards_broker(self, inner: asyncio.Protocol, host: str) -> asyncio.Protocol:
        """The protocol for the transport to a broker; `spoken` says when it is ready."""
        side = self.brokers
        if side is None:
            return inner
        return Layer(inner, lambda incoming, outgoing, _: side.session(incoming, outgoing, host))

    async def spoken(self, protocol: asyncio.Protocol) -> None:
        """Waits until a broker's protocol is ready. Raises RefusedError, after which its connection is gone."""
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
            raise RefusedError(f"has no name that TLS can ask for: {error}", protocol.peer) from None

    def broken(self, side: int, error: ssl.SSLError) -> str:
        """What a side (0 the client, 1 the broker) meant that broke off after the handshake.

        With TLS 1.3 that is how a broker says that it wants a certificate, or another one.
        """
        failure = HandshakeError(error, b"")
        if side == 0:
            self.counters.clients_failed += 1
            return reasons.of_client(failure, minted=self.clients is not None and self.clients.minted)
        self.counters.brokers_failed += 1
        return reasons.of_broker(failure)

    def close(self) -> None:
        """Ends the connections whose handshake is not done."""
        for layer in list(self.greeting):
            layer.abort()

    def status(self) -> dict[str, Any]:
        return {name: getattr(self.counters, name) for name in self.counters.__slots__}


def own_hosts(settings: Settings) -> list[str]:
    """The names by which clients know the relay, as far as the settings tell."""
    hosts = [] if settings.listen_host in ANYWHERE else [settings.listen_host]
    if Advertise(settings.advertise).same_host:
        hosts.insert(0, split_address(settings.advertise.replace("{port}", "1"))[0])
    return hosts
