"""Converts kproxy's JSON bodies to the form that Kafka's own classes print."""

from __future__ import annotations

from typing import Any


def bare(value: Any) -> Any:
    """The body with only the base64 of bytes that are shown decoded as well."""
    if isinstance(value, list):
        return [bare(element) for element in value]
    if not isinstance(value, dict):
        return value
    if {"base64", "decoded"} <= value.keys():
        return value["base64"]
    return {name: bare(inner) for name, inner in value.items()}


def plain(value: Any) -> Any:
    """The body without kproxy's additions to Kafka's form.

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
