"""Network namespaces as machines for tests, joined by virtual cables, with IPv4 and IPv6."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.require import require, unavailable

CLONE_NEWNET = 0x40000000
_NUMBERS = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)


def require_namespaces() -> None:
    """Skip the test (in CI: fail) if network namespaces cannot be created."""
    require("ip")
    if os.geteuid():
        unavailable("network namespaces need root")


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Machine:
    """A network namespace; `run` runs a command in it, within `inside` the calling thread opens its sockets in it."""

    def __init__(self) -> None:
        self.name = f"kproxy-{os.getpid()}-{next(_NUMBERS)}"
        self.enter = ("ip", "netns", "exec", self.name)

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self.enter, *command], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(Path("/run/netns") / self.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
            yield
        finally:
            _setns(own)
            os.close(own)
            os.close(there)

    def listen(self, host: str, port: int) -> socket.socket:
        with self.inside():
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
            return listener

    def connect(self, host: str, port: int, seconds: float = 20.0) -> socket.socket:
        with self.inside():
            return socket.create_connection((host, port), seconds)


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """`count` machines without cables; a machine outlives the block while processes run on it."""
    made: list[Machine] = []
    try:
        for _ in range(count):
            machine = Machine()
            subprocess.run(["ip", "netns", "add", machine.name], check=True, timeout=60)
            made.append(machine)
            machine.run("ip", "link", "set", "lo", "up")
        yield made
    finally:
        for machine in made:
            subprocess.run(["ip", "netns", "del", machine.name], check=False, timeout=60)


@contextlib.contextmanager
def routed() -> Iterator[tuple[Machine, Machine, Machine]]:
    """A client, a forwarding gateway and a host, on nets 1 and 2.

    None has a route to anywhere else, so look-ups of host names, as SASL makes them, fail at once.
    """
    with machines(3) as (client, gateway, host):
        join(1, client, gateway)
        join(2, gateway, host)
        gateway.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for ip, nets, near, far in (
            ("-4", "10.9.0.0/16", "10.9.1.2", "10.9.2.1"),
            ("-6", "fd09::/16", "fd09:1::2", "fd09:2::1"),
        ):
            client.run("ip", ip, "route", "add", nets, "via", near)
            host.run("ip", ip, "route", "add", nets, "via", far)
        yield client, gateway, host


def join(net: int, left: Machine, right: Machine) -> None:
    """Join two machines: 10.9.NET.1 and fd09:NET::1 on the left, .2 and ::2 on the right."""
    names = (f"to-right-{net}", f"to-left-{net}")
    subprocess.run(
        ["ip", "link", "add", names[0], "netns", left.name, "type", "veth", "peer", *(names[1], "netns", right.name)],
        check=True,
        timeout=60,
    )
    for place, (machine, name) in enumerate(zip((left, right), names, strict=True), 1):
        machine.run("ip", "addr", "add", f"10.9.{net}.{place}/24", "dev", name)
        machine.run("ip", "addr", "add", f"fd09:{net}::{place}/64", "dev", name, "nodad")
        machine.run("sysctl", "-qw", f"net.ipv6.conf.{name}.accept_dad=0")  # addresses are usable at once
        machine.run("ip", "link", "set", name, "up")
