"""Keeps indexes in the cache directory for later use, with the spools that hold the captures' bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kproxy.captures import cache, private, spool
from kproxy.captures.index import format as layout
from kproxy.captures.source import STANDARD_INPUT
from kproxy.captures.spool import Spool, Spooling
from kproxy.captures.stamps import stamp

MOST: Final = 2 << 30
"""Maximum size of all kept indexes together, in bytes; the newest is kept even if it alone is larger."""
FILES: Final = (
    layout.ROWS,
    layout.STRINGS,
    layout.CONNECTIONS,
    layout.DETAILS,
    layout.PROBLEMS,
    layout.KNOWLEDGE,
    layout.META,
)


def store() -> cache.Store:
    return cache.Store(cache.directory() / "indexes", MOST)


def entry(
    captures: Sequence[Path | str],
    *,
    ports: str | None = None,
    release: str | None = None,
    user_definitions: Sequence[str] = (),
    keylog: Path | str | None = None,
) -> str | None:
    """The name of the cache entry for these captures, read with these options.

    None if a capture cannot be read twice (a pipe) or an option's file cannot be read.
    """
    files = [str(Path(one).absolute()) for one in captures]
    stamps = [None if str(one) == STANDARD_INPUT else stamp(Path(one)) for one in captures]
    if not all(stamps):
        return None
    defined = [_defined(one) for one in user_definitions]
    secrets = None if keylog is None else stamp(Path(keylog))
    read_with = [*defined, *([] if keylog is None else [[keylog, secrets]])]
    if any(found is None and Path(one).exists() for one, found in read_with):
        return None
    return cache.name("index", layout.VERSION, layout.STORED_NAMES, files, stamps, ports, release, defined, secrets)


def _defined(user_definitions: str) -> list[Any]:
    """JSON values that change when the definition file or folder changes; for a dialect that comes with kproxy, its
    name.
    """
    path = Path(user_definitions)
    if path.is_dir():
        return [user_definitions, [[one.name, stamp(one)] for one in sorted(path.glob("*.json"))]]
    return [user_definitions, stamp(path)]


def keep(name: str, directory: Path) -> str | None:
    """Keep the complete index in `directory` under the entry's name; returns None, or why it cannot be kept."""
    return store().keep(name, {file: directory / file for file in FILES})


def lend(name: str, directory: Path, spooling: Spooling) -> list[Spool] | None:
    """Link the files of a kept index into `directory`, which is made.

    Returns the spools that the index needs, which the caller closes at the end; None if the index or a spool was not
    kept.
    """
    private.folder(directory)
    if not store().lend(name, {file: directory / file for file in FILES}):
        directory.rmdir()
        return None
    held: list[Spool] = []
    path = directory / layout.META
    meta: dict[str, Any] = json.loads(path.read_bytes())
    for at, made_of in enumerate(meta["spools"]):
        if made_of is None:
            continue
        found = spool.lent(made_of, meta["names"][at], spooling)
        if found is None:
            for one in held:
                one.close()
            for file in FILES:
                (directory / file).unlink()
            directory.rmdir()
            return None
        held.append(found)
        meta["sources"][at] = str(found.path)
    if held:
        private.replace(path, json.dumps(meta))  # a new file, so that the kept meta.json stays as it is
    return held
