"""Brokers behind a SOCKS5 or HTTP proxy, through the relay's process."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import socket
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.relay import probe
from kproxy.relay.tunnel import PASSWORD, USER, Tunnel, TunnelError
from kproxy.runs.launcher import RelayProcess, wait_until
from kproxy.runs.settings import Settings, proxy, upstream
from tests.kproxy.core.frames import naming, request, response
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.support.patience import SECONDS
from tests.support.proxies import Connect, Socks5

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]

KINDS = [Socks5, Connect]
NAMES = {"kafka-1.inside": "127.0.0.1"}
SECRET = "only-a-test"
Kind = type[Socks5] | type[Connect]


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USER, raising=False)
    monkeypatch.delenv(PASSWORD, raising=False)


def settings(brokers: str, through: str, record_to: Path | None = None) -> Settings:
    return Settings(
        upstream=upstream(brokers),
        upstream_proxy=through,
        listen_port=0,
        probe=False,
        record_to=None if record_to is None else str(record_to),
        scratch=16 << 20,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("credentials", [None, ("me", SECRET)], ids=["open", "credentials"])
def test_names_are_resolved_behind_the_proxy_and_nothing_goes_past_it(
    broker: FakeBroker, kind: Kind, credentials: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if credentials is not None:
        monkeypatch.setenv(USER, credentials[0])
        monkeypatch.setenv(PASSWORD, credentials[1])
    answer = naming(3, 9, 1, [(1, "kafka-1.inside", broker.port)])
    with (
        kind(NAMES, credentials) as way,
        RelayProcess(settings(f"kafka-1.inside:{broker.port}", way.url)) as process,
    ):
        with connect(process.bootstrap) as client:
            client.sendall(request(3, 9, 1))
            with broker.accept() as side:
                assert exactly(side, len(request(3, 9, 1))) == request(3, 9, 1)
                side.sendall(answer)
                size = int.from_bytes(exactly(client, 4), "big")
                assert b"kafka-1.inside" not in exactly(client, size)
        port = process.command("status")["brokers"]["1"]["port"]
        with connect(f"127.0.0.1:{port}") as client, broker.accept() as side:
            client.sendall(b"\0\0\0\x08")
            assert exactly(side, 4) == b"\0\0\0\x08"
        assert way.asked == [("kafka-1.inside", broker.port)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_of_ipv6(kind: Kind) -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        kind({}) as way,
        RelayProcess(settings(f"[::1]:{listener.getsockname()[1]}", way.url)) as process,
        connect(process.bootstrap) as client,
    ):
        listener.settimeout(SECONDS)
        client.sendall(b"\0\0\0\x08")
        side, _ = listener.accept()
        with side:
            assert exactly(side, 4) == b"\0\0\0\x08"
        assert way.asked == [("::1", listener.getsockname()[1])]


@pytest.mark.parametrize("kind", KINDS)
def test_the_recording_has_the_brokers_address(broker: FakeBroker, kind: Kind, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    with (
        kind({}) as way,
        RelayProcess(settings(broker.address, way.url, recording)) as process,
        connect(process.bootstrap) as client,
    ):
        client.sendall(request(12, 0, 1))
        with broker.accept() as side:
            exactly(side, len(request(12, 0, 1)))
            side.sendall(response(12, 0, 1, {}))
            exactly(client, len(response(12, 0, 1, {})))
        process.stop()
    reader = read(recording)
    found = [item for item in reader if isinstance(item, Exchange)]
    reader.close()
    assert [one.connection.broker for one in found] == [broker.address]
    assert f"kproxy connected to broker {broker.address} through {way.url} from ".encode() in recording.read_bytes()


@pytest.mark.parametrize(
    ("kind", "said"), [(Socks5, "Connection refused by destination host"), (Connect, "'HTTP/1.1 502 Bad Gateway'")]
)
def test_a_refusal_behind_the_proxy_is_named(broker: FakeBroker, kind: Kind, said: str) -> None:
    broker.close()
    with kind({}) as way, RelayProcess(settings(broker.address, way.url)) as process:
        with connect(process.bootstrap) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        wanted = f"upstream {broker.address} cannot be reached: {way.url} refused the connection: {said}"
        assert wanted in process.command("status")["messages"]


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_credentials_are_named_and_not_told(
    broker: FakeBroker, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(USER, "me")
    monkeypatch.setenv(PASSWORD, "wrong-and-private")
    with kind({}, ("me", SECRET)) as way:
        why = asyncio.run(probe.problem("127.0.0.1", broker.port, SECONDS, through=Tunnel.parse(way.url)))
    assert why is not None
    assert "refused the connection" in why
    assert "private" not in why


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_a_proxy_that_is_not_there_is_named(broker: FakeBroker, scheme: str) -> None:
    gone = FakeBroker()
    gone.close()
    with RelayProcess(
        dataclasses.replace(settings(broker.address, f"{scheme}://{gone.address}"), probe=True)
    ) as process:
        wanted = f"{scheme}://{gone.address} cannot be reached: Connection refused"
        assert wait_until(lambda: any(wanted in one for one in process.command("status")["messages"]), SECONDS)


async def test_a_proxy_whose_name_is_unknown_is_told_in_the_systems_words() -> None:
    with pytest.raises(TunnelError) as raised:
        await Tunnel.parse("socks5://proxy.invalid:1080").connect("kafka", 9092)
    assert re.fullmatch(r"socks5://proxy\.invalid:1080 cannot be reached: [A-Z][\w ]+", str(raised.value))


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_goes_through_the_proxy(broker: FakeBroker, kind: Kind) -> None:
    async def asked(through: Tunnel) -> str | None:
        found = asyncio.create_task(probe.problem("kafka-1.inside", broker.port, SECONDS, through=through))
        side = await asyncio.to_thread(broker.accept)
        head = await asyncio.to_thread(exactly, side, 12)
        side.sendall(b"\0\0\0\x06" + head[8:12] + b"\0\0")
        answer = await found
        side.close()
        return answer

    with kind(NAMES) as way:
        assert asyncio.run(asked(Tunnel.parse(way.url))) is None


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2", b"x" * 40_000, b"\r\n\r\n", b"SSH-2.0-x\r\n\r\n"])
@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_what_is_no_proxy_is_refused(scheme: str, answer: bytes) -> None:
    async def tried() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(OSError, match=f"{scheme}://127.0.0.1:{port}"):
                await Tunnel.parse(f"{scheme}://127.0.0.1:{port}").connect("a", 1)

    asyncio.run(tried())


@pytest.mark.parametrize("text", ["socks5://h", "socks5h://h:1", "http://[::1]:3128", "http://proxy/"])
def test_addresses_of_proxies(text: str) -> None:
    assert Tunnel.parse(proxy(text)) == Tunnel.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("h:1", "invalid proxy"), ("ftp://h:1", "invalid proxy"), ("http://", "invalid proxy"),
     ("http://h/path", "invalid proxy"),
     ("socks5://me:secret@h:1", "credentials in a URL are visible"), ("socks5://h:99999", "Port out of range")],
)  # fmt: skip
def test_what_is_no_proxys_address(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        proxy(text)
    assert "secret" not in str(raised.value)
