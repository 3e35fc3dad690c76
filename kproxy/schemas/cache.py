"""Caches a registry's schemas on disk, for later runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from kproxy.captures import private
from kproxy.decoders.payloads.schemas import IdKind, Part, Schema, SchemaType

FRESH_SECONDS: Final = 24 * 3600.0
"""Seconds for which an entry is used.

A registry never changes the schema of an id, but another registry may take over its address.
"""


class DiskCache:
    """The schemas of one registry that are cached on disk. Never raises: disk errors count as cache misses."""

    def __init__(self, parent: Path, url: str) -> None:
        self._directory = parent / hashlib.sha256(url.encode()).hexdigest()[:16]

    def get(self, kind: IdKind, value: int | str) -> Schema | None:
        path = self._path(kind, value)
        try:
            if time.time() - path.stat().st_mtime > FRESH_SECONDS:
                return None
            kept = json.loads(path.read_bytes())
            parts = tuple(Part(name, b64decode(content)) for name, content in kept["parts"])
            return Schema(SchemaType(kept["type"]), parts, "registry", value) if parts else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, kind: IdKind, value: int | str, schema: Schema) -> None:
        parts = [[part.name, b64encode(part.content).decode()] for part in schema.parts]
        path = self._path(kind, value)
        with contextlib.suppress(OSError):
            private.folder(self._directory)
            private.replace(path, json.dumps({"type": schema.type, "parts": parts}))

    def _path(self, kind: IdKind, value: int | str) -> Path:
        return self._directory / f"{kind}-{value}.json"


def directory() -> Path:
    """The directory that caches the schemas of all registries."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("kproxy", appauthor=False)) / "schemas"
