"""A protocol debugging proxy and packet inspector for Apache Kafka.

The names below are the public Python interface (docs/library.md); semantic versioning covers them, and no other name.
Each is imported when it is first used; __init__.pyi tells type checkers what it is.

PYTEST_DONT_REWRITE: pytest rewrites the assertions of packages with plugins, and warns if one was imported before.
"""

from __future__ import annotations

from typing import Any, Final

__version__ = "0.1.0"

_MODULES: Final = {
    "kproxy.captures.errors": ("CaptureError",),
    "kproxy.library.capture": ("Capture", "open"),
    "kproxy.library.errors": ("EncodeError", "FilterError"),
    "kproxy.library.exchange": ("Exchange", "Record", "Tree"),
    "kproxy.library.live": ("Live", "proxy"),
    "kproxy.library.messages": ("Message", "decode", "decode_all", "encode"),
    "kproxy.library.rules": ("Fault", "Match"),
}
"""The public names by the module that has them."""


__all__ = [
    "Capture",
    "CaptureError",
    "EncodeError",
    "Exchange",
    "Fault",
    "FilterError",
    "Live",
    "Match",
    "Message",
    "Record",
    "Tree",
    "decode",
    "decode_all",
    "encode",
    "open",
    "proxy",
]


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use."""
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
