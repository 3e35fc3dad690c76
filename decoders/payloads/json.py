"""A viewer for JSON without a schema."""

from __future__ import annotations

import json
import math
from typing import Any

from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError


def parse(data: bytes) -> Any:
    """The value of a text in JSON. Raises ViewError if it is not JSON."""
    try:
        return json.loads(data.decode(), parse_constant=_constant, parse_float=_number, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise ViewError(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ViewError(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ViewError("nested too deep") from None


def _constant(name: str) -> Any:
    raise ViewError(f"{name} is not JSON")


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _integer(text: str) -> int | str:
    # Parsing long integers takes quadratic time.
    return int(text) if len(text) <= 1000 else text


class JsonViewer:
    name = "json"
    title = "JSON"
    priority = 600
    plain = False

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        """Accepts only objects and arrays: a number or a word may as well be plain text."""
        del schemas
        if not payload.data.lstrip(b" \t\r\n").startswith((b"{", b"[")):
            return None
        try:
            value = parse(payload.data)
        except ViewError:
            return None
        return "a JSON object" if isinstance(value, dict) else "a JSON array"

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        return Content(parse(payload.data))
