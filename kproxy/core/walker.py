"""Finds where the broker addresses begin in a response whose bytes arrive piece by piece.

For each (message, version) a generator is compiled from the definition. It skips the fields before the addresses and
reads lengths only, so megabytes of records cost nothing. It yields the offset from which it needs more bytes, is sent
(window, position in the window, end of the window, offset of the window's first byte), and returns the offset where the
addresses begin. Offsets count from the frame's first byte, its length field included.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kproxy.core.addresses import FIXED, FRAME_HEAD, carrier
from kproxy.decoders.problems import Code, DecodeError
from kproxy.decoders.schema.model import Field, Message, Struct

Window = tuple[bytes | memoryview, int, int, int]
Walk = Generator[int, Window, int]


class Walker:
    """Finds where the addresses begin in one frame; `feed` takes all pieces in order, from the frame's first byte."""

    __slots__ = ("_frame", "_rest", "_rest_at", "_walk", "_wanted", "at")

    def __init__(self, walk: Callable[[int], Walk], frame: int) -> None:
        """`walk` is a result of `compiled`; `frame` is the frame's size in bytes, its length field included."""
        self._frame = frame
        self._walk = walk(frame)
        self._wanted = next(self._walk)
        self._rest: bytes = b""
        self._rest_at = 0
        self.at: int | None = None
        """Offset in the frame where the addresses begin; None until it is known."""

    def feed(self, piece: bytes | memoryview) -> bool:
        """Takes the next piece; returns whether `at` is known now. Raises DecodeError if the frame cannot be read."""
        if self.at is not None:
            return True
        start = self._rest_at + len(self._rest)
        end = start + len(piece)
        wanted = self._wanted
        if wanted >= end:
            self._rest = b""
            self._rest_at = end
            return False
        window: bytes | memoryview
        if wanted >= start:
            window, base = piece, start
        else:
            window, base = self._rest[wanted - self._rest_at :] + bytes(piece), wanted
        try:
            wanted = self._walk.send((window, wanted - base, len(window), base))
        except StopIteration as stop:
            self.at = stop.value
            if self.at > self._frame:
                raise DecodeError(Code.TRUNCATED, "fields after the end", self._frame) from None
            return True
        if wanted >= self._frame:
            raise DecodeError(Code.TRUNCATED, "fields after the end", self._frame)
        self._wanted = wanted
        if wanted < end:
            self._rest = bytes(window[wanted - base :])
            self._rest_at = wanted
        else:
            self._rest = b""
            self._rest_at = end
        return False


def bad_length(length: int, offset: int) -> DecodeError:
    return DecodeError(Code.BAD_LENGTH, f"length {length}", offset)


def bad_varint(offset: int) -> DecodeError:
    return DecodeError(Code.BAD_VARINT, "varint of more than five bytes", offset)


def compiled(message: Message, version: int, header_version: int) -> Callable[[int], Walk]:
    """The generator function that walks a version of a message; the version must carry addresses."""
    source = _Source(message, version).generate(header_version)
    names: dict[str, Any] = {"bad_length": bad_length, "bad_varint": bad_varint}
    exec(compile(source, f"<walk {message.name} v{version}>", "exec"), names)  # noqa: S102 (our own text)
    walk: Callable[[int], Walk] = names["walk"]
    return walk


class _Source:
    """Generates the source text of a walk.

    In it, b is the window, p the position in b, e the end of b, o the offset of b.
    """

    def __init__(self, message: Message, version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        self._lines: list[str] = []
        self._indent = 1
        self._names = 0
        self._fixed = 0

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _settle(self) -> None:
        """Writes one skip over the fixed-size fields that were collected since the last one."""
        if self._fixed:
            self._line(f"p += {self._fixed}")
            self._fixed = 0

    def generate(self, header_version: int) -> str:
        self._lines = ["def walk(frame):"]
        self._line(f"b, p, e, o = yield {FRAME_HEAD}")
        if header_version >= 1:
            self._tags()
        found = carrier(self._message, self._version)
        assert found is not None  # noqa: S101 (callers ask for carriers only)
        target = found[1]
        for field in self._message.fields:
            if self._version not in field.versions or self._version in field.tagged:
                continue
            if field is target or (target is None and field.name == found[0].node_id):
                break
            self._field(field)
        self._settle()
        self._line("return o + p")
        return "\n".join(self._lines) + "\n"

    def _need(self, size: int) -> None:
        self._line(f"while p + {size} > e:")
        self._line("    b, p, e, o = yield o + p")

    def _varint(self) -> str:
        """Writes code that reads an unsigned varint into a variable; returns the variable's name."""
        self._settle()
        name = self._name()
        self._need(1)
        self._line(f"{name} = b[p]; p += 1")
        self._line(f"if {name} > 127:")
        self._line(f"    {name} &= 127; s = 7")
        self._line("    while True:")
        self._line("        while p >= e:")
        self._line("            b, p, e, o = yield o + p")
        self._line(f"        c = b[p]; p += 1; {name} |= (c & 127) << s")
        self._line("        if c < 128: break")
        self._line("        s += 7")
        self._line("        if s > 28: raise bad_varint(o + p)")
        return name

    def _length(self, size: int) -> str:
        """Writes code that reads a length into a variable; returns the variable's name.

        The length has `size` bytes; in flexible versions it is a varint of the length plus one.
        """
        if self._flexible:
            name = self._varint()
            self._line(f"{name} -= 1")
        else:
            self._settle()
            name = self._name()
            self._need(size)
            self._line(f"{name} = int.from_bytes(b[p:p + {size}], 'big', signed=True); p += {size}")
        self._line(f"if {name} < -1 or {name} > frame - o - p: raise bad_length({name}, o + p)")
        return name

    def _tags(self) -> None:
        count = self._varint()
        self._line(f"if {count} > frame - o - p: raise bad_length({count}, o + p)")
        self._line(f"for _ in range({count}):")
        self._indent += 1
        self._varint()
        size = self._varint()
        self._line(f"if {size} > frame - o - p: raise bad_length({size}, o + p)")
        self._line(f"p += {size}")
        self._indent -= 1

    def _field(self, field: Field) -> None:
        if not field.array:
            self._one(field)
            return
        count = self._length(4)
        size = FIXED.get(field.type)
        if size is not None:
            self._line(f"if {count} > 0: p += {count} * {size}")
            return
        self._line(f"for _ in range({count}):")
        self._indent += 1
        self._one(field)
        self._settle()
        self._line("pass")
        self._indent -= 1

    def _one(self, field: Field) -> None:
        size = FIXED.get(field.type)
        if size is not None:
            self._fixed += size
        elif field.struct is None:
            length = self._length(2 if field.type == "string" else 4)
            self._line(f"if {length} > 0: p += {length}")
        elif self._version in field.nullable and not field.array:
            self._settle()
            self._need(1)
            self._line("c = b[p]; p += 1")
            self._line("if c < 128:")
            self._indent += 1
            self._struct(field.struct)
            self._settle()
            self._line("pass")
            self._indent -= 1
        else:
            self._struct(field.struct)

    def _struct(self, struct: Struct) -> None:
        for field in struct.fields:
            if self._version in field.versions and self._version not in field.tagged:
                self._field(field)
        if self._flexible:
            self._tags()
