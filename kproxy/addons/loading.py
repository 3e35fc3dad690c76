"""Loads addons from a file, a module, or an entry point of an installed package.

Installing a package does not run its addons: they run only when the user names them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from kproxy.addons.api import Actor, Observer

OBSERVERS, ACTORS = "kproxy.observers", "kproxy.actors"
"""Entry point groups of installed packages: OBSERVERS holds Observer classes, ACTORS holds Actor classes."""


class LoadError(Exception):
    """An addon cannot be loaded; the message names the addon and the reason."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The addon classes that were loaded, in the order in which the user named them."""

    observers: tuple[type[Observer], ...]
    actors: tuple[type[Actor], ...]


def absolute(spec: str) -> str:
    """The addon specification `spec` with an absolute path, so that a process in another directory can load it."""
    return str(Path(spec).absolute()) if spec.endswith(".py") else spec


def load(specs: Iterable[str], *, again: bool = False) -> Loaded:
    """Loads addons; each spec is FILE.py, a module's name or an entry point's name. Raises LoadError.

    With `again`, modules that are already imported are reloaded.
    """
    observers: list[type[Observer]] = []
    actors: list[type[Actor]] = []
    for spec in specs:
        try:
            classes = _classes(spec, again=again)
        except Exception as error:  # importing runs third-party code
            raise LoadError(f"addon {spec}: {type(error).__name__}: {error}") from error
        observers += [one for one in classes if issubclass(one, Observer)]
        actors += [one for one in classes if issubclass(one, Actor)]
        if not classes:
            raise LoadError(f"addon {spec}: contains no subclass of kproxy.addons.Observer or Actor")
    return Loaded(tuple(observers), tuple(actors))


def _classes(spec: str, *, again: bool) -> list[type[Any]]:
    """The addon classes that a spec names. Raises whatever exception the import raises."""
    if spec.endswith(".py"):
        return _in_module(_from_file(Path(spec)))
    points = [*entry_points(group=OBSERVERS, name=spec), *entry_points(group=ACTORS, name=spec)]
    if again:
        for name in {point.module for point in points} if points else {spec}:
            importlib.reload(importlib.import_module(name))
    if points:
        return [_checked(point.load()) for point in points]
    return _in_module(importlib.import_module(spec))


def _from_file(path: Path) -> ModuleType:
    name = f"kproxy_addon_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look up a class's module there
    spec.loader.exec_module(module)
    return module


def _in_module(module: ModuleType) -> list[type[Any]]:
    """The addon classes that a module defines itself, not those that it imports."""
    return [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Observer | Actor) and thing.__module__ == module.__name__
    ]


def _checked(thing: Any) -> type[Any]:
    if isinstance(thing, type) and issubclass(thing, Observer | Actor):
        return thing
    raise TypeError(f"{thing!r} is not a subclass of kproxy.addons.Observer or Actor")
