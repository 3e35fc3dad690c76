"""Parses bytes from text in the forms in which people and tools write them.

These are hex with any separators (spaces, colons, 0x, C arrays, string literals), the dumps of xxd, hexdump, od,
tcpdump -X and tshark -x, and base64. A dump of packets gives their TCP payload.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from kproxy.decoders.plurals import counted

_OFFSET: Final = re.compile(r"[ \t]*(?:0x)?([0-9A-Fa-f]{4,16})(:?)(?:[ \t]+|$)")
_GROUP: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+(?=\s|$)")
_GAP: Final = re.compile(r"\s*")
_ASCII_COLUMN: Final = re.compile(r"(?:^|\s)[|>].*$")
_NUMBERS: Final = re.compile(r"0x([0-9A-Fa-f]{1,2})(?![0-9A-Fa-f])")
_NOTHING: Final = re.compile(r"[\s,;:{}()\[\]\"'-]+|0[xX](?=[0-9A-Fa-f]{2})")
_NO_DIGIT: Final = re.compile(r"[^0-9A-Fa-f]")
_NEVER: Final = re.compile(r"[^0-9A-FXa-fx\s,;:{}()\[\]\"'-]")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([0-7]{1,3})|(\n)|(.))", re.DOTALL)
_CONTROL: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
_QUOTED: Final = re.compile(r"""b?(?P<quote>['"])(.*?)(?<!\\)(?P=quote)""", re.DOTALL)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_REASSEMBLED: Final = re.compile(r"Reassembled TCP \(\d+ bytes\)")

_ETHERNET, _IPV6 = 14, 40
_TCP: Final = 6
_HALF: Final = 1 << 31
"""Half the range of sequence numbers: two numbers that are further apart (modulo 2^32) are in reverse order."""
_WORDS_OFFSET: Final = 7
"""Digits in the offsets of od, and of hexdump where it prints 16-bit words in the machine's byte order."""
_MOST_REPEATED: Final = 256 << 20


class DumpError(ValueError):
    """A text is not a dump of bytes, or a dump lacks bytes."""


def bytes_of(text: str) -> list[bytes]:
    """The bytes in the text: one element, or for a dump of packets one for each direction of a connection.

    Directions come in the order of their first packets; bytes missing between packets begin a further element. Raises
    DumpError if the text is not a dump, or if a dump lacks bytes.
    """
    if not text.strip():
        raise DumpError("the text holds no bytes")
    for form in (_dump, _escaped, _base64):
        pieces = form(text)
        if pieces is not None:
            return pieces
    return [_plain(text)]


def of_base64(text: str) -> bytes:
    """The bytes that a base64 text encodes, standard or URL-safe, padded or not. Raises DumpError."""
    packed = "".join(text.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DumpError(f"not base64: {error}") from None


def _base64(text: str) -> list[bytes] | None:
    """A list with the decoded bytes of a text that can only be base64; None for any other text.

    A text can only be base64 if no line has a blank, the number of characters without line ends is a multiple of four,
    and there are characters that hex lacks.
    """
    word = text.strip()
    if re.search(r"[ \t]", word):
        return None
    packed = "".join(word.split())
    if len(packed) % 4 or not _BASE64.fullmatch(packed):
        return None
    if not re.search(r"[G-Zg-z+/]", packed.replace("0x", "")):
        return None
    return [of_base64(packed)]


def _escaped(text: str) -> list[bytes] | None:
    """The bytes of a string literal of C, Python or a shell, as one element; None if the text is no such literal."""
    if "\\x" not in text and not re.search(r"\\[0-7]{3}", text):
        return None
    quoted = [match[2] for match in _QUOTED.finditer(text)]
    out = bytearray()
    for part in quoted or [text.strip()]:
        position = 0
        for match in _ESCAPE.finditer(part):
            out += _literal(part[position : match.start()])
            position = match.end()
            hexadecimal, octal, line_end, other = match.groups()
            if hexadecimal is not None:
                out.append(int(hexadecimal, 16))
            elif octal is not None:
                out.append(int(octal, 8) & 0xFF)
            elif line_end is None:
                out += _CONTROL.get(other) or _literal(other)
        out += _literal(part[position:])
    return [bytes(out)]


def _literal(text: str) -> bytes:
    return text.replace("\n", "").encode("utf-8", "surrogatepass")


def _plain(text: str) -> bytes:
    """The bytes of hex digits with the usual separators between them. Raises DumpError."""
    with contextlib.suppress(ValueError):
        return bytes.fromhex(text)
    inside = re.search(r"\{(.*?)\}", text, re.DOTALL)
    content = text if inside is None else inside[1]
    numbers = _NUMBERS.findall(content)
    if numbers and not re.search(r"[0-9A-Za-z]", _NUMBERS.sub("", content)):
        return bytes(int(number, 16) for number in numbers)
    never = _NEVER.search(content)
    if never is not None:
        content = content[: never.end()]  # ignore the rest of the line
    digits = _NOTHING.sub("", content)
    strange = _NO_DIGIT.search(digits)
    if strange is not None:
        position = strange.start()
        for between in _NOTHING.finditer(content):
            if between.start() > position:
                break
            position += len(between[0])
        line = content.count("\n", 0, position) + 1
        column = position - content.rfind("\n", 0, position)
        raise DumpError(f"not hex: {content[position]!r} at line {line}, column {column}")
    if len(digits) % 2:
        raise DumpError(f"the number of hex digits is odd: {len(digits)}")
    if not digits:
        raise DumpError("the text holds no bytes")
    return bytes.fromhex(digits)


# --- dumps with offsets ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """A line of a dump: its number in the text, its offset as written, and the text after the offset."""

    number: int
    offset: str
    rest: str
    repeats: bool = False
    """Whether identical lines after this one are omitted ("*")."""


@dataclass(slots=True)
class _Chunk:
    """Lines whose offsets grow from zero. `whole`: whether a tool joined the bytes of several packets."""

    lines: list[_Line] = field(default_factory=list)
    whole: bool = False


def _dump(text: str) -> list[bytes] | None:
    chunks = _chunks(text)
    if not chunks:
        return None
    whole = [chunk for chunk in chunks if chunk.whole]
    packets = [chunk for chunk in chunks if not chunk.whole]
    if whole and len(packets) <= len(whole):
        # tshark shows only the last packets of reassembled bytes.
        return [_assemble(chunk) for chunk in whole]
    flows: dict[bytes, list[_Segment]] = {}
    for number, chunk in enumerate(packets):
        data = _assemble(chunk)
        flow, segment = _tcp_segment(data) or (b"%d" % number, _Segment(0, data))
        if segment.payload:
            flows.setdefault(flow, []).append(segment)
    pieces = [piece for segments in flows.values() for piece in _joined(segments)]
    if not pieces:
        raise DumpError("the text holds no bytes")
    return pieces


def _chunks(text: str) -> list[_Chunk]:
    """The dumps in a text; none if it is not a dump."""
    chunks: list[_Chunk] = []
    strange = colons = 0
    whole = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped == "*":
            if not chunks:
                return []
            chunks[-1].lines[-1].repeats = True
            continue
        match = _OFFSET.match(line)
        if match is None:
            whole = _REASSEMBLED.match(stripped) is not None
            strange += 1
            continue
        offset = match[1]
        colons += bool(match[2])
        if not int(offset, 16):
            chunks.append(_Chunk(whole=whole))
        elif not chunks:
            return []
        chunks[-1].lines.append(_Line(number, offset, line[match.end() :]))
        whole = False
    lines = [line for chunk in chunks for line in chunk.lines]
    if colons == len(lines):
        return chunks
    if colons or (strange and not any(chunk.whole for chunk in chunks) and strange > len(chunks)):
        return []
    return chunks if all(map(_is_dump, chunks)) else []


def _is_dump(chunk: _Chunk) -> bool:
    """Whether the lines of a chunk begin with offsets; if not, their first words are bytes, as in plain hex."""
    if len(chunk.lines) == 1:
        words = _words(chunk.lines[0], None)
        return bool(words) and all(len(word) == 2 for word in words)
    return _base(chunk) is not None


def _words(line: _Line, need: int | None) -> list[str]:
    """The groups of hex digits in a line, without the column of printable characters.

    `need` is the number of bytes in the line; None if it is unknown.
    """
    if "  |" in line.rest or "  >" in line.rest or line.rest.startswith(("|", ">")):
        rest, bounded = _ASCII_COLUMN.sub("", line.rest), True
    else:
        rest, bounded = line.rest, False
    words: list[str] = []
    held = position = 0
    while (need is None or held < need) and (match := _GROUP.match(rest, position)) is not None:
        words.append(match[0])
        held += len(match[0]) // 2
        gap = _GAP.match(rest, match.end())
        position = match.end() if gap is None else gap.end()
        if need is None and not bounded and position - match.end() > 1:
            break
    return words


def _size(words: list[str]) -> int:
    return sum(map(len, words)) // 2


def _base(chunk: _Chunk) -> int | None:
    """The number base of a chunk's offsets (8, 10 or 16): in it, each line's bytes end at the offset of the next line.

    None if no base fits.
    """
    octal_first = len(chunk.lines[0].offset) == _WORDS_OFFSET and not _are_words(_words(chunk.lines[0], None))
    for base in (8, 10, 16) if octal_first else (16, 8, 10):
        if _fits(chunk, base, exactly=True):
            return base
    return 16 if _fits(chunk, 16, exactly=False) else None


def _fits(chunk: _Chunk, base: int, *, exactly: bool) -> bool:
    """Whether the offsets, read in this base, match the number of bytes in each line.

    Unless `exactly`, groups of hex digits beyond that number count as printable characters.
    """
    for line, after in pairwise(chunk.lines):
        try:
            need = int(after.offset, base) - int(line.offset, base)
        except ValueError:
            return False
        size = _size(words := _words(line, None if exactly else need))
        if line.repeats:
            fits = bool(size) and not need % size
        else:
            # If the number of bytes is odd, hexdump pads its last 16-bit word.
            fits = size == need or (_are_words(words) and size == need + 1)
        if not fits:
            return False
    return True


def _assemble(chunk: _Chunk) -> bytes:
    """The bytes of a chunk. Raises DumpError if lines are missing or not hex."""
    base = (_base(chunk) or 16) if len(chunk.lines) > 1 else 16
    out = bytearray()
    previous = b""
    for index, line in enumerate(chunk.lines):
        try:
            start = int(line.offset, base)
            following = int(chunk.lines[index + 1].offset, base) if index + 1 < len(chunk.lines) else None
        except ValueError:
            raise DumpError(f"line {line.number}: {line.offset} is not an offset like those above") from None
        if start != len(out):
            raise DumpError(f"line {line.number}: offset {line.offset} after {counted(len(out), 'byte')}")
        end = None if following is None or line.repeats else following
        words = _words(line, None if end is None else end - start)
        data = bytes.fromhex("".join(words))
        if end is not None and len(data) < end - start:
            raise DumpError(f"line {line.number}: {counted(len(data), 'byte')}, expected {end - start}")
        if not data and line.rest.strip():
            raise DumpError(f"line {line.number}: not hex: {line.rest.strip()[:20]!r}")
        if len(line.offset) == _WORDS_OFFSET and _are_words(words):
            data = _swapped(data)[: None if end is None else end - start]
        out += data
        if line.repeats and following is not None:
            previous = data
            missing = following - len(out)
            if missing < 0 or missing > _MOST_REPEATED or not previous or missing % len(previous):
                raise DumpError(f"line {line.number}: the repeated lines (*) do not fit the offsets around them")
            out += previous * (missing // len(previous))
    return bytes(out)


def _are_words(words: list[str]) -> bool:
    return bool(words) and all(len(word) == 4 for word in words)


def _swapped(data: bytes) -> bytes:
    """The bytes with each pair swapped, for hexdump's 16-bit words in the machine's byte order."""
    return b"".join(data[at : at + 2][::-1] for at in range(0, len(data), 2))


# --- packets ---------------------------------------------------------------------------------------------------------


class _Segment(NamedTuple):
    sequence: int
    payload: bytes


def _joined(segments: list[_Segment]) -> list[bytes]:
    """The payloads joined in the order of sequence numbers, without duplicates; each gap begins another element."""
    base = segments[0].sequence
    placed = sorted(((one.sequence - base + _HALF) % (2 * _HALF) - _HALF, one.payload) for one in segments)
    pieces = [bytearray()]
    end = placed[0][0]
    for start, payload in placed:
        if start > end:
            pieces.append(bytearray())
            end = start
        pieces[-1] += payload[end - start :]
        end = max(end, start + len(payload))
    return [bytes(piece) for piece in pieces]


def _tcp_segment(packet: bytes) -> tuple[bytes, _Segment] | None:
    """(direction of the connection, segment) of an IP packet with or without link layer; None for other bytes."""
    for start in _network_layers(packet):
        ip = packet[start:]
        if len(ip) < 40:
            continue
        if ip[0] >> 4 == 4:
            header, total, protocol, addresses = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big"), ip[9], ip[12:20]
        elif ip[0] >> 4 == 6:
            header, total, protocol, addresses = _IPV6, _IPV6 + int.from_bytes(ip[4:6], "big"), ip[6], ip[8:40]
        else:
            continue
        tcp = ip[header:total]
        if protocol != _TCP or header < 20 or not header + 20 <= total <= len(ip) < total + 64 or tcp[12] >> 4 < 5:
            continue
        return addresses + tcp[:4], _Segment(int.from_bytes(tcp[4:8], "big"), tcp[(tcp[12] >> 4) * 4 :])
    return None


def _network_layers(packet: bytes) -> Iterator[int]:
    """Possible offsets of an IP header: 0, or after Ethernet, a VLAN tag or Linux's cooked header."""
    yield 0
    for at in (_ETHERNET, _ETHERNET + 4, 16, 20):
        if packet[at - 2 : at] in {b"\x08\x00", b"\x86\xdd"} or at == 20:
            yield at
