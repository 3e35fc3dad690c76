"""Recognises the protocol of a connection by its first bytes, on any port."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from struct import Struct

from kproxy.decoders.conversation.candidates import HIGHEST_SIZE, request_starts
from kproxy.decoders.message import Decoded, decode_request
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.lookup import Definitions

LONGEST_CLIENT_ID = 1024
NEAR = 5
"""Maximum number of versions by which the request in a connection's first frame may exceed the newest known version."""
SURE = 3
"""Minimum result of `_score` that proves that bytes are the client's, whatever the other direction holds."""

_HEADER = Struct(">ihhih")
_SIZE = Struct(">i")

HTTP = (
    *(b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PATC", b"PRI "),
    *(b"HTTP",),
)
"""First four bytes of HTTP requests and responses."""


class Verdict(Enum):
    """The protocol that the first bytes of a direction show."""

    KAFKA = "Kafka"
    WEAK = "Kafka, if the whole frame decodes"
    SASL = "SASL tokens before any Kafka request"
    TLS = "TLS"
    HTTP = "HTTP"
    OTHER = "something else"
    MORE = "too few bytes"


class Known:
    """API keys and their versions, arranged for fast checks of many headers."""

    __slots__ = ("_starts", "highest", "versions")

    def __init__(self, definitions: Definitions) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        for key in definitions.apis:
            versions = definitions.versions(key)
            self.versions[key] = (versions.low, versions.high)
        self.highest = max(self.versions, default=-1)
        self._starts: dict[int, re.Pattern[bytes]] = {}

    def exact(self, key: int, version: int) -> bool:
        """Whether `version` of `key` is defined."""
        found = self.versions.get(key)
        return found is not None and found[0] <= version <= found[1]

    def near(self, key: int, version: int) -> bool:
        """Whether `version` of `key` is defined, or is at most NEAR above the newest defined one."""
        found = self.versions.get(key)
        if found is None:
            return False
        return 0 <= version <= found[1] + (4 * NEAR if key == api_keys.API_VERSIONS else NEAR)

    def starts(self, limit: int = HIGHEST_SIZE) -> re.Pattern[bytes]:
        """A pattern that finds where a request of at most `limit` bytes may begin; compiled on first use."""
        pattern = self._starts.get(limit)
        if pattern is None:
            pattern = self._starts[limit] = request_starts(self.versions, limit)
        return pattern


@lru_cache(maxsize=16)
def known(definitions: Definitions) -> Known:
    return Known(definitions)


def is_tls(data: bytes) -> bool:
    """Whether `data` begins with a TLS record: type, version 3.0 to 3.4, a length that TLS allows (RFC 8446, 5.1)."""
    return (
        len(data) >= 5
        and 0x14 <= data[0] <= 0x18
        and data[1] == 3
        and data[2] <= 4
        and 0 < int.from_bytes(data[3:5], "big") <= 16384 + 2048
    )


def printable(data: bytes) -> bool:
    """Whether `data` is UTF-8 text without control characters."""
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False


def recognise(data: bytes, known_apis: Known, limit: int) -> Verdict:
    """The protocol that the client's first bytes show; `limit` is the longest accepted frame.

    `data` holds the bytes from the first one on. MORE asks for more of them; any other result is final.
    """
    if len(data) < 5:
        return Verdict.MORE
    if is_tls(data):
        return Verdict.TLS
    if data[:4] in HTTP:
        return Verdict.HTTP
    size = _SIZE.unpack_from(data)[0]
    if not 4 <= size <= limit:
        return Verdict.OTHER
    if data[4] == 0x60:
        return _gssapi(data, size)
    if size < 10:
        return Verdict.OTHER
    if len(data) < 14:
        return Verdict.MORE
    _, key, version, _, length = _HEADER.unpack_from(data)
    if key == api_keys.CONTROLLED_SHUTDOWN and version == 0:
        return Verdict.KAFKA if size == 12 else Verdict.OTHER
    near = known_apis.near(key, version)
    if length == -1:
        return Verdict.KAFKA if near else Verdict.OTHER
    if length == 0:
        return Verdict.WEAK if near else Verdict.OTHER
    if not 0 < length <= min(size - 10, LONGEST_CLIENT_ID) or key < 0 or not 0 <= version <= 100:
        return Verdict.OTHER
    if len(data) < 14 + length:
        return Verdict.MORE
    if printable(data[14 : 14 + length]):
        return Verdict.KAFKA
    return Verdict.WEAK if near else Verdict.OTHER


def _gssapi(data: bytes, size: int) -> Verdict:
    """The verdict on a frame that may be a GSSAPI token (RFC 2743).

    Such a token is a DER [APPLICATION 0] that fills the frame and begins with an object identifier.
    """
    if len(data) < 9:
        return Verdict.MORE
    first = data[5]
    more = first - 0x80 if first > 0x80 else 0
    if more > 3 or first == 0x80:
        return Verdict.OTHER
    length = int.from_bytes(data[6 : 6 + more], "big") if more else first
    if 2 + more + length != size:
        return Verdict.OTHER
    if len(data) < 7 + more:
        return Verdict.MORE
    return Verdict.SASL if data[6 + more] == 0x06 else Verdict.OTHER


def plausible_request(head: bytes, size: int, known_apis: Known) -> bool:
    """Whether a frame of `size` bytes that begins with `head` is a Kafka request.

    `head` has 14 bytes or more, unless the frame is shorter. The check is strict: the version must be defined, and the
    part of the client id that `head` holds must be printable.
    """
    if size < 8 or len(head) < 12:
        return False
    key = int.from_bytes(head[4:6], "big", signed=True)
    version = int.from_bytes(head[6:8], "big", signed=True)
    if not known_apis.exact(key, version):
        return False
    if key == api_keys.CONTROLLED_SHUTDOWN and version == 0:
        return size == 12
    if size < 10 or len(head) < 14:
        return False
    length = int.from_bytes(head[12:14], "big", signed=True)
    if length <= 0:
        return length >= -1
    if length > min(size - 10, LONGEST_CLIENT_ID):
        return False
    text = head[14 : 14 + length]
    if len(text) < length:
        return text.decode("utf-8", "ignore").isprintable()
    return printable(text)


def _score(data: bytes, definitions: Definitions) -> int:
    """How likely `data` is the client's: SURE or more is certain, 2 likely, 1 possible, 0 impossible."""
    verdict = recognise(data, known(definitions), 128 << 20)
    if verdict in {Verdict.KAFKA, Verdict.WEAK}:
        end = 4 + _SIZE.unpack_from(data)[0]
        good = 2 if verdict is Verdict.KAFKA else 1
        if end > len(data):
            return good
        return good + 2 if _asks(data[:end], definitions) else good - 1
    if verdict is Verdict.SASL:
        return SURE
    if verdict is Verdict.TLS:
        return SURE if data[0] == 0x16 and data[5:6] == b"\x01" else 0
    if verdict is Verdict.HTTP:
        return 0 if data[:4] == b"HTTP" else SURE
    return 0


def _asks(frame: bytes, definitions: Definitions) -> bool:
    """Whether a frame decodes as a request to the last byte.

    A Produce without data does not count: a response of zeros looks like it.
    """
    decoded = decode_request(frame, definitions)
    body = decoded.body
    if body is None or decoded.problems or decoded.guessed_version is not None:
        return False
    return decoded.header.get("requestApiKey") != api_keys.PRODUCE or bool(body.get("topicData"))


def decodes(frame: bytes, definitions: Definitions) -> bool:
    """Whether a frame decodes as a request to the last byte."""
    return unfit(decode_request(frame, definitions), len(frame)) is None


def unfit(decoded: Decoded, size: int) -> int | None:
    """None if a frame of `size` bytes was decoded to the last byte, else the number of bytes that were decoded."""
    if decoded.body is None:
        return max((problem.offset for problem in decoded.problems), default=0)
    return size if decoded.problems or decoded.guessed_version is not None else None


def _request_inside(data: bytes, known_apis: Known) -> bool:
    """Whether a request header with a client id occurs anywhere in `data`."""
    for match in known_apis.starts().finditer(data):
        at = match.start()
        head = data[at : at + 14 + LONGEST_CLIENT_ID]
        if len(head) < 14 or head[12:14] in {b"\x00\x00", b"\xff\xff"}:
            continue
        length = int.from_bytes(head[12:14], "big", signed=True)
        if len(head) >= 14 + length and plausible_request(head, _SIZE.unpack_from(head)[0], known_apis):
            return True
    return False


def which_side_asks(first: bytes, second: bytes, definitions: Definitions, *, final: bool = False) -> int | None:
    """Which of two directions is the client's, for a connection whose opening was not captured.

    `first` and `second` are the earliest captured bytes of each direction (a few hundred suffice; either may be empty).
    A response with a small correlation id begins like a request. So the bytes of one direction alone decide only if
    they are a whole request, or if no more bytes will come (`final`).

    Returns 0 if `first` is the client's, 1 if `second` is, None if the bytes do not decide (use the ports then).
    """
    known_apis = known(definitions)
    one, two = _score(first, definitions), _score(second, definitions)
    both = len(first) >= 12 and len(second) >= 12
    if max(one, two) < (SURE if not final else 2) and not both:
        return None
    if one == two and both:
        one, two = second[4:8] == first[8:12], first[4:8] == second[8:12]
    if one == two:
        one, two = _request_inside(first, known_apis), _request_inside(second, known_apis)
    if one == two:
        return None
    return 0 if one > two else 1
