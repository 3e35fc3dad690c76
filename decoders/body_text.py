"""Iterates over the texts in a body, for searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

WITHHELD: Final = "\0withheld"
"""Stands for a secret, which has no text; compare with `is`."""


def texts(body: Any) -> Iterator[str]:
    """The texts among the values of a body in the exchange JSON, and WITHHELD for each secret in it.

    Names of fields and the values of members "base64" are left out. Bodies are as deep as their messages, so recursion
    is bounded by the definitions and by the view's limits for decoded content.
    """
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for value in body:
            yield from texts(value)
    elif isinstance(body, dict):
        if "redacted" in body:
            yield WITHHELD
        for name, value in body.items():
            if name != "base64":
                yield from texts(value)
