"""A TLS connection between two OpenSSL endpoints, and its packets."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from kproxy.captures.formats.pcapng_writer import ACK, FIN, SYN, Direction
from tests.captures import files

START = 1_795_240_934_000_000_000
MSS = 1000


class Wire:
    """A TLS connection between two OpenSSL endpoints, and its packets."""

    def __init__(
        self, directory: Path, certificate: tuple[Path, Path], *, port: int = 50000, session: Any = None, **limits: Any
    ) -> None:
        self.log = directory / "keys.log"
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server.load_cert_chain(*certificate)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        if "version" in limits:
            client.maximum_version = client.minimum_version = limits["version"]
        if "ciphers" in limits:
            for context in (client, server):
                context.set_ciphers(limits["ciphers"])
        if limits.get("logged", True):
            client.keylog_filename = str(self.log)
        self._into = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        contexts = limits.get("contexts") or (client, server)
        self.contexts = contexts
        self.ends = (
            contexts[0].wrap_bio(self._into[0], self._out[0], session=session),
            contexts[1].wrap_bio(self._into[1], self._out[1], server_side=True),
        )
        ends = (("10.0.0.1", port), ("10.0.0.2", 9093))
        self._directions = Direction(ends[0], ends[1], 7), Direction(ends[1], ends[0], 9)
        self.packets: list[files.Packet] = []
        self._time = START
        self._send(0, b"", SYN)
        self._send(1, b"", SYN | ACK)
        self._shake()

    def _send(self, side: int, data: bytes, flags: int = ACK) -> None:
        self._time += 1_000_000
        mine, other = self._directions[side], self._directions[1 - side]
        before, _ = mine.packet(self._time, data, other.sequence, flags)
        self.packets.append((self._time, before[28:] + data))

    def _flush(self, side: int) -> None:
        """Send in packets what an endpoint has written."""
        data = self._out[side].read()
        for start in range(0, len(data), MSS):
            self._send(side, data[start : start + MSS])
        self._into[1 - side].write(data)

    def _shake(self) -> None:
        done = [False, False]
        while not all(done):
            for side in (0, 1):
                if not done[side]:
                    try:
                        self.ends[side].do_handshake()
                        done[side] = True
                    except ssl.SSLWantReadError:
                        pass
                    self._flush(side)

    def say(self, side: int, data: bytes) -> None:
        for start in range(0, len(data), 16_000):
            self.ends[side].write(data[start : start + 16_000])
            self._flush(side)
            got = b""
            while len(got) < len(data[start : start + 16_000]):
                got += self.ends[1 - side].read(1 << 16)
            assert got == data[start : start + 16_000]

    def end(self) -> list[files.Packet]:
        self._send(0, b"", FIN | ACK)
        self._send(1, b"", FIN | ACK)
        return self.packets
