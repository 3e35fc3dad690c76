"""Converts the values that viewers return to values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final

from kproxy.decoders.jsonform import base64, float_json

DEPTH: Final = 100
"""Maximum depth to which values may nest."""
VALUES: Final = 1_000_000
"""Maximum number of values in a payload."""
BITS: Final = 4096
"""Maximum size in bits of integers in base 10.

Longer ones become text in base 16: printing base 10 takes quadratic time.
"""


class NotJsonError(Exception):
    """A value is nested too deep or too large; the message says which."""


def json_value(value: Any) -> Any:
    """The value in types that `json.dumps` accepts. Raises NotJsonError.

    Bytes become {"base64": "…"}; non-finite floats, dates, decimals and other types unknown to JSON become text. Keys
    of maps become text; if two would then be equal, the map becomes a list of {"key", "value"}.
    """
    return _Conversion().value(value, 0)


class _Conversion:
    def __init__(self) -> None:
        self._left = VALUES

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NotJsonError(f"more than {VALUES} values")
        if depth > DEPTH:
            raise NotJsonError(f"nested more than {DEPTH} deep")
        # Most values have a type that needs no conversion.
        kind = type(value)
        if kind in _AS_THEY_ARE or (kind is str and value.isascii()):
            return value
        if kind is dict:
            return self._map(value, depth)
        if isinstance(value, str):
            # UTF-8 cannot represent a lone surrogate.
            return value.encode("utf-8", "replace").decode()
        if isinstance(value, int):
            return int(value) if value.bit_length() <= BITS else hex(value)
        if isinstance(value, float):
            return float_json(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return {"base64": base64(bytes(value))}
        if isinstance(value, Mapping):
            return self._map(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(one, depth + 1) for one in value]
        return _text(value)

    def _map(self, value: Mapping[Any, Any], depth: int) -> Any:
        depth += 1
        if all(type(key) is str and key.isascii() for key in value):
            return {key: self.value(one, depth) for key, one in value.items()}
        keys = [_key(self.value(key, depth)) for key in value]
        values = [self.value(one, depth) for one in value.values()]
        if len(set(keys)) == len(keys):
            return dict(zip(keys, values, strict=True))
        return [{"key": key, "value": one} for key, one in zip(keys, values, strict=True)]


_AS_THEY_ARE: Final = frozenset({bool, type(None)})


def _key(key: Any) -> str:
    import json

    return key if isinstance(key, str) else json.dumps(key)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)
