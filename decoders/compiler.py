"""Compiles a message definition and a version to one flat Python function that decodes such a message.

The function reads neighbouring fields of fixed size, together with the length that follows them, by one precompiled
struct; strings, arrays and nested structs are read in line. It does not track the path of a field, and makes only the
checks that it needs: the count before a list is built, null in a field that is not nullable, the end of the buffer
once. If it fails, the slow walk of `decoders.tree` reads the same bytes again and reports the fault and its place.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final, Protocol

from kproxy.decoders.primitives import Buffer, read_unsigned_varint, text, text_as_java
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema.layout import UNKNOWN_TAGS, Layout, Shape, Slot, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import TooLong, first_error

Values = dict[str, Any]

PLACING = 200_000
"""Maximum number of fields that the slow walk visits to locate an error (about half a second).

If the walk stops there, the reported offset is less exact.
"""

_SMALL = 32
"""Largest number of elements of an array of numbers for which the struct is precompiled."""


class Decode(Protocol):
    """A function that reads one message from `buffer[position:end]`; returns (values, position after it).

    Values have the names of Kafka's JSON converters and are int, float, bool, str, None, list and dict; a uuid is 16
    bytes; `bytes` and `records` are memoryview slices of the buffer; a tagged field is present only if it is on the
    wire; unknown tagged fields are under "_unknownTaggedFields" as [(tag, memoryview)].

    Raises DecodeError, whose offset is a position in the buffer. In text, bytes that are not UTF-8 become U+FFFD; a
    problem for each such field is appended to `problems`, with `where` "" and a position in the buffer as offset.
    """

    def __call__(
        self, buffer: Buffer, position: int, end: int, problems: list[Problem] | None = None
    ) -> tuple[Values, int]: ...


class _Failed(Exception):  # noqa: N818
    """The compiled function met bytes that do not fit; the slow walk then finds out why."""


def _fail() -> Any:
    raise _Failed


def _null(length: int) -> None:
    if length != -1:
        raise _Failed


def _varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte, just read, is before `position`.

    Returns (value, position after it).
    """
    return read_unsigned_varint(buffer, position - 1)


def _lone_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read the varint at `position`; returns (value, position of its last byte)."""
    value, position = read_unsigned_varint(buffer, position)
    return value, position - 1


STRICT: Final[list[Problem]] = []
"""A value for `problems` that makes decoding stop at the first error of any kind, without locating it."""


def _unplaced(cause: Exception | None, reached: int) -> DecodeError | None:
    """The error to report if the slow walk would take too long; `reached` is an offset that decoding had reached.

    None if the fault is text that is not UTF-8, which does not stop decoding.
    """
    if isinstance(cause, UnicodeDecodeError):
        return None
    if isinstance(cause, DecodeError):
        return DecodeError(cause.code, cause.message, cause.offset)
    if isinstance(cause, _Failed):
        return DecodeError(Code.BAD_LENGTH, "a length or count that does not fit, at or before this byte", reached)
    return DecodeError(Code.TRUNCATED, "the bytes end before the message does", reached)


def _small(code: str) -> list[Callable[..., tuple[Any, ...]]]:
    return [struct.Struct(">" + code * count).unpack_from for count in range(_SMALL)]


def _large(buffer: Buffer, position: int, count: int, code: str) -> tuple[Any, ...]:
    """Read `count` values of fixed size; the caller has checked the count against the bytes left."""
    one = struct.Struct(">" + code)
    return tuple(value for (value,) in one.iter_unpack(buffer[position : position + count * one.size]))


class _Source:
    """The source text of one module: a function that reads a message, and one for the tagged fields of each struct."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.constants: dict[str, Any] = {}
        self.functions: list[str] = []
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, name: str, value: Any) -> str:
        self.constants.setdefault(name, value)
        return name


class _Block:
    """Writes the statements of one level of indentation.

    Adjacent fields of fixed size are collected, and `flush` writes one statement that reads them all.
    """

    def __init__(self, source: _Source, lines: list[str], depth: int) -> None:
        self.source = source
        self.lines = lines
        self.depth = depth
        self.waiting: list[tuple[str, str]] = []

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def deeper(self) -> _Block:
        return _Block(self.source, self.lines, self.depth + 1)

    def read(self, code: str) -> str:
        """Add a value with this struct format to the pending reads.

        Returns the name of the variable that will hold it.
        """
        name = self.source.fresh("v")
        self.waiting.append((code, name))
        return name

    def flush(self) -> None:
        """Write the code that reads the pending fixed-size fields at once."""
        if not self.waiting:
            return
        codes = "".join(code for code, _ in self.waiting)
        names = [name for _, name in self.waiting]
        self.waiting = []
        size = struct.calcsize(">" + codes)
        if codes == "B":
            self.put(f"{names[0]} = b[p]")
        else:
            # "?" cannot be part of an identifier.
            constant = self.source.constant("S_" + codes.replace("?", "o"), struct.Struct(">" + codes).unpack_from)
            self.put(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {constant}(b, p)")
        self.put(f"p += {size}")

    # Each of the following methods writes code and returns an expression for the value, to be used only once.

    def length(self, slot: Slot, code: str) -> tuple[str, str]:
        """Write code that reads a length; returns (name of the variable that holds it, expression for the value if it
        is null).

        If the length is compact, the variable holds length + 1. The expression gives None, or raises if the field may
        not be null.
        """
        name = self.read("B" if slot.compact else code)
        self.flush()
        if slot.compact:
            self.put(f"if {name} > 127: {name}, p = U(b, p)")
            return name, "None" if slot.nullable else "F()"
        return name, f"N({name})" if slot.nullable else "F()"

    def slice(self, slot: Slot, code: str, function: str) -> str:
        """Write code that reads a string or bytes; in the expression `function`, "..." stands for the subscript of the
        bytes.
        """
        if slot.compact and not self.waiting:
            return self.lone(slot, function)
        name, null = self.length(slot, code)
        result = self.source.fresh("v")
        count, there = (f"{name} - 1", name) if slot.compact else (name, f"{name} >= 0")
        self.put(f"{result} = {function.replace('...', f'[p:(p := p + {count})]')} if {there} else {null}")
        return result

    def lone(self, slot: Slot, function: str) -> str:
        """Write code that reads a compact string or compact bytes whose length is read alone, not with other fields.

        The position `p` stays at the length's last byte, which makes up for the 1 in length + 1.
        """
        name, result = self.source.fresh("v"), self.source.fresh("v")
        self.put(f"{name} = b[p]")
        self.put(f"if {name} > 127: {name}, p = W(b, p)")
        null = "(p := p + 1) and None" if slot.nullable else "F()"
        self.put(f"{result} = {function.replace('...', f'[p + 1:(p := p + {name})]')} if {name} else {null}")
        return result

    def value(self, slot: Slot) -> str:
        if slot.shape is Shape.FIXED:
            return self.read(slot.format)
        if slot.shape is Shape.STRING:
            return self.slice(slot, "h", "T(b...)")
        if slot.shape is Shape.BYTES:
            return self.slice(slot, "i", "V...")
        if slot.shape is Shape.ARRAY:
            return self.array(slot)
        return self.struct(slot)

    def array(self, slot: Slot) -> str:
        name, null = self.length(slot, slot.count)
        element = slot.one
        result = self.source.fresh("v")
        self.put(f"if {name} > {int(slot.compact)}:")
        inner = self.deeper()
        if slot.compact:
            inner.put(f"{name} -= 1")
        # Like Kafka, refuse more elements than bytes, even if elements have no bytes.
        size = max(element.minimum, 1)
        inner.put(f"if {name}{f' * {size}' if size > 1 else ''} > e - p: F()")
        if element.shape is Shape.FIXED:
            code = element.format
            table = self.source.constant("A_" + code.replace("?", "o"), _small(code))
            inner.put(f"{result} = list({table}[{name}](b, p) if {name} < {_SMALL} else large(b, p, {name}, {code!r}))")
            inner.put(f"p += {name}{f' * {element.minimum}' if element.minimum > 1 else ''}")
        else:
            if element.layout is not None:
                inner = inner.fast(element.layout, name, result)
            append = self.source.fresh("a")
            inner.put(f"{result} = []")
            inner.put(f"{append} = {result}.append")
            inner.put(f"for _ in R(None, {name}):")
            body = inner.deeper()
            if element.layout is not None:
                body.fields(element.layout, f"{append}(", ")")
            else:
                value = body.value(element)
                body.flush()
                body.put(f"{append}({value})")
        self.put(f"elif {name}: {result} = []" if slot.compact else f"elif not {name}: {result} = []")
        self.put(f"else: {result} = {null}")
        return result

    def fast(self, layout: Layout, count: str, result: str) -> _Block:
        """Write code that reads an array of fixed-size structs by one call, if none of them has a tagged field.

        Returns the block for the code that reads all other arrays.
        """
        if not layout.slots or any(slot.shape is not Shape.FIXED for slot in layout.slots):
            return self
        codes = "".join(slot.format for slot in layout.slots) + "x" * layout.flexible
        unpack = self.source.constant("I_" + codes.replace("?", "o"), struct.Struct(">" + codes).iter_unpack)
        size = layout.minimum
        names = [self.source.fresh("v") for _ in layout.slots]
        literal = (
            "{" + ", ".join(f"{slot.name!r}: {name}" for slot, name in zip(layout.slots, names, strict=True)) + "}"
        )
        self.put(f"q = p + {count} * {size}")
        comprehension = f"{result} = [{literal} for {', '.join(names)}{',' * (len(names) == 1)} in {unpack}(b[p:q])]"
        if not layout.flexible:
            self.put(f"if {count} > 2: {comprehension}; p = q")
        else:
            self.put(f"if {count} > 3 and not any(b[p + {size - 1}:q:{size}]): {comprehension}; p = q")
        self.put("else:")
        return self.deeper()

    def struct(self, slot: Slot) -> str:
        result = self.source.fresh("v")
        if not slot.nullable:
            self.fields(slot.struct, f"{result} = ", "")
            return result
        if slot.tag is None:
            marker = self.read("b")
            self.flush()
            self.put(f"if {marker} >= 0:")
        else:
            marker = self.read("B")
            self.flush()
            self.put(f"if {marker} > 127: {marker}, p = U(b, p)")
            self.put(f"if 0 < {marker} <= 0x7FFFFFFF:")
        self.deeper().fields(slot.struct, f"{result} = ", "")
        self.put("else:")
        self.deeper().put(f"{result} = None")
        return result

    def fields(self, layout: Layout, before: str, after: str) -> None:
        """Write code that reads a struct's fields and puts its dict between the code `before` and `after`."""
        pairs = [(slot.name, self.value(slot)) for slot in layout.slots]
        tags = self.read("B") if layout.flexible else ""
        self.flush()
        literal = "{" + ", ".join(f"{name!r}: {value}" for name, value in pairs) + "}"
        if not layout.flexible:
            self.put(f"{before}{literal}{after}")
            return
        result = self.source.fresh("d")
        self.put(f"{before}({result} := {literal}){after}")
        self.put(f"if {tags}: p = {_tag_function(self.source, layout)}(b, p, e, {tags}, {result}, T)")


def _tag_function(source: _Source, layout: Layout) -> str:
    """Write the function that reads a struct's tagged fields into the struct's dict; returns the function's name."""
    name = source.fresh("tags_" + re.sub(r"\W", "_", layout.name))
    lines: list[str] = []
    block = _Block(source, lines, 1)
    block.put("if n > 127: n, p = U(b, p)")
    block.put("if n * 2 > e - p: F()")
    block.put("V = b if type(b) is memoryview else memoryview(b)")
    block.put("for _ in R(None, n):")
    loop = block.deeper()
    loop.put("t = b[p]")
    loop.put("q = b[p + 1]")
    loop.put("p += 2")
    loop.put("if t > 127 or q > 127:")
    loop.put("    t, p = U(b, p - 1)")
    loop.put("    q, p = U(b, p + 1)")
    loop.put("q += p")
    loop.put("if q > e: F()")
    word = "if"
    for tag, slot in layout.tagged.items():
        loop.put(f"{word} t == {tag}:")
        inner = loop.deeper()
        # A second value of a tag would silently replace the first.
        inner.put(f"if {slot.name!r} in d: F()")
        value = inner.value(slot)
        inner.flush()
        inner.put(f"d[{slot.name!r}] = {value}")
        inner.put("if p != q: F()")
        word = "elif"
    if layout.tagged:
        loop.put("else:")
        loop = loop.deeper()
    loop.put(f"if {UNKNOWN_TAGS!r} in d: d[{UNKNOWN_TAGS!r}].append((t, V[p:q]))")
    loop.put(f"else: d[{UNKNOWN_TAGS!r}] = [(t, V[p:q])]")
    loop.put("p = q")
    if layout.tagged:
        untagged = tuple(slot.name for slot in layout.slots)
        in_order = untagged + tuple(slot.name for slot in layout.tagged.values()) == layout.order
        order = source.constant("O_" + name, (*layout.order, UNKNOWN_TAGS))
        if in_order:
            block.put(f"if n == 1 or {UNKNOWN_TAGS!r} not in d: return p")
        block.put(f"c = {{k: d[k] for k in {order} if k in d}}")
        block.put("d.clear()")
        block.put("d.update(c)")
    block.put("return p")
    source.functions.append(f"def {name}(b, p, e, n, d, T):\n" + "\n".join(lines) + "\n")
    return name


def source_of(message: Message, version: int) -> tuple[str, dict[str, Any]]:
    """The source text of the module that reads `message` in `version`, and the constants that it uses."""
    layout = layout_of(message, version)
    source = _Source(message.name)
    lines: list[str] = []
    block = _Block(source, lines, 2)
    block.fields(layout, "d = ", "")
    head = (
        "def decode(b, p, e, problems=None, T=None):\n"
        "    s = p\n"
        "    if T is None: T = D if type(b) is bytes else X\n"
        "    V = b if type(b) is memoryview else memoryview(b)\n"
        "    try:\n"
    )
    tail = (
        "        if p <= e: return d, p\n"
        "    except (Failed, Bad, IndexError, Error, UnicodeDecodeError) as x:\n"
        "        return recover(b, s, e, problems, T is J, p, x)\n"
        "    return recover(b, s, e, problems, T is J, p, None)\n"
    )
    body = "\n".join(lines) + "\n"
    if not re.search(r"\bV\[", body):
        head = head.replace("    V = b if type(b) is memoryview else memoryview(b)\n", "")
    return "".join(source.functions) + head + body + tail, source.constants


_SHARED: dict[str, Any] = {
    "D": bytes.decode,
    "X": text,
    "J": text_as_java,
    "U": _varint,
    "W": _lone_varint,
    "F": _fail,
    "N": _null,
    "R": repeat,
    "large": _large,
    "Failed": _Failed,
    "Bad": DecodeError,
    "Error": struct.error,
}


@per_version
def decoder(message: Message, version: int) -> Decode:
    """The function that reads `message` in `version`, compiled on first use."""
    text_of_module, constants = source_of(message, version)
    names: dict[str, Any] = dict(_SHARED)
    names.update(constants)

    def recover(
        buffer: Buffer,
        start: int,
        end: int,
        problems: list[Problem] | None,
        lenient: bool,
        reached: int,
        cause: Exception | None,
    ) -> tuple[Values, int]:
        found: list[Problem] = []
        if problems is STRICT:
            raise _unplaced(cause, min(reached, end)) or DecodeError(Code.BAD_UTF8, "text that is not UTF-8", start)
        try:
            error = first_error(message, version, buffer, start, end, found, limit=PLACING)
        except TooLong as late:
            error = _unplaced(cause, min(reached, end))
            if error is not None:
                error.error_codes = late.error_codes
            found = [Problem("", min(reached, end), "", "text before this byte is not UTF-8", Code.BAD_UTF8)]
        if error is not None:
            raise error from None
        if lenient:
            raise DecodeError(Code.BAD_LENGTH, f"{message.name} v{version} cannot be read", start)
        values, position = names["decode"](buffer, start, end, None, text_as_java)
        if problems is not None:
            problems.extend(found)
        return values, position

    names["recover"] = recover
    # The source contains only a definition's names, quoted by repr, and numbers.
    exec(compile(text_of_module, f"<{message.name} v{version}>", "exec"), names)  # noqa: S102
    decode: Decode = names["decode"]
    return decode
