"""Decrypts one TLS connection with secrets of a key log: takes both sides' records, gives their content. Sans-IO."""

from __future__ import annotations

from typing import Final

from kproxy.captures.tls.ciphers import SUITES, Aead13, BadRecordError, Opener, Suite, next_secret, openers_1_2
from kproxy.captures.tls.keylog import Secrets

CLIENT, SERVER = 0, 1
HEADER: Final = 5
LONGEST: Final = (1 << 14) + 2048
"""Maximum size of a record's body in bytes."""
MOST_HANDSHAKE: Final = 1 << 20
MOST_TRIES: Final = 2048
"""Maximum number of record sequence numbers that are tried after a gap."""
_CHANGE_CIPHER, _ALERT, _HANDSHAKE, _APPLICATION = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO, _FINISHED, _KEY_UPDATE = 1, 2, 20, 24
_RETRY: Final = bytes.fromhex("CF21AD74E59A6111BE1D8C021E65B891C2A211167ABB8C5E079E09E2C8A8339C")
"""The random value that marks a ServerHello as a HelloRetryRequest (RFC 8446)."""
_VERSIONS, _ENCRYPT_THEN_MAC = 43, 22
_V13, _V12 = 0x0304, 0x0303


class TlsError(Exception):
    """A connection cannot be decrypted: its secrets are unknown, or its protocol is not supported."""


class _Side:
    """The state of one direction: its undecoded bytes, keys and next record number.

    `missing` is the number of content bytes lost before the latest content.
    """

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.opener: Opener | None = None
        self.secret = b""
        self.sequence = 0
        self.handshake = bytearray()
        self.lost = 0
        """While the next record is searched for, the number of bytes since the last decrypted one, gaps included;
        otherwise 0.
        """
        self.missing = 0

    def use(self, opener: Opener | None, secret: bytes = b"") -> None:
        self.opener, self.secret, self.sequence = opener, secret, 0


class Session:
    """The decryption of one connection; sides are 0 (client) and 1 (server).

    `known`: whether the secrets were found; until then `feed` returns no content.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.known = False
        self._secrets = secrets
        self._sides = (_Side(), _Side())
        self._random = b""
        self._suite: Suite | None = None
        self._version = 0
        self._waiting: tuple[Opener, Opener] | None = None
        """In TLS 1.2, the decrypters of client and server, which apply after each side's ChangeCipherSpec."""

    def feed(self, side: int, data: bytes) -> bytes:
        """Take bytes that `side` sent; returns the content of the application records that became complete.

        Raises TlsError, after which the session cannot be used.
        """
        mine = self._sides[side]
        mine.buffer += data
        out = bytearray()
        if mine.lost and not self._found(mine):
            return b""
        while len(mine.buffer) >= HEADER:
            kind, version, size = mine.buffer[0], bytes(mine.buffer[1:3]), int.from_bytes(mine.buffer[3:5], "big")
            if kind not in {_CHANGE_CIPHER, _ALERT, _HANDSHAKE, _APPLICATION, 24} or version[0] != 3 or size > LONGEST:
                raise TlsError("the next bytes are not a TLS record")
            if len(mine.buffer) < HEADER + size:
                break
            body = bytes(mine.buffer[HEADER : HEADER + size])
            del mine.buffer[: HEADER + size]
            out += self._record(side, kind, version, body)
        return bytes(out)

    def skip(self, side: int, size: int) -> None:
        """Note that `size` bytes of a side are missing. Raises TlsError if decryption cannot go on without them."""
        mine = self._sides[side]
        if mine.opener is None or (self._version == _V13 and not self._reads_application(side)):
            raise TlsError("the handshake is incomplete")
        mine.lost += size + len(mine.buffer)
        mine.buffer.clear()
        mine.handshake.clear()

    def take_missing(self, side: int) -> int:
        """Number of content bytes that are missing before the content that `feed` returned last; the call resets it to
        0.
        """
        mine = self._sides[side]
        missing, mine.missing = mine.missing, 0
        return missing

    def unread(self, side: int) -> int:
        """Estimated number of content bytes since the last decrypted record while the next is searched for; otherwise
        0.
        """
        mine = self._sides[side]
        return mine.lost + len(mine.buffer) if mine.lost else 0

    def _reads_application(self, side: int) -> bool:
        name = ("CLIENT", "SERVER")[side] + "_HANDSHAKE_TRAFFIC_SECRET"
        return self._sides[side].secret != self._secrets.get((name, self._random))

    def _found(self, mine: _Side) -> bool:
        """Search the buffer for a record that decrypts with one of the next record numbers; False if there is none yet.

        The bytes before it count as lost.
        """
        start = 0
        most = min(mine.lost // (HEADER + 17) + 2, MOST_TRIES)
        while (at := mine.buffer.find(b"\x17\x03\x03", start)) >= 0 and mine.opener is not None:
            size = int.from_bytes(mine.buffer[at + 3 : at + 5], "big")
            if len(mine.buffer) < at + HEADER or (size <= LONGEST and len(mine.buffer) < at + HEADER + size):
                break
            body = bytes(mine.buffer[at + HEADER : at + HEADER + size])
            for number in range(mine.sequence, mine.sequence + most) if size <= LONGEST else ():
                try:
                    mine.opener.open(number, _APPLICATION, b"\3\3", body)
                except BadRecordError:
                    continue
                del mine.buffer[:at]
                around = (number - mine.sequence) * (HEADER + mine.opener.overhead)
                mine.missing = max(mine.lost + at - around, 1)
                mine.sequence, mine.lost = number, 0
                return True
            start = at + 1
        if len(mine.buffer) > 4 * LONGEST:
            raise TlsError("no record was found after a gap")
        return False

    def _record(self, side: int, kind: int, version: bytes, body: bytes) -> bytes:
        mine = self._sides[side]
        if mine.opener is None or (self._version == _V13 and kind != _APPLICATION):
            self._plain(side, kind, body)
            return b""
        try:
            content = mine.opener.open(mine.sequence, kind, version, body)
        except BadRecordError:
            raise TlsError("the secrets do not decrypt a record") from None
        mine.sequence += 1
        if self._version == _V13:
            content = content.rstrip(b"\0")
            if not content:
                raise TlsError("a record without a type")
            kind, content = content[-1], content[:-1]
        if kind == _APPLICATION:
            return content
        if kind == _HANDSHAKE:
            self._messages(side, content)
        return b""

    def _plain(self, side: int, kind: int, body: bytes) -> None:
        if kind == _HANDSHAKE:
            self._messages(side, body)
        elif kind == _CHANGE_CIPHER and self._waiting is not None:
            self._sides[side].use(self._waiting[side])
        elif kind == _APPLICATION:
            raise TlsError("the handshake is not in the capture")

    def _messages(self, side: int, data: bytes) -> None:
        mine = self._sides[side]
        mine.handshake += data
        if len(mine.handshake) > MOST_HANDSHAKE:
            raise TlsError("a handshake message that is too long")
        while len(mine.handshake) >= 4:
            size = 4 + int.from_bytes(mine.handshake[1:4], "big")
            if len(mine.handshake) < size:
                return
            kind, body = mine.handshake[0], bytes(mine.handshake[4:size])
            del mine.handshake[:size]
            self._message(side, kind, body)

    def _message(self, side: int, kind: int, body: bytes) -> None:
        mine = self._sides[side]
        if kind == _CLIENT_HELLO:
            if self.known:
                raise TlsError("renegotiation is not supported")
            self._random = body[2:34]
        elif kind == _SERVER_HELLO and body[2:34] != _RETRY:
            self._begin(body)
        elif self._version == _V13 and mine.opener is not None and self._suite is not None:
            if kind == _FINISHED:
                self._use(side, self._secret(("CLIENT", "SERVER")[side] + "_TRAFFIC_SECRET_0"))
            elif kind == _KEY_UPDATE:
                self._use(side, next_secret(self._suite, mine.secret))

    def _begin(self, hello: bytes) -> None:
        """Take version and cipher suite from a ServerHello and look up the secrets."""
        try:
            session = hello[34]
            number = int.from_bytes(hello[35 + session : 37 + session], "big")
            extensions = _extensions(hello[38 + session :])
        except IndexError:
            raise TlsError("a ServerHello that is cut") from None
        chosen = extensions.get(_VERSIONS, hello[:2])
        self._version = int.from_bytes(chosen, "big")
        suite = SUITES.get(number)
        if self._version not in {_V12, _V13} or suite is None:
            raise TlsError(f"TLS version {self._version:#06x} with cipher suite {number:#06x} is not supported")
        self._suite = suite
        if self._version == _V13:
            for side, name in enumerate(("CLIENT", "SERVER")):
                self._use(side, self._secret(f"{name}_HANDSHAKE_TRAFFIC_SECRET"))
        else:
            master = self._secret("CLIENT_RANDOM")
            randoms = hello[2:34] + self._random
            self._waiting = openers_1_2(suite, master, randoms, mac_last=_ENCRYPT_THEN_MAC in extensions)
        self.known = True

    def _use(self, side: int, secret: bytes) -> None:
        assert self._suite is not None  # noqa: S101 (there is a ServerHello)
        self._sides[side].use(Aead13(self._suite, secret), secret)

    def _secret(self, label: str) -> bytes:
        secret = self._secrets.get((label, self._random))
        if secret is None:
            raise TlsError("the key log has no secrets for this connection")
        return secret


def _extensions(data: bytes) -> dict[int, bytes]:
    """The extensions of a ServerHello by number; `data` begins with their length. Raises IndexError if truncated."""
    found: dict[int, bytes] = {}
    position, end = 2, 2 + int.from_bytes(data[:2], "big")
    while position + 4 <= min(end, len(data)):
        size = int.from_bytes(data[position + 2 : position + 4], "big")
        found[int.from_bytes(data[position : position + 2], "big")] = data[position + 4 : position + 4 + size]
        position += 4 + size
    return found
