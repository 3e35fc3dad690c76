"""Finds viewers of payloads by their entry points, both kproxy's own and those of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kproxy.decoders.payloads.viewer import GROUP, Viewer

ATTRIBUTES = {"name": str, "title": str, "priority": int, "plain": bool}
OWN = "kproxy.decoders.payloads."


@dataclass(frozen=True, slots=True)
class Found:
    """The installed viewers; `warnings` names each viewer that cannot be used, with the reason."""

    viewers: tuple[Viewer, ...]
    warnings: tuple[str, ...]


def find() -> Found:
    """All installed viewers. kproxy's own come first, so that no other package can take their names."""
    viewers: dict[str, Viewer] = {}
    warnings = []
    points = sorted(entry_points(group=GROUP), key=lambda point: (not point.value.startswith(OWN), point.name))
    for point in points:
        try:
            viewer = _load(point)
        except Exception as error:  # noqa: BLE001 (importing it runs anybody's code)
            warnings.append(f"viewer {point.name} ({point.value}) is left out: {type(error).__name__}: {error}")
            continue
        if viewer.name in viewers:
            warnings.append(f"viewer {point.name} ({point.value}) is left out: {viewer.name!r} exists already")
        else:
            viewers[viewer.name] = viewer
    if not any(point.value.startswith(OWN) for point in points):
        warnings.append("kproxy's own viewers are not registered: install kproxy again")
    return Found(tuple(viewers.values()), tuple(warnings))


def _load(point: EntryPoint) -> Viewer:
    """Loads the viewer of an entry point. Raises TypeError if it is not a viewer, and whatever importing it raises."""
    thing: Any = point.load()
    viewer: Any = thing() if isinstance(thing, type) else thing
    for attribute, kind in ATTRIBUTES.items():
        if not isinstance(getattr(viewer, attribute, None), kind):
            raise TypeError(f"the viewer's {attribute} is not a {kind.__name__}")
    for method in ("guess", "show"):
        if not callable(getattr(viewer, method, None)):
            raise TypeError(f"the viewer has no {method}()")
    return viewer  # type: ignore[no-any-return]  # what a viewer has was just checked
