"""The APIs: their names then and now, what they are for and which releases speak them."""

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
    """`releases` are the first and the last that speak it, the last None while it lives ("0.8.0", "3.9").

    It is of class "given" where a user's file defines it; no release speaks it then, and `releases` is ("", None).
    `spoken` gives the versions that a release knows whose definitions we hold; `unstable` those of them that its
    newest does not serve unless `unstable.api.versions.enable` is set; `stable` says that there are none.
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
    """Every API by key; names and stability are those of `release` (as in `store.releases`) where it knows the API."""
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
    """The key of an API by its name of today or of an earlier release; FETCH, FetchRequest and FetchKey are Fetch."""
    return lookup(_by_name(), name, ("request", "response", "key"))
