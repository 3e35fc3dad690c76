"""Finds the definition of a message by API key and version, or by name and version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from kproxy.decoders.schema import apis, errors, irregular, store
from kproxy.decoders.schema.apis import Api, all_apis
from kproxy.decoders.schema.model import NEVER, Kind, Message, Versions
from kproxy.decoders.schema.store import Definition

if TYPE_CHECKING:
    from kproxy.decoders.schema.additions import Additions
    from kproxy.decoders.schema.dialect import Dialect, RequestType


class Definitions:
    """All message definitions, from the viewpoint of one `release`.

    Definitions of `release` take precedence, then definitions of the newest release, then, for versions that the newest
    release lacks, definitions of older releases. `additions` are definitions of users' files.
    """

    def __init__(self, release: str, additions: Additions | None = None) -> None:
        self.release = release
        given = () if additions is None else additions.messages
        self.apis: Mapping[int, Api] = MappingProxyType(
            all_apis(release)
            | {
                one.api_key: apis.given(one.api_key, one.name.removesuffix("Request"), one.listeners, one.unstable)
                for one in given
                if one.kind == "request" and one.api_key is not None
            }
        )
        self.dialects: Mapping[str, Dialect] = {} if additions is None else additions.dialects
        self.among_kafka: Mapping[int, tuple[Dialect, RequestType]] = {
            number: (dialect, request)
            for dialect in self.dialects.values()
            for number, request in dialect.among_kafka.items()
        }
        """By number: the (dialect, request type) of requests that clients send on Kafka's connections.

        Such a request has this number where Kafka's requests have the API key.
        """
        self._newest = store.releases()[0]
        self._requests: dict[tuple[int, int], Definition] = {}
        self._responses: dict[tuple[int, int], Definition] = {}
        self._named: dict[tuple[str, int], Definition] = {}
        self._older: dict[tuple[str, int], Definition] = {}
        self._records: dict[tuple[str, str, int], dict[int, Definition]] = {}
        self._versions: dict[int, Versions] = {}
        self._headers: dict[tuple[int, int], tuple[int, int]] = {}
        self._all = [definition for kept in store.definitions().values() for definition in kept]
        self._all += map(Definition.given, given)
        for definition in self._all:
            self._enter(definition)

    def _enter(self, definition: Definition) -> None:
        rules = definition.because in {None, "gone"} or definition.release == self.release
        key, name, kind = definition.api_key, definition.name, definition.kind
        versions = range(definition.versions.low, definition.versions.high + 1)
        for version in versions:
            if rules:
                self._named[name, version] = definition
            elif definition.because == "layout":
                self._older[name, version] = definition
                if key is not None:
                    self._older[self._responses_or_requests(kind)[key, version].name, version] = definition
            self._named.setdefault((name, version), definition)
        if definition.topic is not None and definition.record_type is not None and rules:
            by_version = self._records.setdefault((definition.topic, kind, definition.record_type), {})
            by_version.update(dict.fromkeys(versions, definition))
        if key is None:
            return
        if rules:
            by_key = self._responses_or_requests(kind)
            for version in versions:
                by_key[key, version] = definition
        if kind == "request":
            known = self._versions.get(key, definition.versions)
            self._versions[key] = Versions(
                min(known.low, definition.versions.low), max(known.high, definition.versions.high)
            )

    def _responses_or_requests(self, kind: str) -> dict[tuple[int, int], Definition]:
        return self._requests if kind == "request" else self._responses

    def message(self, name: str, version: int) -> Message | None:
        """The definition of a message by its name ("RequestHeader", "ConsumerProtocolAssignment")."""
        definition = self._named.get((name, version))
        return None if definition is None else definition.message

    def request(self, api_key: int, version: int) -> Message | None:
        definition = self._requests.get((api_key, version))
        return None if definition is None else definition.message

    def response(self, api_key: int, version: int) -> Message | None:
        definition = self._responses.get((api_key, version))
        return None if definition is None else definition.message

    def record(self, topic: str, kind: Kind, record_type: int, version: int) -> Message | None:
        """The definition of a key, value or metadata record of an internal topic.

        `record_type` is its number in that topic.
        """
        definition = self._records.get((topic, kind, record_type), {}).get(version)
        return None if definition is None else definition.message

    def older(self, message_name: str, version: int) -> Message | None:
        """The layout that an older release had for the same version, if it differs; else None."""
        definition = self._older.get((message_name, version))
        return None if definition is None else definition.message

    def quirk(self, message: Message, version: int) -> Message | None:
        """The layout that some clients sent by mistake for this message, to try if the right one does not fit.

        None if there is no such layout.
        """
        return irregular.with_extra_field(message, version)

    def versions(self, api_key: int) -> Versions:
        """All versions of an API that some release knows; empty for an unknown API key."""
        return self._versions.get(api_key, NEVER)

    def api(self, key: int) -> Api | None:
        return self.apis.get(key)

    def api_name(self, key: int, protocol: str | None = None) -> str | None:
        """The name of a Kafka API, or of a request type of the dialect `protocol`; None if unknown."""
        if protocol is None:
            api = self.apis.get(key)
            return None if api is None else api.name
        dialect = self.dialects.get(protocol)
        request = None if dialect is None else dialect.requests.get(key)
        return None if request is None else request.name

    def shown_api_name(self, key: int, protocol: str | None = None) -> str:
        """The name of an API or request type for people; "Key 32001" if it has no definition."""
        return self.api_name(key, protocol) or f"Key {key}"

    def error_name(self, code: int, key: int | None, version: int | None, protocol: str | None = None) -> str:
        """The name of an error code in responses of an API key and version, or of the dialect `protocol`."""
        if protocol is not None:
            dialect = self.dialects.get(protocol)
            named = None if dialect is None else dialect.response_header.names.get(code)
            return named or errors.name(code)
        return errors.name(code) if key is None or version is None else errors.name_in(key, version, code)

    def dialect_at(self, port: int) -> Dialect | None:
        """The dialect to which this port belongs; None if it belongs to none."""
        return next((one for one in self.dialects.values() if one.port == port), None)

    def nearest(self, api_key: int, version: int) -> int:
        """The known version of an API nearest to `version`. Raises KeyError for an unknown API key."""
        known = self._versions[api_key]
        return min(max(version, known.low), known.high)

    def request_header_version(self, api_key: int, version: int) -> int:
        """The header version of a request.

        An unknown API version gets the header version of the nearest known one. An unknown API key gets header version
        1, with which the client id can be read in any case.
        """
        return self._header_versions(api_key, version)[0]

    def response_header_version(self, api_key: int, version: int) -> int:
        """The header version of a response.

        An unknown API version gets the header version of the nearest known one, an unknown API key header version 0.
        """
        return self._header_versions(api_key, version)[1]

    def _header_versions(self, api_key: int, version: int) -> tuple[int, int]:
        found = self._headers.get((api_key, version))
        if found is None:
            if api_key not in self._versions:
                return 1, 0
            known = self.nearest(api_key, version)
            request, response = self._requests[api_key, known].message, self._responses[api_key, known].message
            special = irregular.request_header_version(api_key, version)
            special_response = irregular.response_header_version(api_key, version)
            found = (
                (2 if known in request.flexible else 1) if special is None else special,
                (1 if known in response.flexible else 0) if special_response is None else special_response,
            )
            if known == version:
                self._headers[api_key, version] = found
        return found

    def pairs(self, release: str | None = None) -> list[tuple[int, int]]:
        """All (API key, version) that are known, or those that `release` knows, in order."""
        if release is None:
            return sorted(self._requests)
        exact = resolve(release)
        return [
            (key, version)
            for key, api in sorted(self.apis.items())
            if (spoken := api.spoken.get(exact)) is not None
            for version in range(spoken.low, spoken.high + 1)
        ]

    def messages(self) -> Iterator[Message]:
        """Every message definition; if there are two for one version, both."""
        return (definition.message for definition in self._all)


def resolve(release: str | None) -> str:
    """The full name of a release: the newest for None, "3.9.2" for "3.9".

    Raises ValueError if the release is unknown.
    """
    known = store.releases()
    if release is None:
        return known[0]
    for exact in known:
        if release in {exact, exact.rpartition(".")[0]}:
            return exact
    raise ValueError(f"no definitions of Kafka {release}; known are {', '.join(known)}")


@cache
def _definitions(exact: str) -> Definitions:
    return Definitions(exact)


def definitions(release: str | None = None) -> Definitions:
    """All definitions from the viewpoint of a release ("3.9", "4.4.0"; None for the newest).

    Raises ValueError if unknown.
    """
    return _definitions(resolve(release))
