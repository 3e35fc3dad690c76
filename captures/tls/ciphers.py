"""Cipher suites and key schedules of TLS 1.2 and 1.3, to decrypt records.

Source: RFC 8446 (1.3), RFC 5246 (1.2), RFC 5288 and 7905 (AEADs in 1.2), RFC 7366 (encrypt-then-MAC).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

TAG: Final = 16
BLOCK: Final = 16


class BadRecordError(Exception):
    """A TLS record cannot be decrypted with its keys."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A cipher suite.

    `cipher` is gcm, ccm, ccm8, chacha or cbc. `hash` is the hash function of the key schedule, `mac` that of a CBC
    suite's MAC.
    """

    cipher: str
    key: int
    hash: str
    mac: str = ""


def _suites() -> dict[int, Suite]:
    found = {
        0x1301: Suite("gcm", 16, "sha256"),
        0x1302: Suite("gcm", 32, "sha384"),
        0x1303: Suite("chacha", 32, "sha256"),
        0x1304: Suite("ccm", 16, "sha256"),
        0x1305: Suite("ccm8", 16, "sha256"),
    }
    of_1_2: tuple[tuple[Suite, tuple[int, ...]], ...] = (
        (Suite("gcm", 16, "sha256"), (0x009C, 0x009E, 0xC02B, 0xC02F)),
        (Suite("gcm", 32, "sha384"), (0x009D, 0x009F, 0xC02C, 0xC030)),
        (Suite("chacha", 32, "sha256"), (0xCCA8, 0xCCA9, 0xCCAA)),
        (Suite("cbc", 16, "sha256", "sha1"), (0x002F, 0x0033, 0xC009, 0xC013)),
        (Suite("cbc", 32, "sha256", "sha1"), (0x0035, 0x0039, 0xC00A, 0xC014)),
        (Suite("cbc", 16, "sha256", "sha256"), (0x003C, 0x0067, 0xC023, 0xC027)),
        (Suite("cbc", 32, "sha256", "sha256"), (0x003D, 0x006B)),
        (Suite("cbc", 32, "sha384", "sha384"), (0xC024, 0xC028)),
    )
    return found | {number: suite for suite, numbers in of_1_2 for number in numbers}


SUITES: Final = _suites()


class Opener(Protocol):
    """Decrypts the records of one direction with one key.

    `overhead` is the number of bytes by which a record's body is longer than its content; with CBC, the mean of it.
    """

    overhead: int

    def open(self, sequence: int, kind: int, version: bytes, body: bytes) -> bytes:
        """The content of a record with this sequence number, type (`kind`), version and body. Raises BadRecordError."""
        ...


def _aead(suite: Suite, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if suite.cipher == "chacha":
        return ChaCha20Poly1305(key)
    if suite.cipher == "gcm":
        return AESGCM(key)
    return AESCCM(key, tag_length=8 if suite.cipher == "ccm8" else TAG)


def _xor(iv: bytes, sequence: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")


class Aead13:
    """Decrypts records of TLS 1.3."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._aead = _aead(suite, expand_label(suite.hash, secret, b"key", suite.key))
        self._iv = expand_label(suite.hash, secret, b"iv", 12)
        self.overhead = (8 if suite.cipher == "ccm8" else TAG) + 1  # the last byte is the content type

    def open(self, sequence: int, kind: int, version: bytes, body: bytes) -> bytes:
        header = bytes((kind,)) + version + len(body).to_bytes(2, "big")
        try:
            return self._aead.decrypt(_xor(self._iv, sequence), body, header)
        except (InvalidTag, ValueError):
            raise BadRecordError from None


class Aead12:
    """Decrypts records of an AEAD suite of TLS 1.2."""

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._aead = _aead(suite, key)
        self._iv = iv
        self._explicit = 0 if suite.cipher == "chacha" else 8
        self.overhead = self._explicit + TAG

    def open(self, sequence: int, kind: int, version: bytes, body: bytes) -> bytes:
        size = len(body) - self._explicit - TAG
        if size < 0:
            raise BadRecordError
        nonce = self._iv + body[:8] if self._explicit else _xor(self._iv, sequence)
        header = sequence.to_bytes(8, "big") + bytes((kind,)) + version + size.to_bytes(2, "big")
        try:
            return self._aead.decrypt(nonce, body[self._explicit :], header)
        except (InvalidTag, ValueError):
            raise BadRecordError from None


class Cbc12:
    """Decrypts records of a CBC suite of TLS 1.2.

    With `last`, the MAC covers the ciphertext (encrypt-then-MAC), otherwise the content.
    """

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, *, last: bool) -> None:
        self._key = key
        self._mac_key = mac_key
        self._mac = suite.mac
        self._size = MAC_SIZES[suite.mac]
        self._last = last
        self.overhead = BLOCK + self._size + BLOCK // 2  # half a block: the mean padding

    def open(self, sequence: int, kind: int, version: bytes, body: bytes) -> bytes:
        mac = b""
        if self._last:
            body, mac = body[: -self._size], body[-self._size :]
        if len(body) < 2 * BLOCK or len(body) % BLOCK:
            raise BadRecordError
        decryptor = BlockCipher(AES(self._key), CBC(body[:BLOCK])).decryptor()
        content = decryptor.update(body[BLOCK:]) + decryptor.finalize()
        content = content[: max(len(content) - content[-1] - 1, 0)]
        checked = body
        if not self._last:
            content, mac = content[: -self._size], content[-self._size :]
            checked = content
        header = sequence.to_bytes(8, "big") + bytes((kind,)) + version + len(checked).to_bytes(2, "big")
        if not hmac.compare_digest(hmac.digest(self._mac_key, header + checked, self._mac), mac):
            raise BadRecordError
        return content


MAC_SIZES: Final = {"sha1": 20, "sha256": 32, "sha384": 48, "": 0}


def expand_label(hash_name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label with an empty context."""
    info = size.to_bytes(2, "big") + bytes((6 + len(label),)) + b"tls13 " + label + b"\0"
    out = block = b""
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes((len(out) // max(len(block), 1) + 1,)), hash_name)
        out += block
    return out[:size]


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """The traffic secret that follows `secret` after a key update."""
    return expand_label(suite.hash, secret, b"traffic upd", len(secret))


def openers_1_2(suite: Suite, master: bytes, randoms: bytes, *, mac_last: bool) -> tuple[Opener, Opener]:
    """(decrypter of the client's records, of the server's), from the master secret and both randoms, the server's
    first.

    `mac_last`: whether encrypt-then-MAC was negotiated.
    """
    mac, iv = MAC_SIZES[suite.mac], {"gcm": 4, "chacha": 12, "cbc": 0}[suite.cipher]
    block = _prf(suite.hash, master, b"key expansion" + randoms, 2 * (mac + suite.key + iv))
    pieces = []
    for size in (mac, mac, suite.key, suite.key, iv, iv):
        pieces.append(block[:size])
        block = block[size:]
    if suite.cipher == "cbc":
        client = Cbc12(suite, pieces[2], pieces[0], last=mac_last)
        return client, Cbc12(suite, pieces[3], pieces[1], last=mac_last)
    return Aead12(suite, pieces[2], pieces[4]), Aead12(suite, pieces[3], pieces[5])


def _prf(hash_name: str, secret: bytes, seed: bytes, size: int) -> bytes:
    out, a = b"", seed
    while len(out) < size:
        a = hmac.digest(secret, a, hash_name)
        out += hmac.digest(secret, a + seed, hash_name)
    return out[:size]
