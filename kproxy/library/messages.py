"""Single messages: bytes to values and values to bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from kproxy.captures.definitions import definitions as definitions_of
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.byhand import Asked, Opened, Opener
from kproxy.decoders.framing import request_frame, response_frame
from kproxy.decoders.from_json import JsonError, body_values
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema.naming import KINDS, Named, by_version, named
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from kproxy.decoders.writer import WriteError, write
from kproxy.library.errors import EncodeError
from kproxy.library.json_object import JsonObject
from kproxy.library.reading import TREE_WIDTH

if TYPE_CHECKING:
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.schema import Message as Definition


class Message(JsonObject):
    """A message: a request, a response, record batches, or a message inside of others.

    As a mapping it is the object "kproxy.message/1" of `kproxy decode --json`.
    """

    __slots__ = ("_json", "_opened", "_show_secrets")

    def __init__(self, opened: Opened, api: str | None, *, show_secrets: bool) -> None:
        self._opened = opened
        self._show_secrets = show_secrets
        self._json = opened.to_json(api, show_secrets=show_secrets)

    @property
    def json(self) -> Mapping[str, Any]:
        """The object "kproxy.message/1"."""
        return self._json

    @property
    def kind(self) -> str:
        """What the bytes are: "request", "response", "message", "records", or "unknown"."""
        return self._opened.kind.value

    @property
    def api(self) -> str | None:
        """The name of the API; None if the message belongs to none."""
        api: str | None = self._json["api"]
        return api

    @property
    def name(self) -> str | None:
        """The name of the message's definition, such as "ProduceRequest"."""
        return None if self._opened.message is None else self._opened.message.name

    @property
    def version(self) -> int | None:
        """The version of the API or message."""
        return self._opened.version

    @property
    def header(self) -> dict[str, Any]:
        """The header's fields by name; {} for a message without one."""
        return dict(self._opened.header)

    @property
    def body(self) -> Any:
        """The body by field names, as in the exchange JSON; None if the bytes fit no definition."""
        return self._opened.body

    @property
    def size(self) -> int:
        """The number of bytes of the message."""
        return len(self._opened.given)

    @property
    def problems(self) -> tuple[dict[str, Any], ...]:
        """What is wrong with the bytes, each with its offset and the path of the field; () if every byte fits."""
        return tuple(self._json["problems"])

    @property
    def guess(self) -> str:
        """Why kproxy assumes this message, if neither the bytes nor the arguments name it; "" otherwise."""
        return self._opened.guess

    @property
    def tree(self) -> Node:
        """The root of the fields with their bytes (see `kproxy.library.exchange.Tree`); `str(message)` is its text."""
        return self._opened.root

    def __str__(self) -> str:
        from kproxy.captures.export.nodes import Style, tree_lines

        style = Style.of(self._opened, show_secrets=self._show_secrets, width=TREE_WIDTH)
        return "\n".join(tree_lines(self._opened.root, self._opened.data, style))

    def __repr__(self) -> str:
        version = "" if self.version is None else f" v{self.version}"
        wrong = f", {len(self.problems)} problems" if self.problems else ""
        return f"<Message {self.name or self.kind}{version}, {self.size} bytes{wrong}>"


def decode(
    data: bytes | bytearray | memoryview,
    api: str | int | None = None,
    version: int | None = None,
    *,
    kind: str | None = None,
    body: bool = False,
    request: bytes | bytearray | memoryview | None = None,
    release: str | None = None,
    definitions: Sequence[str | os.PathLike[str]] = (),
    show_secrets: bool = False,
    batch_limit: int = DEFAULT_LIMIT,
) -> Message:
    """Decodes one message; bytes that fit no definition become a Message with `problems`, never an exception.

    A request needs nothing else: its header says what it is. For a response, give `api` (a name or key) and `version`,
    or the bytes of its `request`; otherwise kproxy guesses. `kind` is "request" or "response". With `body`, the bytes
    are a body alone, without length and header; `api` may then be any message, such as "ConsumerProtocolAssignment".
    The other arguments are those of `open`. If `data` holds several messages, the first is decoded, and a problem says
    that bytes follow: see `decode_all`.

    Raises ValueError if the arguments name no API, message, or version of it.
    """
    opener = _opener(api, version, kind, body, release, definitions, show_secrets, batch_limit)
    if request is not None:
        asked = opener.remember(bytes(request))
        opener.asked = Asked(asked.api_key, asked.version, Side.BROKER)
    first, *more = islice(opener.open(bytes(data)), 2)
    if more:
        problem = Problem(first.kind.value, more[0].start, "", "bytes follow the message", Code.TRAILING_BYTES)
        first.problems.append(problem)
    return _message(first, opener)


def decode_all(
    data: bytes | bytearray | memoryview,
    api: str | int | None = None,
    version: int | None = None,
    *,
    kind: str | None = None,
    release: str | None = None,
    definitions: Sequence[str | os.PathLike[str]] = (),
    show_secrets: bool = False,
    batch_limit: int = DEFAULT_LIMIT,
) -> list[Message]:
    """Decodes messages that follow each other, such as one direction of a connection. The arguments are `decode`'s.

    A response is decoded by the request with its correlation id, if that came before it.
    """
    opener = _opener(api, version, kind, False, release, definitions, show_secrets, batch_limit)
    return [_message(opened, opener) for opened in opener.open(bytes(data))]


def encode(
    api: str | int,
    version: int,
    values: Mapping[str, Any],
    *,
    kind: str | None = None,
    correlation_id: int = 1,
    client_id: str | None = "kproxy",
    body: bool = False,
    release: str | None = None,
    definitions: Sequence[str | os.PathLike[str]] = (),
) -> bytes:
    """The bytes of a message with these values, which have the form of the exchange JSON; absent fields get defaults.

    `api` is a name or key; `kind` "request" (the default) or "response". The bytes begin with length and header, unless
    `body` is true or `api` names a message without a header, such as "ConsumerProtocolAssignment".

    Raises EncodeError if the values do not fit, ValueError if the arguments name no API, message, or version of it.
    """
    known = definitions_of(release, tuple(os.fspath(one) for one in definitions))
    found = _named(api, known)
    side = _side(found, kind) or "request"
    message = _definition(found, side, version, known)
    try:
        content = write(message, version, body_values(values, message, version))
    except (JsonError, WriteError) as error:
        raise EncodeError(str(error)) from None
    if body or found.api_key is None:
        return content
    api_version = found.api_key, version
    try:
        if side == "request":
            return request_frame(known, api_version, correlation_id, client_id, content)
        return response_frame(known, api_version, correlation_id, content)
    except WriteError as error:
        raise EncodeError(str(error)) from None


def _message(opened: Opened, opener: Opener) -> Message:
    api = None if opened.api_key is None else opener.definitions.api(opened.api_key)
    return Message(opened, None if api is None else api.name, show_secrets=opener.view.show_secrets)


def _opener(
    api: str | int | None,
    version: int | None,
    kind: str | None,
    body: bool,
    release: str | None,
    definitions: Sequence[str | os.PathLike[str]],
    show_secrets: bool,
    batch_limit: int,
) -> Opener:
    known = definitions_of(release, tuple(os.fspath(one) for one in definitions))
    view = View(show_secrets=show_secrets, batch_limit=batch_limit)
    return Opener(known, _asked(api, version, kind, known, body=body), view)


def _asked(api: str | int | None, version: int | None, kind: str | None, known: Definitions, *, body: bool) -> Asked:
    found = None if api is None else _named(api, known)
    side = _side(found, kind)
    if found is not None and version is not None:
        for one in (side,) if side is not None else KINDS:
            _definition(found, one, version, known)
    return Asked.of(found, version, side, known, body=body)


def _named(api: str | int, known: Definitions) -> Named:
    found = named(str(api), known)
    if found is None:
        raise ValueError(f"no API and no message is called {api!r}")
    return found


def _side(found: Named | None, kind: str | None) -> str | None:
    if kind is not None and kind not in KINDS:
        raise ValueError(f'{kind!r} is neither "request" nor "response"')
    return kind or (None if found is None else found.kind)


def _definition(found: Named, side: str, version: int, known: Definitions) -> Definition:
    """The definition of a version of a message. Raises ValueError if there is none."""
    versions = by_version(found.messages(known, side)[0], known)
    if version not in versions:
        name = found.message or known.shown_api_name(found.api_key or 0)
        raise ValueError(f"{name} has versions {min(versions)} to {max(versions)}, not {version}")
    return versions[version]
