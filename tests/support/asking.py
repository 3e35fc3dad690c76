"""A client that sends a broker one request at a time, in any version."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from kproxy.decoders.writer import write
from tests.kproxy.core.frames import DEFINITIONS, decoded, request
from tests.support.patience import SECONDS


class Asking:
    """One connection to "host:port"."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def frame(self, api_key: int, version: int, values: dict[str, Any]) -> bytes:
        """Send a request; the response's frame."""
        message = DEFINITIONS.request(api_key, version)
        assert message is not None
        self._correlation_id += 1
        self._socket.sendall(request(api_key, version, self._correlation_id, write(message, version, values)))
        head = self._exactly(4)
        return head + self._exactly(int.from_bytes(head, "big"))

    def ask(self, api_key: int, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Send a request; the response's decoded body."""
        return decoded(self.frame(api_key, version, values), api_key, version)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            piece = self._socket.recv(size - len(got))
            assert piece, "the broker ended the connection"
            got += piece
        return bytes(got)
