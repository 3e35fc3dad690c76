"""Authentication by kproxy on a connection to a broker, invisible to the client.

The client's bytes wait while kproxy authenticates: when the connection begins, and again when the session is about to
expire and the client sends a request (KIP-368; an idle session is not renewed). Authentication always begins between
two requests. Meanwhile responses to the client's earlier requests pass, and the gate removes responses to kproxy's own
requests. kproxy's requests have a correlation id that the client has not used on this connection.

kproxy's own requests and their responses are recorded too, with the secrets in them masked at equal length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kproxy.core.commands import ToBroker
from kproxy.core.frames import LENGTH, Frames
from kproxy.core.login import Ask, Granted, LoginError, Steps
from kproxy.core.protocols import other_protocol
from kproxy.decoders.framing import request_frame
from kproxy.decoders.message import decode_response
from kproxy.decoders.plurals import counted
from kproxy.decoders.sasl.tokens import masked
from kproxy.decoders.schema import Definitions
from kproxy.decoders.schema.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kproxy.decoders.writer import write

CLIENT_ID: Final = "kproxy"
LONGEST_ANSWER: Final = 1 << 20
RENEWED_AT: Final = 0.85
"""Fraction of a session's lifetime after which the session is renewed. Kafka's Java client renews no earlier either."""
FIRST_ID: Final = 0x6B707200
_HIGHEST, _LOWEST = (1 << 31) - 1, -(1 << 31)
_REQUEST_HEAD: Final = struct.Struct(">ihhi")
_RESPONSE_HEAD: Final = struct.Struct(">ii")
_ILLEGAL_STATE: Final = 34
_NO_PROTOCOL: Final = (
    "is refused: kproxy authenticates (--sasl) only for clients that speak Kafka's protocol without TLS"
)
COMMENT: Final = "sent by kproxy itself, to authenticate for the client (--sasl); secrets in it are masked"
ANSWER_COMMENT: Final = "answer to a request of kproxy itself, never forwarded to the client; secrets in it are masked"


@dataclass(frozen=True, slots=True)
class FromBroker:
    """Bytes from the broker to pass on to the client."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Own:
    """A frame of kproxy's own authentication: a request to send (side 0), or a response that the gate removed (side 1).

    `recorded` is the frame with its secrets masked.
    """

    side: int
    data: bytes
    recorded: bytes

    @property
    def comment(self) -> str:
        return ANSWER_COMMENT if self.side else COMMENT


@dataclass(frozen=True, slots=True)
class Began:
    """Authentication has begun: the caller may stop reading from the client until `Opened`."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Authentication has succeeded; the client's bytes that waited follow."""


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """The client has sent FIN, and all its bytes were passed on."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection must end. `why` completes a sentence that begins "upstream …", or "client …" if `client` is set.

    `answer` holds bytes to send to the client first.
    """

    why: str
    client: bool = False
    answer: bytes = b""


Act = ToBroker | FromBroker | Own | Began | Opened | ClientEnded | Refused


class Gate:
    """The authentication by kproxy on one connection.

    `steps(version)` begins an authentication. `version` is the version of SaslAuthenticate that the previous one used,
    None the first time. `steps` may raise LoginError.
    """

    def __init__(self, definitions: Definitions, steps: Callable[[int | None], Steps]) -> None:
        self._definitions = definitions
        self._make = steps
        self._steps: Steps | None = None
        self._asked: Ask | None = None
        self._version: int | None = None
        self._own_id = 0
        self._renew_at: float | None = None
        self._held: list[ToBroker | ClientEnded] = []
        self._requests = Frames(_REQUEST_HEAD.size)
        self._responses = Frames(0)
        self._answer = b""
        self._start = b""
        """The client's first bytes, as many as are needed to recognise another protocol."""
        self._ids = (0, FIRST_ID)
        """(low, high): a range that contains every correlation id that the client has used."""
        self.over = False
        """Whether the connection must end; then no more bytes pass."""

    @property
    def busy(self) -> bool:
        """Whether an authentication is under way."""
        return self._steps is not None

    def begin(self, now: float) -> list[Act]:
        """Begins an authentication; `now` is in seconds of any clock that all calls use."""
        low, high = self._ids
        self._own_id = high + 1 if high < _HIGHEST else max(low - 1, _LOWEST)
        try:
            self._steps = self._make(self._version)
        except LoginError as error:
            return [self.refuse(str(error))]
        return [Began(), *self._step(None, now)]

    # --- from the client ---------------------------------------------------------------------------------------------

    def to_broker(self, command: ToBroker, now: float) -> list[Act]:
        """Takes bytes for the broker: returns them to be sent, or keeps them while an authentication is under way."""
        if self.over:
            return []
        if len(self._start) < LENGTH:
            self._start += bytes(command.data[: LENGTH - len(self._start)])
            if other_protocol(self._start):
                return [self.refuse(_NO_PROTOCOL, client=True)]
        if self.busy:
            self._held.append(command)
            return []
        data = command.data
        if self._renew_at is not None and now >= self._renew_at and not self._requests.lost:
            border = self._requests.boundary(data)
            if border is not None:
                before = [] if not border else self._pass(ToBroker(data[:border], command.comment))
                comment = command.comment if border < len(data) else None
                self._held += [ToBroker(data[border:], comment)] if border < len(data) else []
                return [*before, *self.begin(now)]
        return self._pass(command)

    def client_ended(self) -> list[Act]:
        """Called when the client has sent FIN."""
        if self.busy:
            self._held.append(ClientEnded())
            return []
        return [ClientEnded()]

    def _pass(self, command: ToBroker) -> list[Act]:
        for start, head in self._requests.feed(command.data):
            if len(head) < _REQUEST_HEAD.size:
                continue
            _, api_key, _, correlation_id = _REQUEST_HEAD.unpack(head)
            if api_key in {SASL_HANDSHAKE, SASL_AUTHENTICATE}:
                return [*self._before(command, start), self._client_authenticates(correlation_id)]
            low, high = self._ids
            if not low <= correlation_id <= high:
                self._ids = (min(low, correlation_id), max(high, correlation_id))
        return [command]

    def _before(self, command: ToBroker, start: int) -> list[Act]:
        return [ToBroker(command.data[:start])] if start > 0 else []

    def _client_authenticates(self, correlation_id: int) -> Refused:
        """Refuses a client that sends SASL requests itself: the answer is ILLEGAL_SASL_STATE without mechanisms."""
        self.over = True
        why = "wants to authenticate by SASL, which kproxy does for it (--sasl): configure the client without SASL"
        return Refused(why, client=True, answer=struct.pack(">iihi", 10, correlation_id, _ILLEGAL_STATE, 0))

    # --- from the broker ---------------------------------------------------------------------------------------------

    def from_broker(self, data: bytes, now: float) -> list[Act]:
        """Takes bytes from the broker: removes responses to kproxy's own requests, passes all others."""
        acts: list[Act] = []
        while data and not self.over:
            if not self.busy or not self._responses.between:
                border = self._responses.boundary(data) if self.busy else len(data)
                passing = data if border is None else data[:border]
                self._responses.feed(passing)
                acts.append(FromBroker(passing))
                data = data[len(passing) :]
                continue
            data = self._answer + data
            self._answer = b""
            whole = self._whole(data)
            if isinstance(whole, Refused):
                acts.append(whole)
            elif whole is None:
                self._answer, data = data, b""
            elif int.from_bytes(data[4:8], "big", signed=True) != self._own_id:
                whole = min(whole, len(data))
                self._responses.feed(data[:whole])
                acts.append(FromBroker(data[:whole]))
                data = data[whole:]
            else:
                acts += self._answered(data[:whole], now)
                data = data[whole:]
        return acts

    def _whole(self, data: bytes) -> int | Refused | None:
        """The size in bytes of the frame that begins here; None if more bytes are needed.

        The size is known once the correlation id has arrived; for a response to kproxy's request, once the frame is
        whole.
        """
        if other := other_protocol(data):
            return self.refuse(f"speaks {other}, not Kafka's plain protocol")
        if len(data) < _RESPONSE_HEAD.size:
            return None
        length, correlation_id = _RESPONSE_HEAD.unpack_from(data)
        if length < 4:
            return self.refuse(f"sends bytes that do not begin a frame ({data[:4]!r})")
        if correlation_id != self._own_id:
            return 4 + int(length)
        if length > LONGEST_ANSWER:
            return self.refuse(f"sends too long a response ({counted(length, 'byte')}) to kproxy's authentication")
        return 4 + int(length) if len(data) >= 4 + length else None

    def _answered(self, frame: bytes, now: float) -> list[Act]:
        asked = self._asked
        assert asked is not None  # noqa: S101 (there is an answer to it)
        body = decode_response(frame, asked.api_key, asked.version, self._definitions).body
        auth = bytes((body or {}).get("authBytes") or b"")
        acts: list[Act] = [Own(1, frame, _masked(frame, auth))]
        if body is None:
            return [*acts, self.refuse(f"sends a response that cannot be decoded ({counted(len(frame), 'byte')})")]
        return acts + self._step(body, now)

    def _step(self, answer: Mapping[str, Any] | None, now: float) -> list[Act]:
        """Takes the response to the last request, None at first; returns the next request or the outcome."""
        assert self._steps is not None  # noqa: S101 (called while it is under way)
        try:
            asked = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration as end:
            return self._granted(end.value, now)
        except LoginError as error:
            return [self.refuse(str(error))]
        self._asked = asked
        frame = self._request(asked)
        return [Own(0, frame, _masked(frame, asked.auth))]

    def _granted(self, granted: Granted, now: float) -> list[Act]:
        self._steps = None
        self._version = granted.version
        self._renew_at = now + granted.lifetime_ms / 1000 * RENEWED_AT if granted.lifetime_ms > 0 else None
        held, self._held = self._held, []
        acts: list[Act] = [Opened()]
        for one in held:
            acts += self.client_ended() if isinstance(one, ClientEnded) else self.to_broker(one, now)
        return acts

    def refuse(self, why: str, *, client: bool = False) -> Refused:
        """Ends authentication and connection; the arguments are those of `Refused`."""
        self.over = True
        self._steps = None
        self._held.clear()
        return Refused(why, client)

    def _request(self, asked: Ask) -> bytes:
        definitions, key, version = self._definitions, asked.api_key, asked.version
        message = definitions.request(key, version)
        assert message is not None  # noqa: S101 (part of the shipped definitions)
        return request_frame(definitions, (key, version), self._own_id, CLIENT_ID, write(message, version, asked.body))


def _masked(frame: bytes, auth: bytes) -> bytes:
    return frame.replace(auth, masked(auth)) if auth else frame
