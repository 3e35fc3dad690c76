r"""Converts a state (of a flow, or of findings) to bytes and back: JSON of its objects, checked against their classes.

    "kproxy-flow/1\n", BLAKE2b-64 of the compressed bytes, length of JSON with captured bytes (u32), of the JSON (u32);
    JSON and captured bytes, compressed by zstd

The JSON holds `classes` ([module, name, fields] each), `spans` ([address, length] of the captured bytes) and `objects`.
An object is a list: its kind or the index of its class, then its values. A value is null, a number, a text, true or
false, or [n] for object n; so shared objects stay shared, and circles are possible. Object 0 is the
whole.

Others may write files of states, so reading a state calls nothing that the state names: classes come from the modules
in MODULES, objects are made without their constructors, functions are those of FUNCTIONS and METHODS.
"""

from __future__ import annotations

import binascii
import builtins
import json
import struct
import types
import typing
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final

import zstandard

from kproxy.captures import reader
from kproxy.decoders.conversation import conversation
from kproxy.decoders.conversation.candidates import Awaited

NAME: Final = b"kproxy-flow/1\n"
_HEAD: Final = struct.Struct(f">{len(NAME)}s8sII")
MOST: Final = 1 << 30
"""Maximum size in bytes of a state's JSON and captured bytes together."""
MODULES: Final = (
    "kproxy.captures.findings.",
    "kproxy.captures.formats.link",
    "kproxy.captures.formats.plain",
    "kproxy.captures.lag",
    "kproxy.captures.partitioner",
    "kproxy.captures.ports",
    "kproxy.captures.reader",
    "kproxy.captures.seen",
    "kproxy.captures.spark.read.flows",
    "kproxy.captures.spark.read.folding",
    "kproxy.captures.tables.flows",
    "kproxy.captures.keys",
    "kproxy.captures.tables.rows",
    "kproxy.captures.tcp.",
    "kproxy.decoders.batches.batch",
    "kproxy.decoders.conversation.",
    "kproxy.decoders.dialects.",
    "kproxy.decoders.exchange",
    "kproxy.decoders.knowledge",
    "kproxy.decoders.problems",
    "kproxy.decoders.sasl.",
    "kproxy.decoders.schema.dialect",
    "kproxy.decoders.stream",
)
"""Modules from which classes in a state may come; a name that ends with a dot stands for a package."""
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "fits": conversation._fits,  # noqa: SLF001  # partial of it is in each conversation
    "same": reader._same,  # noqa: SLF001
}
"""Functions to which a state may refer, also as partial with arguments."""
METHODS: Final = frozenset({("FlowCounter", "began"), ("Held", "where")})
"""(class, name) of the bound methods to which a state may refer."""
_NAMES: Final = {function: name for name, function in FUNCTIONS.items()}
_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_MISSING: Final = object()
_LEFT_OUT: Final[Mapping[type, Sequence[str]]] = {Awaited: ("_pattern",)}
"""By class, the fields that a state leaves out because they are computed from the others."""
_KINDS: Final[Mapping[Any, str]] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_DICTS: Final[Mapping[Any, str]] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_EMPTY: Final[Mapping[str, Callable[[], Any]]] = {
    "list": list, "set": set, "array": partial(array, "q"), **{name: kind for kind, name in _DICTS.items()},
}  # fmt: skip
_CYTHON: Final = "__reduce_cython__"
_FIELDS: Final = "fields in order"
"""Takes the place of field names for an object of a compiled class, whose values are in Cython's order."""


class StateError(ValueError):
    """Bytes are no state, or are the state of another version."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the state {why}: remove the folder .follow with the tables and begin again")


# --- to bytes --------------------------------------------------------------------------------------------------------


class Writer:
    """Describes an object, and all objects that it refers to, as JSON values.

    `anew` returns the name of an object that the reader makes again, else None; `seen` is called with each other
    object.
    """

    def __init__(self, anew: Callable[[Any], Sequence[Any] | None], seen: Callable[[Any], None]) -> None:
        self._anew = anew
        self._seen = seen
        self._objects: list[Any] = []
        self._numbers: dict[int, list[int]] = {}
        self._classes: dict[tuple[type, tuple[str, ...]], int] = {}

    def objects(self, root: Any) -> dict[str, Any]:
        """The JSON values that describe `root`: {"classes", "objects"}.

        Raises TypeError if it refers to an object that a state cannot hold.
        """
        self._value(root)
        described = [self._described(one) for one in self._objects]  # describing an object may append others
        return {
            "classes": [[one.__module__, one.__qualname__, names] for one, names in self._classes],
            "objects": described,
        }

    def _value(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = [len(self._objects)]
            self._objects.append(value)  # also keeps the object alive, so that no other object gets its id
        return number

    def _values(self, values: Any) -> list[Any]:
        plain, one_of = _PLAIN, self._value
        return [value if type(value) in plain else one_of(value) for value in values]

    def _described(self, one: Any) -> list[Any]:
        kind = type(one)
        described = _KINDS.get(kind)
        if described is not None:
            return [described, *self._values(one)]
        if (described := _DICTS.get(kind)) is not None:
            return [described, *self._values(one), *self._values(one.values())]
        if kind is deque:
            return ["deque", one.maxlen, *self._values(one)]
        if kind is array:
            return ["array", *one]
        if kind is bytes:
            return ["bytes", binascii.b2a_base64(one, newline=False).decode()]
        if (anew := self._anew(one)) is not None:
            return ["anew", *anew]
        if kind is types.MethodType and (type(one.__self__).__name__, one.__name__) in METHODS:
            return ["method", self._value(one.__self__), one.__name__]
        if kind is partial and not one.keywords and one.func in _NAMES:
            return ["partial", _NAMES[one.func], *self._values(one.args)]
        if kind is types.FunctionType and one in _NAMES:
            return ["function", _NAMES[one]]
        return self._instance(one, kind)

    def _instance(self, one: Any, kind: type) -> list[Any]:
        if not _allowed(kind.__module__):
            raise TypeError(f"the state holds {kind.__module__}.{kind.__qualname__}, which it cannot store")
        self._seen(one)
        if isinstance(one, Enum):
            return [self._class(kind, ()), one.name]
        if isinstance(one, tuple):
            return [self._class(kind, ()), *self._values(one)]
        if hasattr(one, _CYTHON):
            return [self._class(kind, (_FIELDS,)), *self._values(_of_cython(one))]
        found = one.__getstate__()
        if isinstance(found, tuple):
            found = {**(found[0] or {}), **(found[1] or {})}
        elif isinstance(found, list):
            found = {field.name: value for field, value in zip(fields(one), found, strict=True)}
        for name in _LEFT_OUT.get(kind, ()):
            found.pop(name)
        return [self._class(kind, tuple(found or ())), *self._values((found or {}).values())]

    def _class(self, kind: type, names: tuple[str, ...]) -> int:
        return self._classes.setdefault((kind, names), len(self._classes))


def pack(described: Mapping[str, Any], held: Sequence[tuple[int, Any]]) -> bytes:
    """A state as bytes, from JSON values and from captured bytes as (address, bytes)."""
    spans = [[at, len(data)] for at, data in held]
    text = json.dumps({**described, "spans": spans} if spans else described, separators=(",", ":")).encode()
    whole = b"".join([text, *(data for _, data in held)])
    packed = zstandard.compress(whole, 1)
    return _HEAD.pack(NAME, _digest(packed), len(whole), len(text)) + packed


def _of_cython(one: Any) -> Sequence[Any]:
    """The values of the fields of an object whose class Cython compiled, in Cython's order."""
    _, (_, _, early), *later = one.__reduce_cython__()
    found: Sequence[Any] = later[0] if later else early
    return found


# --- from bytes ------------------------------------------------------------------------------------------------------


def unpack(state: bytes) -> tuple[dict[str, Any], list[tuple[int, bytes]]]:
    """(JSON values, captured bytes as (address, bytes)) from the bytes that `pack` returned. Raises StateError."""
    if len(state) < _HEAD.size or not state.startswith(NAME):
        raise StateError(f"is not of the form {NAME.decode().strip()}")
    _, digest, size, length = _HEAD.unpack_from(state)
    packed = state[_HEAD.size :]
    if _digest(packed) != digest or not length <= size <= MOST:
        raise StateError("is damaged")
    try:
        # bounded: the compressed frame says how much memory it needs
        whole = zstandard.decompress(packed) if zstandard.frame_content_size(packed) == size else b""
        described = json.loads(whole[:length])
        held = list(_held(described.get("spans", ()), whole, length))
    except StateError:
        raise
    except (zstandard.ZstdError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise StateError(f"cannot be read ({error})") from None
    return described, held


def _held(spans: Sequence[Sequence[Any]], whole: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    for address, size in spans:
        if type(address) is not int or type(size) is not int or not 0 <= size <= len(whole) - at:
            raise StateError("is damaged")
        yield address, whole[at : at + size]
        at += size


class Reader:
    """Makes the objects that `Writer` described; `anew` makes an object from its name."""

    def __init__(self, anew: Callable[[Sequence[Any]], Any]) -> None:
        self._anew = anew
        self._described: list[list[Any]] = []
        self._classes: list[tuple[Any, Sequence[str]]] = []
        self._made: list[Any] = []

    def object(self, described: Mapping[str, Any], kind: type) -> Any:
        """The described object, which must be an instance of `kind`. Raises StateError."""
        try:
            root = self._root(described)
        except StateError:
            raise
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise StateError(f"cannot be read ({type(error).__name__}: {error})") from None
        if type(root) is not kind:
            raise StateError(f"is one of {type(root).__name__}")
        return root

    def _root(self, described: Mapping[str, Any]) -> Any:
        self._described = described["objects"]
        self._classes = [_class(*one) for one in described["classes"]]
        self._made = [self._shell(*one[:2]) for one in self._described]
        # Earlier objects refer to later ones: made in reverse, each object is complete before it is hashed.
        for made, one in reversed(list(zip(self._made, self._described, strict=True))):
            if type(one[0]) is int and made is not _MISSING and not isinstance(made, Enum):
                self._fill(made, self._classes[one[0]][1], one[1:])
        for made, one in zip(self._made, self._described, strict=True):
            self._fill_kind(one[0], made, one)
        for one in self._made:
            if isinstance(one, Awaited):
                one.remake()
        return self._value([0])

    def _shell(self, kind: Any, first: Any = None) -> Any:
        """An object without its values, _MISSING if an object of this kind cannot exist without them."""
        if kind == "deque":
            return deque(maxlen=first)
        if type(kind) is not int:
            return _EMPTY.get(kind, _nothing)()
        found, _ = self._classes[kind]
        if issubclass(found, Enum):
            return found[first]
        return _MISSING if issubclass(found, tuple) else found.__new__(found)

    def _fill(self, made: Any, names: Sequence[str], values: list[Any]) -> None:
        found = self._values(values)
        if tuple(names) == (_FIELDS,):
            made.__setstate_cython__(tuple(found))
            return
        kind: Any = type(made)
        hints = _hints(kind)
        for name, value in zip(names, found, strict=True):
            if name in hints and not _is(value, hints[name]):
                raise StateError(f"has {type(made).__name__}.{name} of type {type(value).__name__}")
            object.__setattr__(made, name, value)

    def _fill_kind(self, kind: Any, made: Any, one: list[Any]) -> None:
        if kind in _DICTS.values():
            values = self._values(one[1:])
            half = len(values) // 2
            made.update(dict(zip(values[:half], values[half:], strict=True)))
        elif kind == "list":
            made[:] = self._values(one[1:])
        elif kind == "deque":
            made.extend(self._values(one[2:]))
        elif kind == "set":
            made.update(self._values(one[1:]))
        elif kind == "array":
            made.extend(one[1:])

    def _values(self, values: Sequence[Any]) -> list[Any]:
        return [self._value(value) if type(value) is list else value for value in values]

    def _value(self, reference: list[Any]) -> Any:
        (number,) = reference
        if type(number) is not int or number < 0:
            raise StateError("has a reference to nothing")
        found = self._made[number]
        if found is _MISSING:
            found = self._made[number] = self._whole(*self._described[number])
        return found

    def _whole(self, kind: Any, *values: Any) -> Any:
        """An object of a kind that must be made with its values.

        A circle of such objects ends in RecursionError.
        """
        if kind == "anew":
            return self._anew(values)
        if kind == "tuple":
            return tuple(self._values(values))
        if kind == "frozenset":
            return frozenset(self._values(values))
        if kind == "bytes":
            return binascii.a2b_base64(values[0], strict_mode=True)
        if kind == "function":
            return FUNCTIONS[values[0]]
        if kind == "partial":
            return partial(FUNCTIONS[values[0]], *self._values(values[1:]))
        if kind == "method":
            owner = self._value(values[0])
            if (type(owner).__name__, values[1]) not in METHODS:
                raise StateError("has a method that is not allowed")
            return getattr(owner, values[1])
        if type(kind) is int:
            return self._classes[kind][0]._make(self._values(values))
        raise StateError(f"has {kind!r}, which is not a kind of object")


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


# --- classes ---------------------------------------------------------------------------------------------------------


class _Names(dict[str, Any]):
    """The names to which a module's annotations refer; names that only type checkers import stand for Any."""

    def __missing__(self, _: str) -> Any:
        return Any


def _nothing() -> Any:
    return _MISSING


def _allowed(module: str) -> bool:
    return any(module == one or (one.endswith(".") and module.startswith(one)) for one in MODULES)


def _class(module: str, name: str, names: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """(class, names of the fields that a state holds). Raises StateError if a state may not have this class."""
    if not _allowed(module):
        raise StateError(f"has a class of {module!r}, which is not allowed")
    for one in names:
        if type(one) is not str or one.startswith("__"):
            raise StateError(f"has a field {one!r}")
    return _found(module, name), names


@cache
def _found(module: str, name: str) -> type:
    try:
        found = vars(import_module(module)).get(name)
    except ImportError:
        found = None
    if not isinstance(found, type) or found.__module__ != module:
        raise StateError(f"has a class {module}.{name}, which this version does not have")
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of an object's fields, as far as its class declares them."""
    # at run time, array.array accepts no subscript
    names = _Names({**vars(builtins), **vars(import_module(kind.__module__)), "array": typing.Sequence})
    return typing.get_type_hints(kind, None, names) if is_dataclass(kind) else {}


def _is(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in {typing.Union, types.UnionType}:
        return any(_is(value, one) for one in typing.get_args(hint))
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, int | float)
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol
        return True
