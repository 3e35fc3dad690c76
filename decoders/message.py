"""Decodes a whole frame: chooses the layout that fits it and reports bytes that do not fit.

Layouts are tried in this order: the newest; the one that an older release gave the same version; for ApiVersions
responses, v0 (KIP-511); one that some clients sent by mistake. The first that reads the frame to its last byte is
taken. An unknown version of a known API is read with the nearest known version and marked as a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from kproxy.decoders import secrets
from kproxy.decoders.compiler import STRICT, Decode, Values, decoder
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema import irregular
from kproxy.decoders.schema.errors import all_errors
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message, Versions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import tree

KEY_AND_VERSION = struct.Struct(">hh")
SIZE = 4
_COPY = 1 << 16
"""Size in bytes up to which frames are copied before decoding: slices of bytes decode faster than memoryviews."""


@dataclass(slots=True)
class Decoded:
    """A decoded frame.

    `body` was decoded with the definition `message` in `version` (None for an unknown API). `header` holds the header
    fields that could be read. `body` is None if it could not be read; if bytes follow the body, it is kept and there is
    a problem trailing_bytes. `guessed_version` is the version whose layout was guessed; `definitions` is the older
    release whose layout fitted when the newest did not. `body_start` is an offset from the frame's first byte.
    `codes_read` are the Kafka error codes that were read before decoding of the body failed.
    """

    message: Message | None
    version: int
    header: Values
    body: Values | None
    problems: list[Problem] = field(default_factory=list)
    guessed_version: int | None = None
    definitions: str | None = None
    body_start: int = 0
    codes_read: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A layout to try. If `only_error` is set, it is for bodies that begin with this error code (two bytes) only."""

    message: Message
    version: int
    decode: Decode
    guessed_version: int | None = None
    definitions: str | None = None
    only_error: bytes | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How to decode the frames of one API and version in one direction; `attempts` are tried in order."""

    header: Message
    header_version: int
    decode_header: Decode
    attempts: tuple[_Attempt, ...]
    problem: Problem | None
    """The problem of an unknown API key or version; None if both are known."""


class Plans:
    """A `Plan` for each API key and version, made on first use from one set of definitions."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.requests: dict[tuple[int, int], Plan] = {}
        self.responses: dict[tuple[int, int], Plan] = {}

    def get(self, side: Side, key: int, version: int) -> Plan:
        known = self.requests if side is Side.CLIENT else self.responses
        plan = known.get((key, version))
        if plan is None:
            plan = self._make(side, key, version)
            # Unknown keys and versions come from the wire: caching them could keep 2^32 plans.
            if plan.problem is None:
                known[key, version] = plan
        return plan

    def _make(self, side: Side, key: int, version: int) -> Plan:
        definitions = self.definitions
        request = side is Side.CLIENT
        if request:
            header_version = definitions.request_header_version(key, version)
            header = definitions.message("RequestHeader", header_version)
        else:
            header_version = definitions.response_header_version(key, version)
            header = definitions.message("ResponseHeader", header_version)
        if header is None:
            raise LookupError(f"no definition of header version {header_version}")
        problem = None
        where = "request" if request else "response"
        attempts: tuple[_Attempt, ...] = ()
        if not definitions.versions(key):
            problem = Problem(
                where, 4 if request else 0, "requestApiKey" if request else "",
                f"no release knows API key {key}", Code.UNKNOWN_API,
            )  # fmt: skip
        else:
            known = definitions.nearest(key, version)
            guess = known if known != version else None
            if guess is not None:
                name = definitions.apis[key].name if key in definitions.apis else f"API {key}"
                problem = Problem(
                    where, 6 if request else 0, "requestApiVersion" if request else "",
                    f"no release knows version {version} of {name}; read as version {known}", Code.UNKNOWN_VERSION,
                )  # fmt: skip
            attempts = tuple(self._attempts(key, known, guess, request=request))
            if not attempts and problem is None:
                problem = Problem(where, 0, "", f"nothing defines version {version} of API {key}", Code.UNKNOWN_VERSION)
        return Plan(header, header_version, decoder(header, header_version), attempts, problem)

    def _attempts(self, key: int, version: int, guess: int | None, *, request: bool) -> Iterator[_Attempt]:
        definitions = self.definitions
        message = definitions.request(key, version) if request else definitions.response(key, version)
        if message is None:
            return
        yield _Attempt(message, version, decoder(message, version), guess)
        older = definitions.older(message.name, version)
        if older is not None:
            yield _Attempt(older, version, decoder(older, version), guess, older.release)
        error = irregular.v0_answer_error(key)
        first = definitions.response(key, 0)
        if not request and error is not None and first is not None and (version > 0 or guess is not None):
            yield _Attempt(first, 0, decoder(first, 0), only_error=struct.pack(">h", error))
        quirk = definitions.quirk(message, version)
        if quirk is not None:
            # The field that the clients sent by mistake belongs to the next version.
            yield _Attempt(quirk, version, decoder(quirk, version), version + 1)


@cache
def plans(definitions: Definitions) -> Plans:
    """The plans for decoding frames with these definitions."""
    return Plans(definitions)


def decode_request(data: Buffer, definitions: Definitions) -> Decoded:
    """Decode a request, its length field included. Malformed bytes give problems in the result, never an exception."""
    if len(data) < SIZE + KEY_AND_VERSION.size:
        return _too_short(data, "request")
    key, version = KEY_AND_VERSION.unpack_from(data, SIZE)
    known = plans(definitions)
    plan = known.requests.get((key, version)) or known.get(Side.CLIENT, key, version)
    return decode(data, plan, version, "request")


def decode_response(data: Buffer, api_key: int, api_version: int, definitions: Definitions) -> Decoded:
    """Decode a response, its length field included, to a request of this API key and version.

    Malformed bytes give problems in the result, never an exception.
    """
    if len(data) < SIZE:
        return _too_short(data, "response")
    known = plans(definitions)
    plan = known.responses.get((api_key, api_version)) or known.get(Side.BROKER, api_key, api_version)
    return decode(data, plan, api_version, "response")


def may_tell_a_secret(data: Buffer, definitions: Definitions) -> bool:
    """Whether an orphan response may hold a secret.

    It may if it fits the layout of an API whose responses hold secrets, or may carry records with secrets.
    """
    return secrets.names_topic(data) or any(
        response_fits(data, key, version, definitions)
        for key in secrets.API_KEYS
        for version in _every(definitions.versions(key))
    )


def response_fits(data: Buffer, api_key: int, api_version: int, definitions: Definitions) -> bool:
    """Whether all bytes of a frame decode as a response of this API and version.

    Decoding stops at the first byte that does not fit, so the check is cheap enough for every message.
    """
    plan = plans(definitions).get(Side.BROKER, api_key, api_version)
    end = len(data)
    if end < SIZE or plan.problem is not None:
        return False
    try:
        _, start = plan.decode_header(data, SIZE, end, STRICT)
    except DecodeError:
        return False
    return any(_fits(attempt, data, start, end) for attempt in plan.attempts)


def _fits(attempt: _Attempt, data: Buffer, start: int, end: int) -> bool:
    if attempt.only_error is not None and bytes(data[start : start + 2]) != attempt.only_error:
        return False
    try:
        return attempt.decode(data, start, end, STRICT)[1] == end
    except DecodeError:
        return False


def _every(versions: Versions) -> range:
    return range(versions.low, versions.high + 1)


def _too_short(data: Buffer, where: str) -> Decoded:
    end = len(data)
    problem = Problem(where, end, "", f"a {where} of {counted(end, 'byte')} has no header", Code.TRUNCATED)
    return Decoded(None, -1, {}, None, [problem], body_start=end)


def decode(data: Buffer, plan: Plan, version: int, where: str, start: int = SIZE) -> Decoded:
    """Decode a frame by a plan; its header begins at `start`, and `where` is "request" or "response" in problems."""
    end = len(data)
    if type(data) is not bytes and end <= _COPY:
        data = bytes(data)
    found: list[Problem] = []
    try:
        header, start = plan.decode_header(data, start, end, found)
    except DecodeError as error:
        message = plan.attempts[0].message if plan.attempts else None
        problems = [error.problem(where)] if plan.problem is None else [plan.problem, error.problem(where)]
        return Decoded(message, version, _partial_header(data, plan, start, end), None, problems, body_start=end)
    if not plan.attempts:
        return Decoded(None, version, header, None, _problems(plan, found, where), body_start=start)
    attempt = plan.attempts[0]
    text: list[Problem] = []
    outcome: _Outcome
    try:
        body, position = attempt.decode(data, start, end, text)
    except DecodeError as error:
        outcome = error
    else:
        if position == end and not text and not found and plan.problem is None:
            return Decoded(attempt.message, attempt.version, header, body, text, None, None, start)
        outcome = (body, position, text)
    return _settle(data, plan, where, header, start, _problems(plan, found, where), outcome)


_Outcome = tuple[Values, int, list[Problem]] | DecodeError
"""(values, position after them, problems of text that is not UTF-8), or the error that stopped decoding."""


def _attempt(attempt: _Attempt, data: Buffer, start: int, end: int) -> _Outcome:
    text: list[Problem] = []
    try:
        body, position = attempt.decode(data, start, end, text)
    except DecodeError as error:
        return error
    return body, position, text


def _settle(
    data: Buffer, plan: Plan, where: str, header: Values, start: int, problems: list[Problem], outcome: _Outcome
) -> Decoded:
    """Take the first layout that decodes to the last byte, else the one that leaves fewest bytes, else none.

    `outcome` is the result of the first layout.
    """
    end = len(data)
    first_error: DecodeError | None = None
    loose: tuple[_Attempt, Values, int, list[Problem]] | None = None
    for attempt in plan.attempts:
        if attempt is not plan.attempts[0]:
            if attempt.only_error is not None and bytes(data[start : start + 2]) != attempt.only_error:
                continue
            outcome = _attempt(attempt, data, start, end)
        if isinstance(outcome, DecodeError):
            first_error = first_error or outcome
            continue
        body, position, text = outcome
        if position == end:
            return _decoded(attempt, header, body, [*problems, *_placed(text, where)], start)
        if loose is None or position > loose[2]:
            loose = (attempt, body, position, text)
    if loose is not None:
        attempt, body, position, text = loose
        left = end - position
        trailing = Problem(where, position, "", f"{counted(left, 'byte')} after the body", Code.TRAILING_BYTES)
        return _decoded(attempt, header, body, [*problems, *_placed(text, where), trailing], start)
    decoded = _decoded(plan.attempts[0], header, None, problems, start)
    if first_error is not None:
        problems.append(first_error.problem(where))
        if plan.problem is None:
            # Codes read with another version's layout would be meaningless.
            known = all_errors()
            decoded.codes_read = [code for code in first_error.error_codes if code in known]
    return decoded


def _problems(plan: Plan, found: list[Problem], where: str) -> list[Problem]:
    """The problems of the API key, the version and the header; `found` are those of the header."""
    return [*([] if plan.problem is None else [plan.problem]), *_placed(found, where)]


def _decoded(attempt: _Attempt, header: Values, body: Values | None, problems: list[Problem], start: int) -> Decoded:
    guess, release = attempt.guessed_version, attempt.definitions
    return Decoded(attempt.message, attempt.version, header, body, problems, guess, release, start)


def _placed(problems: list[Problem], where: str) -> Iterator[Problem]:
    return (Problem(where, p.offset, p.path, p.message, p.code) for p in problems)


def _partial_header(data: Buffer, plan: Plan, start: int, end: int) -> Values:
    names = {slot.name for slot in layout_of(plan.header, plan.header_version).slots}
    node = tree(plan.header, plan.header_version, data, start, end)
    return {child.name: child.value for child in node.children if child.name in names and child.problem is None}
