"""Problems: faults in bytes as values with a code, so that a reading goes on after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kproxy.decoders.plurals import are, counted

MOST: Final = 1_000
"""Maximum number of problems of a message that are listed one by one; further ones are only counted."""


class Code(StrEnum):
    """All problem codes of the exchange JSON.

    evicted: too many requests were in flight, and this was the oldest.
    one_sided: the capture holds no bytes of one side of a connection.
    address_leaked: kproxy reported that a broker's own address in this response reached the client.
    """

    TRUNCATED = "truncated"
    TRAILING_BYTES = "trailing_bytes"
    BAD_LENGTH = "bad_length"
    BAD_VARINT = "bad_varint"
    BAD_UTF8 = "bad_utf8"
    UNKNOWN_API = "unknown_api"
    UNKNOWN_VERSION = "unknown_version"
    UNMATCHED_RESPONSE = "unmatched_response"
    REPEATED_CORRELATION_ID = "repeated_correlation_id"
    EVICTED = "evicted"
    OVERSIZE_FRAME = "oversize_frame"
    GAP = "gap"
    RESYNC = "resync"
    OVERLAP = "overlap"
    CUT_BY_SNAPLEN = "cut_by_snaplen"
    NOT_KAFKA = "not_kafka"
    TLS = "tls"
    CRC_MISMATCH = "crc_mismatch"
    DECOMPRESSION_LIMIT = "decompression_limit"
    DECOMPRESSION_FAILED = "decompression_failed"
    LATE = "late"
    ADDRESS_LEAKED = "address_leaked"
    ONE_SIDED = "one_sided"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a frame or stream.

    `where` is "request" or "response", or for problems of a stream the side whose bytes are concerned, "client" or
    "broker". `offset` counts from the frame's first byte, its length field included. `path` names the field
    ("responses[0].partitions[2].records"), "" if none is concerned.
    """

    where: str
    offset: int
    path: str
    message: str
    code: Code

    def to_json(self) -> dict[str, object]:
        return {
            "where": self.where,
            "offset": self.offset,
            "path": self.path,
            "message": self.message,
            "code": self.code.value,
        }


def limited(problems: list[Problem], left_out: int = 0) -> list[Problem]:
    """The first MOST problems of a message, and one more that gives the number of the remaining ones.

    `left_out` is the number of problems that were dropped before this call.
    """
    left_out += max(0, len(problems) - MOST)
    if not left_out:
        return problems
    last = problems[min(MOST, len(problems)) - 1]
    return [
        *problems[:MOST],
        replace(last, path="", message=f"{counted(left_out, 'further problem')} {are(left_out)} left out"),
    ]


class DecodeError(Exception):
    """Bytes do not fit their definition; `offset` counts from the frame's first byte.

    `error_codes` are the non-zero Kafka error codes that were read before that offset, each once.
    """

    def __init__(
        self, code: Code, message: str, offset: int, path: str = "", error_codes: tuple[int, ...] = ()
    ) -> None:
        super().__init__(f"{message} (byte {offset}{', ' + path if path else ''})")
        self.error_codes = error_codes
        self.code = code
        self.message = message
        self.offset = offset
        self.path = path

    def problem(self, where: str) -> Problem:
        return Problem(where, self.offset, self.path, self.message, self.code)
