"""Objects as the bytes of JSON."""

from __future__ import annotations

import json
from typing import Any

import orjson

_slowly = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """UTF-8 on one line, without a line end.

    What is no text (half a surrogate pair, of a file's name for one) becomes "?".
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return _slowly(value).encode("utf-8", "replace")
