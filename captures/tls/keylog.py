"""Reads key logs: secrets of TLS connections in the SSLKEYLOGFILE format of NSS, OpenSSL, Java agents and kproxy."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.magic import PCAPNG
from kproxy.captures.formats.pcapng import BYTE_ORDER_MAGIC, PACKET_BLOCKS
from kproxy.decoders.extras import installing

Secrets: TypeAlias = Mapping[tuple[str, bytes], bytes]
"""Secrets by (label, client random); labels are such as "CLIENT_RANDOM" and "CLIENT_TRAFFIC_SECRET_0"."""

LARGEST: Final = 256 << 20
"""Maximum size of a key log in bytes."""
_LONGEST: Final = 64
"""Maximum size of a secret in bytes."""
_SECRETS_BLOCK: Final = 0x0A
_TLS_KEY_LOG: Final = 0x544C534B


@cache
def can_decrypt() -> bool:
    """Whether the library that decrypts is installed."""
    return find_spec("cryptography") is not None


def parse(text: bytes) -> dict[tuple[str, bytes], bytes]:
    """The secrets in a key log's text; other lines are ignored, as by other tools."""
    found: dict[tuple[str, bytes], bytes] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 3 or line.startswith(b"#"):
            continue
        try:
            label, random, secret = words[0].decode("ascii"), bytes.fromhex(words[1].decode()), words[2].decode()
            if len(random) == 32 and len(secret) <= 2 * _LONGEST:
                found[label, random] = bytes.fromhex(secret)
        except ValueError:
            continue
    return found


def read(path: Path) -> dict[tuple[str, bytes], bytes]:
    """The secrets in the key log at `path`; an empty file has none.

    Raises CaptureError if the file cannot be read, is larger than LARGEST or has text without a secret, and if the
    library that decrypts is not installed.
    """
    if not can_decrypt():
        raise CaptureError(f"decrypting TLS needs the package cryptography: {installing('security')}", path)
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise CaptureError(error.strerror or str(error), path) from None
    if len(text) > LARGEST:
        raise CaptureError(f"larger than {LARGEST} bytes, the limit of a key log", path)
    found = parse(text)
    if text.strip() and not found:
        raise CaptureError("not a key log (lines of label, client random and secret)", path)
    return found


def embedded(views: Iterable[memoryview]) -> dict[tuple[str, bytes], bytes]:
    """The secrets that pcapng files hold before their first packet; `editcap --inject-secrets` writes them there.

    Empty if the library that decrypts is not installed, so that everything else in the capture can be read.
    """
    found: dict[tuple[str, bytes], bytes] = {}
    if not can_decrypt():
        return found
    for view in views:
        for text in _blocks(view):
            found |= parse(text)
    return found


def settled(view: memoryview) -> bool:
    """Whether `view`, the beginning of a file, includes all blocks that `embedded` reads."""
    if len(view) < 12:
        return False
    if bytes(view[:4]) != PCAPNG:
        return True
    order = "<" if bytes(view[8:12]) == struct.pack("<I", BYTE_ORDER_MAGIC) else ">"
    position = 0
    while position + 8 <= len(view):
        kind, length = struct.unpack_from(order + "II", view, position)
        if kind in PACKET_BLOCKS or length < 12 or position + length > LARGEST:
            return True
        position += length
    return position == len(view)


def _blocks(view: memoryview) -> Iterable[bytes]:
    """The key logs in a pcapng file's decryption secrets blocks (draft-ietf-opsawg-pcapng)."""
    if bytes(view[:4]) != PCAPNG or len(view) < 12:
        return
    order = "<" if bytes(view[8:12]) == struct.pack("<I", BYTE_ORDER_MAGIC) else ">"
    position = 0
    while position + 20 <= len(view):
        kind, length, secrets, size = struct.unpack_from(order + "IIII", view, position)
        if kind in PACKET_BLOCKS or length < 12 or position + length > len(view):
            return
        if kind == _SECRETS_BLOCK and secrets == _TLS_KEY_LOG and size <= length - 20:
            yield bytes(view[position + 16 : position + 16 + size])
        position += length
