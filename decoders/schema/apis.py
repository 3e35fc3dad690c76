"""The APIs: their current and older names, classes, and the releases that support them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from kproxy.decoders.schema import history, store
from kproxy.decoders.schema.history import Klass
from kproxy.decoders.schema.model import NEVER, Versions
from kproxy.decoders.schema.names import folded, lookup


@dataclass(frozen=True, slots=True)
class Api:
    """An API of Kafka, or of a user's file.

    `releases` are the first and the last release that support it ("0.8.0", "3.9"). The last one is None if the newest
    release supports the API. An API that a user's file defines has the class "given" and `releases` ("", None).
    `spoken` maps each release whose definitions kproxy has to the versions that the release knows. `unstable` are
    versions that the newest of these releases serves only with `unstable.api.versions.enable`; `stable` is true if
    there are none.
    """

    key: int
    name: str
    older_names: tuple[str, ...]
    klass: Klass | Literal["given"]
    releases: tuple[str, str | None]
    listeners: tuple[str, ...]
    unstable: Versions
    spoken: dict[str, Versions] = field(hash=False)

    @property
    def stable(self) -> bool:
        return not self.unstable


@cache
def all_apis(release: str | None = None) -> dict[int, Api]:
    """Every API by key.

    Name and stability are those in `release` (one of `store.releases`), if that release has the API.
    """
    apis = {}
    for facts in store.apis():
        key = facts["key"]
        spoken = {known: Versions.parse(text) for known, text in facts["versions"].items()}
        past = history.APIS[key]
        at = release if release in spoken else next(iter(spoken))
        apis[key] = Api(
            key=key,
            name=facts.get("names", {}).get(at, facts["name"]),
            older_names=past.older_names,
            klass=past.klass,
            releases=(past.first, past.last),
            listeners=tuple(facts["listeners"]),
            unstable=Versions.parse(facts.get("unstable", {}).get(at, "none")),
            spoken=spoken,
        )
    return apis


def given(key: int, name: str, listeners: tuple[str, ...] = (), unstable: Versions = NEVER) -> Api:
    """An API that a user's file defines."""
    return Api(key, name, (), "given", ("", None), listeners, unstable, {})


@cache
def _by_name() -> dict[str, int]:
    older = {folded(name): key for key, past in history.APIS.items() for name in past.older_names}
    return older | {folded(api.name): api.key for api in all_apis().values()}


def by_name(name: str) -> int | None:
    """The key of an API by its current or an older name; None if unknown.

    FETCH, FetchRequest, FetchKey stand for Fetch.
    """
    return lookup(_by_name(), name, ("request", "response", "key"))
