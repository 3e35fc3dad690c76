"""Which port a node gets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.core.brokers import Node
from kproxy.relay import ports
from kproxy.relay.limits import Share
from kproxy.relay.listeners import LAST, Listeners, mapped
from tests.support.brokers import free_base

PLENTY = Share(1000, 2000, "a test")


@given(st.integers(1, LAST), st.integers(-(2**31), 2**31 - 1))
def test_a_port_is_base_plus_id_and_always_a_port(base: int, node_id: int) -> None:
    port = mapped(base, node_id)
    assert base <= port <= LAST
    if 0 <= node_id <= LAST - base:
        assert port == base + node_id


class Opened:
    """Listeners on loopback, and what they say and want done later."""

    def __init__(
        self, base: int, *, controllers: int | None = None, strict: bool = False, share: Share = PLENTY
    ) -> None:
        self.served: list[tuple[int, Node]] = []
        self.sockets: list[socket.socket] = []
        self.warnings: list[str] = []
        self.later: list[Callable[[], None]] = []
        self.listeners = Listeners(
            "127.0.0.1",
            base,
            controllers,
            self._serve,
            lambda _, text: self.warnings.append(text),
            lambda _, callback: self.later.append(callback),
            share,
            strict=strict,
        )

    def _serve(self, sockets: list[socket.socket], node: Node) -> None:
        self.sockets += sockets
        self.served.append((sockets[0].getsockname()[1], node))


@pytest.fixture
def base() -> int:
    return free_base(102)


def node(node_id: int, *, controller: bool = False) -> Node:
    return Node(node_id, "kafka", 9092, controller=controller)


def test_ports_are_the_same_whatever_comes_first(base: int) -> None:
    far = LAST + 1 - base + 5  # beyond the last port, so that it begins again at the base
    for order in ([1, 2, far], [far, 2, 1]):
        opened = Opened(base)
        found = {node_id: opened.listeners.open(node(node_id)) for node_id in order}
        assert found == {node_id: mapped(base, node_id) for node_id in order}
        assert opened.warnings == []
        for one in opened.sockets:
            one.close()


def test_controllers_have_a_base_of_their_own(base: int) -> None:
    opened = Opened(base, controllers=base + 100)
    assert opened.listeners.open(node(1)) == base + 1
    assert opened.listeners.open(node(1, controller=True)) == base + 101
    for one in opened.sockets:
        one.close()


def test_a_taken_port_is_told_of_and_another_taken(base: int) -> None:
    (other,) = ports.bind("127.0.0.1", base + 1)
    opened = Opened(base)
    port = opened.listeners.open(node(1))
    assert port != base + 1
    assert opened.served == [(port, node(1))]
    (warning,) = opened.warnings
    assert f"port {base + 1} of broker 1 is taken: its listener uses {port}" in warning
    for one in (other, *opened.sockets):
        one.close()


def test_strict_ports_wait_for_the_one(base: int) -> None:
    (other,) = ports.bind("127.0.0.1", base + 1)
    opened = Opened(base, strict=True)
    assert opened.listeners.open(node(1)) == base + 1
    assert opened.served == []
    assert len(opened.warnings) == 1
    opened.later.pop()()
    assert opened.served == []
    other.close()
    opened.later.pop()()
    assert opened.served == [(base + 1, node(1))]
    assert opened.later == []
    for one in opened.sockets:
        one.close()


def test_a_reserved_port_is_nobodys(base: int) -> None:
    opened = Opened(base)
    opened.listeners.reserve(base + 1)
    assert opened.listeners.open(node(1)) != base + 1
    assert len(opened.warnings) == 1
    for one in opened.sockets:
        one.close()


@pytest.mark.parametrize(
    ("share", "served", "why"),
    [
        (Share(2, 100, "a test"), 2, "2 nodes have listeners (--max-listeners 2)"),
        (Share(100, 3, "a test"), 3, "3 nodes have listeners (a test; listeners may use a quarter of them)"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_nodes_beyond_the_bound_have_a_port_at_which_nobody_listens(
    base: int, share: Share, served: int, why: str, *, strict: bool
) -> None:
    opened = Opened(base, share=share, strict=strict)
    assert [opened.listeners.open(node(number)) for number in range(6)] == [
        *(base + number for number in range(served)),
        *[None] * (6 - served),
    ]
    assert len(opened.sockets) == served
    assert {warning.partition(": ")[2].rpartition(";")[0] for warning in opened.warnings} == {why}
    port = opened.listeners.nowhere()
    assert opened.listeners.nowhere() == port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    with pytest.raises(OSError, match="in use"):
        ports.bind("127.0.0.1", port)
    for one in (*opened.sockets, *opened.listeners._nowhere):
        one.close()


def test_ports_that_are_waited_for_count(base: int) -> None:
    taken = [ports.bind("127.0.0.1", base + number)[0] for number in range(3)]
    opened = Opened(base, share=Share(2, 100, "a test"), strict=True)
    assert [opened.listeners.open(node(number)) for number in range(3)] == [base, base + 1, None]
    assert len(opened.later) == 2
    for one in taken:
        one.close()


def test_a_node_for_which_no_socket_can_be_had_is_told_of(base: int, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(base)

    def fails(*_: object, **__: object) -> list[socket.socket]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ports, "bind", fails)
    assert opened.listeners.open(node(1)) is None
    (warning,) = opened.warnings
    assert "Too many open files" in warning
    with pytest.raises(OSError, match="Too many"):
        opened.listeners.nowhere()
