"""Makes the viewers of payloads that the command line's options ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kproxy.decoders.payloads.choose import Chooser, Rule
from kproxy.decoders.payloads.schemas import Chain, Schemas
from kproxy.schemas import viewers


def chooser(
    *,
    schemas: Path | None,
    registry: str | None,
    rules: Sequence[Rule],
    wait: float,
    warn: Callable[[str], None],
    arrived: Callable[[], None] = lambda: None,
) -> Chooser:
    """A chooser of all installed viewers, with schemas from a folder first and then from a registry.

    `rules` say which viewer is used where. `wait` is the time in seconds to wait for a schema of the registry;
    `arrived` is called when a schema comes later than that. `warn` is called with problems of viewers, files and the
    registry. Raises ValueError if a rule names an unknown viewer, OSError if the folder cannot be read.
    """
    found = viewers.find()
    members: list[Schemas] = []
    warnings = list(found.warnings)
    if schemas is not None:
        from kproxy.schemas import folder

        loaded = folder.load(schemas)
        warnings += loaded.warnings
        members.append(loaded)
    if registry is not None:
        from kproxy.schemas.cache import DiskCache, directory
        from kproxy.schemas.http import Access
        from kproxy.schemas.registry import Registry

        access = Access.of(os.environ)
        cache = DiskCache(directory(), registry)
        members.append(Registry(registry, access, wait=wait, cache=cache, warn=warn, arrived=arrived))
    for warning in warnings:
        warn(warning)
    return Chooser(found.viewers, rules, Chain(members))
