"""The JSON bodies that Kafka's own classes print, beside ours."""

from __future__ import annotations

from typing import Any


def bare(value: Any) -> Any:
    """Our body with base64 alone where what is inside bytes is shown as well."""
    if isinstance(value, list):
        return [bare(element) for element in value]
    if not isinstance(value, dict):
        return value
    if {"base64", "decoded"} <= value.keys():
        return value["base64"]
    return {name: bare(inner) for name, inner in value.items()}


def plain(value: Any) -> Any:
    """Our body without what we add to Kafka's form.

    A records object becomes `xSizeInBytes: n` in its struct, a `{base64, decoded}` object its base64.
    """
    if isinstance(value, list):
        return [plain(element) for element in value]
    if not isinstance(value, dict):
        return value
    if {"base64", "decoded"} <= value.keys():
        return value["base64"]
    result = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and "sizeInBytes" in inner and "batches" in inner:
            result[f"{name}SizeInBytes"] = inner["sizeInBytes"]
        else:
            result[name] = plain(inner)
    return result
