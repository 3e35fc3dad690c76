"""What an upstream is told to be."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from kproxy.relay import probe
from tests.kproxy.support import FakeBroker, exactly
from tests.support.patience import SECONDS

pytestmark = pytest.mark.timeout(60)


@contextlib.contextmanager
def answering(answer: Callable[[bytes], bytes]) -> Iterator[FakeBroker]:
    """A server that gives each connection's first bytes to `answer`, sends what it returns, and closes."""
    broker = FakeBroker()
    stopped = threading.Event()

    def serve() -> None:
        while True:
            connection = broker.accept()
            if stopped.is_set():
                connection.close()
                return
            with connection, contextlib.suppress(OSError):
                connection.sendall(answer(connection.recv(4096)))

    thread = threading.Thread(target=serve)
    thread.start()
    yield broker
    stopped.set()
    socket.create_connection(("127.0.0.1", broker.port)).close()
    thread.join(20)
    broker.close()


def problem(broker: FakeBroker) -> str | None:
    return asyncio.run(probe.problem("127.0.0.1", broker.port, SECONDS))


def test_a_broker_is_no_problem() -> None:
    with answering(lambda asked: b"\0\0\0\x0a" + asked[8:12] + bytes(6)) as broker:
        assert problem(broker) is None


def test_a_broker_that_knows_no_api_versions_is_no_problem() -> None:
    with answering(lambda asked: b"\0\0\0\x0c" + asked[8:12] + bytes(8) if asked[4:6] == b"\0\x03" else b"") as broker:
        assert problem(broker) is None


def test_http_is_named() -> None:
    with answering(lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n" if b"HTTP" in asked else b"") as broker:
        assert problem(broker) == "speaks HTTP, not Kafka"


@pytest.mark.parametrize("alerts", [True, False])
def test_tls_is_named(alerts: bool) -> None:
    alert = b"\x15\x03\x03\x00\x02\x02\x46"
    with answering(lambda asked: alert if alerts or asked[:2] == b"\x16\x03" else b"") as broker:
        assert problem(broker) == "speaks TLS: --tls-out lets kproxy speak it too"


def test_something_else_is_no_broker() -> None:
    with answering(lambda _: b"220 smtp.example ready\r\n") as broker:
        assert problem(broker) == "is not a Kafka broker: it does not answer Kafka requests"


def test_nobody_listening_is_named() -> None:
    broker = FakeBroker()
    broker.close()
    assert problem(broker) == "refused the connection"


def test_the_greeting_is_tls() -> None:
    with answering(lambda asked: asked[:2]) as broker, socket.create_connection(("127.0.0.1", broker.port)) as client:
        with contextlib.suppress(ssl.SSLError, OSError):
            client.sendall(probe._tls_greeting())
        assert exactly(client, 2) == b"\x16\x03"
