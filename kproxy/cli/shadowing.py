"""A stranger's `decoders` or `tui` in front of ours would fail in the oddest places: say so at once instead."""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from kproxy.cli.exits import Exit, Failure

PACKAGES = ("decoders", "captures", "tui")


def foreign(name: str, home: Path | None = None) -> str | None:
    """Where `name` would be imported from, if that is not beside this package; None where all is well."""
    home = home or Path(__file__).resolve().parents[2]
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = PathFinder.find_spec(name)
    if spec is None:
        return "nowhere"
    found = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
    if found and found[0] == home / name:
        return None
    return str(found[0] if found else spec.origin)


def check() -> None:
    """Raise Failure (exit 70) where a package of ours is hidden by another one of its name."""
    for name in PACKAGES:
        place = foreign(name)
        if place is not None:
            raise Failure(
                f"the package {name!r} would come from {place}, not from kproxy's own installation: "
                "remove that one, or install kproxy in an environment of its own",
                Exit.BUG,
            )
