"""How responses of each API and version are treated: rewritten, watched for broker addresses, or passed unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.core.addresses import API_KEYS, CARRIERS, ONLY_WHEN_ASKED, carrier
from kproxy.core.walker import Walker, compiled
from kproxy.decoders.problems import DecodeError
from kproxy.decoders.schema import Definitions, Message
from kproxy.decoders.schema.model import NO_VERSION

WATCHED = 1 << 16
"""Maximum length in bytes of a response that is held only to search it for addresses, and then passes unchanged."""
UNREAD = "unread-"
UNKNOWN_VERSION = "no definition of this version"
SERVE_CONTROLLERS = "; --controllers serves them through kproxy"


class Plan:
    """How to rewrite the responses of one API and version."""

    __slots__ = ("flexible", "header_version", "message", "name", "tag", "version", "walk", "whole")

    def __init__(self, message: Message, version: int, header_version: int) -> None:
        found = carrier(message, version)
        assert found is not None  # noqa: S101 (`Plans.get` asks for carriers only)
        carried, target = found
        self.message = message
        self.version = version
        self.header_version = header_version
        self.name = f"{message.name.removesuffix('Response')} v{version}"
        self.walk = compiled(message, version, header_version)
        self.flexible = version in message.flexible
        self.tag = target.tag if target is not None and version in target.tagged else None
        self.whole = carried.whole or self.tag is None


@dataclass(frozen=True, slots=True)
class Watch:
    """How to treat responses that pass unchanged; those of up to WATCHED bytes are searched for broker addresses.

    `topic`, `text` and `once` are those of the Notice for the user; with `topic` "" the user gets no Notice.
    """

    name: str
    topic: str = ""
    text: str = ""
    once: bool = False


class Plans:
    """How to treat the responses of each API and version.

    The plan for a version is made on first use; None lets the responses pass unchanged.

    Without definitions all responses pass unchanged, so that clients see the brokers' own addresses. With
    `controllers`, addresses in DescribeQuorum responses are replaced too.
    """

    def __init__(self, definitions: Definitions | None, *, controllers: bool = False) -> None:
        self._definitions = definitions
        self._controllers = controllers
        self.made: dict[int, Plan | Watch | None] = {}
        """The plans made so far, by API key << 16 | version."""

    def get(self, api_key: int, version: int) -> Plan | Watch | None:
        key = plan_key(api_key, version)
        try:
            return self.made[key]
        except KeyError:
            if len(self.made) > 10_000:
                self.made.clear()
            plan = self.made[key] = self._make(api_key, version)
            return plan

    def _make(self, api_key: int, version: int) -> Plan | Watch | None:
        definitions = self._definitions
        if definitions is None:
            return None
        message = definitions.response(api_key, version)
        if message is None:
            return _unknown(definitions, api_key, version)
        if message.name not in CARRIERS or carrier(message, version) is None:
            return None
        if message.name in ONLY_WHEN_ASKED and not self._controllers:
            name = f"{message.name.removesuffix('Response')} v{version}"
            text = f"names controllers' own addresses in {name}{SERVE_CONTROLLERS}"
            return Watch(name, f"controllers-{name}", text, once=True)
        return Plan(message, version, definitions.response_header_version(api_key, version))


def _unknown(definitions: Definitions, api_key: int, version: int) -> Watch | None:
    """How to treat a version newer than kproxy's definitions: it may carry addresses that known versions lack."""
    known = definitions.versions(api_key)
    if not known.high < version < NO_VERSION:
        return None
    api = definitions.api(api_key)
    name = f"API {api_key} v{version}" if api is None else f"{api.name} v{version} (known: {known})"
    return Watch(name, *unread_notice(name, UNKNOWN_VERSION) if api_key in API_KEYS else ())


def plan_key(api_key: int, version: int) -> int:
    """The key of an API version in `Plans.made` and `Passing.plans`."""
    return api_key << 16 | version & 0xFFFF


STRAY = Watch("a request that kproxy no longer knows")
"""How to treat a response whose request is unknown, after kproxy had to drop noted requests."""


def unchanged(plan: Plan | Watch | None, frame: bytes) -> bool:
    """Whether a whole response certainly carries no address, as its section of top-level tagged fields is empty."""
    if not isinstance(plan, Plan):
        return plan is None
    if plan.tag is None or frame[-1]:
        return False
    walker = Walker(plan.walk, len(frame))
    try:
        walker.feed(frame)
    except DecodeError:
        return False
    return walker.at == len(frame) - 1


def unread_notice(name: str, reason: str) -> tuple[str, str]:
    """The (topic, text) of the notice that a response passed without being read."""
    text = f"sent a response to {name} that passed unread ({reason}): an address in it may lead clients past kproxy"
    return f"{UNREAD}{name}-{reason}", text
