"""Under which names brokers are asked for, and kproxy shows itself, where a host alone does not say it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kproxy.core.shared import Budget
from kproxy.relay import probe
from kproxy.relay.server import Relay
from kproxy.relay.tunnel import Tunnel
from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Settings, TlsSettings
from kproxy.tls.authority import Authority, default_directory
from kproxy.tls.contexts import broker_side
from kproxy.tls.ends import own_hosts
from kproxy.transparent.intercept import Interception
from tests.kproxy.core.frames import request, response
from tests.kproxy.support import FakeBroker, connect, places
from tests.support.certificates import TestCa
from tests.support.patience import SECONDS
from tests.support.proxies import Connect, Socks5
from tests.support.tlspeer import TlsPeer, client_context, server_context

pytestmark = pytest.mark.timeout(60)

NAME = "broker.example"
ASKED = request(12, 0, 7)


@dataclass
class Broker(FakeBroker):
    """Has a certificate of NAME alone, and notes the names that it is `asked` for."""

    directory: Path
    asked: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        ca = TestCa(self.directory)
        self.tls = TlsSettings(out=True, out_ca=str(ca.path))
        self._context = server_context(ca.leaf("broker", NAME))
        self._context.sni_callback = self._note

    def _note(self, _: ssl.SSLObject | ssl.SSLSocket, name: str | None, __: ssl.SSLContext) -> None:
        self.asked.append(name)

    def speak(self) -> TlsPeer:
        return TlsPeer(self.accept(), self._context, server=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Broker]:
    places(monkeypatch, tmp_path)
    made = Broker(tmp_path)
    yield made
    made.close()


def test_a_broker_that_was_dialled_by_address_is_asked_for_the_client_s_name(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def target(_: Interception, __: Any) -> tuple[str, int]:
        return "127.0.0.1", broker.port

    monkeypatch.setattr(Interception, "target", target)
    tls = TlsSettings(in_certificate=TlsSettings.AUTO, out=True, out_ca=broker.tls.out_ca)
    settings = Settings(upstream=(), listen_port=0, transparent="redirect", clients="remote", tls=tls)

    def talk(bootstrap: str) -> bytes:
        client = TlsPeer(connect(bootstrap), client_context(Authority.open(default_directory()).path), name=NAME)
        with client.socket:
            client.send(ASKED)
            met = broker.speak()
            with met.socket:
                return met.exactly(len(ASKED))

    async def through_a_relay() -> bytes:
        relay = Relay(settings, None, lambda _: None, Budget())
        await relay.start()
        try:
            return await asyncio.to_thread(talk, relay.bootstrap)
        finally:
            await relay.drain()

    assert asyncio.run(through_a_relay()) == ASKED
    assert broker.asked == [NAME]


def test_kproxy_has_a_certificate_of_the_address_that_a_client_meant(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that knows its broker by address asks for no name; redirected, it comes to another address."""
    meant = "127.0.0.9"
    monkeypatch.setattr(Interception, "target", lambda *_: (meant, broker.port))
    tls = TlsSettings(in_certificate=TlsSettings.AUTO)
    settings = Settings(upstream=(), listen_port=0, transparent="redirect", clients="remote", tls=tls)

    def shake_hands(bootstrap: str) -> None:
        TlsPeer(connect(bootstrap), client_context(Authority.open(default_directory()).path), name=meant).socket.close()

    async def with_a_relay() -> None:
        relay = Relay(settings, None, lambda _: None, Budget())
        await relay.start()
        try:
            await asyncio.to_thread(shake_hands, relay.bootstrap)
        finally:
            await relay.drain()

    asyncio.run(with_a_relay())


@pytest.mark.parametrize("kind", [Socks5, Connect])
def test_a_broker_behind_a_proxy_is_asked_for_its_own_name(
    broker: Broker, kind: type[Socks5 | Connect], tmp_path: Path
) -> None:
    recording = tmp_path / "r.pcapng"
    with kind({NAME: "127.0.0.1"}) as way:
        settings = Settings(
            upstream=((NAME, broker.port),),
            upstream_proxy=way.url,
            listen_port=0,
            probe=False,
            record_to=str(recording),
            tls=broker.tls,
        )
        with RelayProcess(settings) as process, connect(process.bootstrap) as client:
            client.sendall(ASKED)
            met = broker.speak()
            with met.socket:
                assert met.exactly(len(ASKED)) == ASKED
            process.stop()
        held = recording.read_bytes()
        assert f"kproxy connected to broker {NAME}:{broker.port} through {way.url} from ".encode() in held
        assert f"client side plaintext; upstream TLSv1.3, TLS_AES_256_GCM_SHA384, server name {NAME}".encode() in held

        async def probed() -> str | None:
            through, side = Tunnel.parse(way.url), broker_side(broker.tls)
            asking = probe.problem(NAME, broker.port, SECONDS, through=through, side=side)
            found, _ = await asyncio.gather(asking, asyncio.to_thread(answer))
            return found

        def answer() -> None:
            met = broker.speak()
            with met.socket:
                correlation_id = int.from_bytes(met.exactly(12)[8:12], "big")
                met.send(response(12, 0, correlation_id, {}))

        assert asyncio.run(probed()) is None
    assert broker.asked == [NAME, NAME]


@pytest.mark.parametrize(
    ("advertise", "hosts"),
    [
        ("", ["127.0.0.1"]),
        ("proxy.example:{port}", ["proxy.example", "127.0.0.1"]),
        ("{broker}.proxy.example", ["127.0.0.1"]),
        ("{host}", ["127.0.0.1"]),
    ],
)
def test_one_advertised_host_is_ours(advertise: str, hosts: list[str]) -> None:
    assert own_hosts(Settings(upstream=(), advertise=advertise)) == hosts
