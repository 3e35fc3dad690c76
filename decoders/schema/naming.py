"""Names of APIs and messages as users write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.decoders.schema import apis
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message, Versions
from kproxy.decoders.schema.names import folded, lookup

KINDS = ("request", "response")
_LONGEST_KEY = 5
"""Maximum number of digits of an API key, a 16-bit integer."""


@dataclass(frozen=True, slots=True)
class Named:
    """The API or message that a name denotes; `kind` is "request" or "response" if the name includes it."""

    api_key: int | None
    kind: str | None
    message: str | None = None

    def messages(self, definitions: Definitions, kind: str | None = None) -> list[list[Message]]:
        """For each message that the name denotes, all its definitions; `kind` selects request or response."""
        if self.message is not None:
            return [[one for one in definitions.messages() if one.name == self.message]]
        kinds = [self.kind or kind] if self.kind or kind else ["request", "response"]
        return [
            [one for one in definitions.messages() if (one.api_key, one.kind) == (self.api_key, wanted)]
            for wanted in kinds
        ]


def named(text: str, definitions: Definitions) -> Named | None:
    """The API or message with this name, in any spelling; None if there is none.

    An API has its present name, all its former ones and its key, each also followed by "request" or "response".
    """
    if text.isdecimal() and len(text) <= _LONGEST_KEY and int(text) in definitions.apis:
        return Named(int(text), None)
    for name in message_names(definitions):
        if folded(name) == folded(text):
            return Named(None, None, name)
    key = apis.by_name(text)
    if key is None:
        key = lookup({folded(one.name): one.key for one in definitions.apis.values()}, text, KINDS)
    if key is None:
        return None
    return Named(key, next((kind for kind in KINDS if folded(text).endswith(kind)), None))


def message_names(known: Definitions) -> list[str]:
    """Names of all messages that are not a request or response."""
    return sorted({one.name for one in known.messages() if one.kind not in KINDS})


def api_names(known: Definitions) -> list[str]:
    return [api.name for api in known.apis.values()]


def by_version(messages: Iterable[Message], known: Definitions) -> dict[int, Message]:
    """The definition that applies to each version of a message."""
    ruling: dict[int, Message] = {}
    for one in messages:
        for version in numbers(one.versions):
            if one.api_key is None:
                found = known.message(one.name, version)
            else:
                found = (known.request if one.kind == "request" else known.response)(one.api_key, version)
            ruling[version] = found or one
    return dict(sorted(ruling.items()))


def numbers(of: Versions) -> range:
    return range(of.low, of.high + 1)
