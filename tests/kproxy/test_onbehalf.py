"""Authentication on a client's behalf with sockets: a relay between raw clients and brokers that want SCRAM."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.cli.commands.run import _check as check_upstream
from kproxy.cli.exits import Exit, Failure
from kproxy.decoders.exchange import Exchange
from kproxy.relay import probe
from kproxy.runs.launcher import RelayProcess, wait_until
from kproxy.runs.settings import Cluster, SaslSettings, Settings, upstream
from tests.kproxy.core.test_gate import FRAMES, Broker, answers
from tests.kproxy.support import FakeBroker, connect, exactly, relay, to_the_end
from tests.support import sasl
from tests.support.brokers import free_ports
from tests.support.patience import SECONDS
from tests.support.scripts import request, response


class LiveBroker(FakeBroker):
    """`tests.kproxy.core.test_gate.Broker` behind a listener, any number of connections."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.seen: list[Broker] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._speak, args=(self.accept(),), daemon=True).start()

    def _speak(self, connection: socket.socket) -> None:
        broker = Broker("SCRAM-SHA-256", **self._options)
        self.seen.append(broker)
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(1 << 16):
                connection.sendall(broker.take(data))


@pytest.fixture
def broker() -> Iterator[LiveBroker]:
    running = LiveBroker(lifetime_ms=1)
    yield running
    running.close()


@pytest.fixture
def told(tmp_path: Path) -> SaslSettings:
    return SaslSettings("SCRAM-SHA-256", str(sasl.credentials(tmp_path, "SCRAM-SHA-256")))


def test_a_client_sends_at_once_and_ends(broker: LiveBroker, told: SaslSettings, tmp_path: Path) -> None:
    recording = tmp_path / "recording.pcapng"
    with relay(broker.address, record_to=recording, sasl=told) as running, connect(running.bootstrap) as client:
        client.sendall(b"".join(FRAMES))
        client.shutdown(socket.SHUT_WR)
        assert to_the_end(client) == answers(FRAMES)
    (seen,) = broker.seen
    assert seen.logins >= 1
    assert [number for _, number, name in seen.seen if name != "kproxy"] == [5, 6, -7, 0x6B707201]
    assert sasl.PASSWORD.encode() not in recording.read_bytes()
    found = [item for item in read(recording) if isinstance(item, Exchange)]
    sessions = [one.session for one in found if one.session is not None]
    assert sessions[-1].principal == sasl.USER
    assert sessions[-1].authentications == seen.logins
    assert {one.status.value for one in found} == {"ok"}


def test_a_session_is_renewed_under_way(broker: LiveBroker, told: SaslSettings) -> None:
    with relay(broker.address, sasl=told) as running, connect(running.bootstrap) as client:
        for number in range(20):
            client.sendall(request(3, 12, number))
            assert exactly(client, len(response(3, 12, number))) == response(3, 12, number)
    assert broker.seen[0].logins >= 2


def test_the_file_is_read_anew(broker: LiveBroker, told: SaslSettings, tmp_path: Path) -> None:
    sasl.credentials(tmp_path, "SCRAM-SHA-256", "another")
    with relay(broker.address, sasl=told) as running:
        with connect(running.bootstrap) as client:
            assert to_the_end(client) == b""
        assert told_of(running, "SASL_AUTHENTICATION_FAILED")
        sasl.credentials(tmp_path, "SCRAM-SHA-256")
        with connect(running.bootstrap) as client:
            client.sendall(FRAMES[0])
            assert exactly(client, 8)
        (tmp_path / "SCRAM-SHA-256.login").unlink()
        with connect(running.bootstrap) as client:
            assert to_the_end(client) == b""
        assert told_of(running, "cannot read")


def test_a_client_that_speaks_tls_is_refused(broker: LiveBroker, told: SaslSettings) -> None:
    with relay(broker.address, sasl=told) as running, connect(running.bootstrap) as client:
        client.sendall(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500))
        with contextlib.suppress(ConnectionResetError):
            assert to_the_end(client) == b""
        assert told_of(running, "client 127.0.0.1 is refused: kproxy authenticates (--sasl) only for")
        assert told_of(running, "client 127.0.0.1 sends TLS, not Kafka's plain protocol: --tls-in auto lets")
    assert all(name == "kproxy" for _, _, name in broker.seen[0].seen)


def test_a_broker_that_hangs_up(told: SaslSettings) -> None:
    silent = FakeBroker()
    with relay(silent.address, sasl=told) as running, connect(running.bootstrap) as client:
        silent.accept().close()
        with contextlib.suppress(ConnectionResetError):
            assert to_the_end(client) == b""
        assert told_of(running, "while kproxy authenticates")
    silent.close()


def test_each_cluster_has_its_own(broker: LiveBroker, told: SaslSettings) -> None:
    other = LiveBroker()
    port = free_ports(1)[0]
    more = (Cluster("second", upstream(other.address), "127.0.0.1", port, sasl=SaslSettings()),)
    with relay(broker.address, sasl=told, name="first", more=more) as running:
        for address in (running.bootstrap, f"127.0.0.1:{port}"):
            with connect(address) as client:
                client.sendall(FRAMES[0])
                assert exactly(client, 8)
    assert (broker.seen[0].logins >= 1, other.seen[0].logins) == (True, 0)
    other.close()


def told_of(running: RelayProcess, text: str) -> bool:
    """Whether the user is told so, sooner or later."""
    return wait_until(lambda: any(text in one for one in running.command("status")["messages"]), SECONDS)


@pytest.mark.parametrize(
    ("password", "why"),
    [
        (sasl.PASSWORD, ""),
        ("wrong", "refuses kproxy's credentials: SASL_AUTHENTICATION_FAILED"),
        (None, "cannot authenticate kproxy"),
    ],
)
def test_a_check_before_the_run_authenticates(
    broker: LiveBroker, tmp_path: Path, password: str | None, why: str
) -> None:
    path = sasl.credentials(tmp_path, "SCRAM-SHA-256")
    path.write_text(path.read_text().replace(sasl.PASSWORD, password) if password else "nothing")
    host, _, port = broker.address.rpartition(":")
    chosen = Settings(upstream=((host, int(port)),), sasl=SaslSettings("SCRAM-SHA-256", str(path)))
    if not why:
        check_upstream(chosen)
        return
    with pytest.raises(Failure, match=f"upstream {broker.address} {why}") as failed:
        check_upstream(chosen)
    assert failed.value.exit_code == Exit.CONNECT


def test_a_broker_that_ends_the_login_fails_the_check(tmp_path: Path) -> None:
    path = sasl.credentials(tmp_path, "SCRAM-SHA-256")
    listener = FakeBroker()
    threading.Thread(target=lambda: listener.accept().close(), daemon=True).start()
    asked = probe.refusal("127.0.0.1", listener.port, SaslSettings("SCRAM-SHA-256", str(path)), SECONDS)
    assert asyncio.run(asked) == "closes the connection while kproxy authenticates"
    listener.close()
