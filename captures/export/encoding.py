"""Encodes JSON, with records that are JSON text already."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from kproxy.decoders.escaping import in_json
from kproxy.decoders.records.form import RecordsText

LINE: Final = orjson.OPT_APPEND_NEWLINE


def _records(value: Any) -> Any:
    """Hands records that are JSON text already to orjson unchanged; TypeError for any other value."""
    return _forms(value) if value.text is None else orjson.Fragment(value.text)


def _forms(value: RecordsText) -> list[dict[str, Any]]:
    return value.forms


_slowly = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_forms).encode


def encode(value: Any, option: int | None = None) -> bytes:
    """A value as JSON in UTF-8 on one line; the line end is there only if the option is LINE.

    Lone surrogates, as in some file names, become "?".
    """
    try:
        return in_json(orjson.dumps(value, _records, option))
    except TypeError:
        return in_json(_slowly(value).encode("utf-8", "replace")) + (b"\n" if option == LINE else b"")
