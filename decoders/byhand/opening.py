"""Interprets bytes that a user gives: by the user's options, then by the bytes themselves, then by a guess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from kproxy.decoders import embedded, secrets
from kproxy.decoders.byhand.frames import Frame, frames, is_records, is_request, prefixed
from kproxy.decoders.byhand.readings import Reading, bare, lead, responses, starts
from kproxy.decoders.compiler import decoder
from kproxy.decoders.conversation.recognition import known, plausible_request, unfit
from kproxy.decoders.embedded import Scope
from kproxy.decoders.frame_tree import frame_tree, parts
from kproxy.decoders.guessing import MOST_GUESSED
from kproxy.decoders.inner_problems import problems_inside, record_problems
from kproxy.decoders.jsonform import base64, body_json
from kproxy.decoders.message import Decoded, decode_request, decode_response, may_tell_a_secret
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.problems import Code, DecodeError, Problem, limited
from kproxy.decoders.records import nodes
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.records.places import places
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.schema.naming import KINDS, Named
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import View

SCHEMA: Final = "kproxy.message/1"
_SIDES: Final = {None: None, "request": Side.CLIENT, "response": Side.BROKER}


class Kind(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"
    MESSAGE = "message"
    """The fields of a message, without a header."""
    RECORDS = "records"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user states about the bytes; None or empty for all that the user does not state.

    `names` are message names: the bytes are the fields of one of these messages, without a header.
    """

    api_key: int | None = None
    version: int | None = None
    side: Side | None = None
    names: frozenset[str] = frozenset()
    records: bool = False

    @classmethod
    def of(cls, found: Named | None, version: int | None, kind: str | None, known: Definitions, *, body: bool) -> Self:
        """The statements of a user who names an API or message (`found`), its version, and "request" or "response"
        (`kind`).

        With `body`, the bytes have no header. Those of a message that is no request or response never have one.
        """
        if found is not None and (body or found.message is not None):
            names = frozenset(one.name for messages in found.messages(known, kind) for one in messages)
            return cls(version=version, names=names)
        if body:
            kinds = KINDS if kind is None else (kind,)
            return cls(version=version, names=frozenset(one.name for one in known.messages() if one.kind in kinds))
        return cls(None if found is None else found.api_key, version, _SIDES[kind])

    @property
    def nothing(self) -> bool:
        return self == Asked()


@dataclass(slots=True)
class Opened:
    """The interpretation of some bytes.

    `start` is their offset in the input. `data` holds the bytes. If `shift` is -4, `data` begins with a length field
    that was added; add `shift` to offsets of `root` to get offsets in the given bytes. Offsets of `problems` count in
    the given bytes. `guess` says which of `kind`, `message` and `version` are guessed and why, "" if none is; `others`
    are other readings that fit. `guessed_version` and `definitions` have the meaning they have in
    `decoders.message.Decoded`.
    """

    kind: Kind
    start: int
    data: bytes
    root: Node
    shift: int = 0
    message: Message | None = None
    version: int | None = None
    api_key: int | None = None
    header: Any = field(default_factory=dict)
    body: Any = None
    problems: list[Problem] = field(default_factory=list)
    guess: str = ""
    others: list[Reading] = field(default_factory=list)
    guessed_version: int | None = None
    definitions: str | None = None
    may_hold_secrets: bool = False

    @property
    def given(self) -> bytes:
        """The bytes as the user gave them, without an added length field."""
        return self.data[-self.shift :]

    def to_json(self, api: str | None, *, show_secrets: bool) -> dict[str, Any]:
        """The JSON object "kproxy.message/1"; `api` is the name of the message's API."""
        line: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": self.kind.value,
            "offset": self.start,
            "size": len(self.given),
            "message": None if self.message is None else self.message.name,
            "api_key": self.api_key,
            "api": api,
            "version": self.version,
        }
        if self.kind in {Kind.REQUEST, Kind.RESPONSE}:
            line["header"] = self.header
        line["body"] = self.body
        if self.body is None:
            withheld = self.may_hold_secrets and not show_secrets
            line["raw"] = secrets.redacted(self.given) if withheld else base64(self.given)
        if self.guessed_version is not None:
            line["guessed_version"] = self.guessed_version
        if self.definitions is not None:
            line["definitions"] = self.definitions
        if self.guess:
            line["guess"] = self.guess
            line["other_readings"] = [{"message": one.message.name, "version": one.version} for one in self.others]
        line["problems"] = [problem.to_json() for problem in self.problems]
        return line


class Opener:
    """Interprets the input piece by piece; a response is decoded with its request if that came earlier in the input."""

    def __init__(self, definitions: Definitions, asked: Asked, view: View) -> None:
        self.definitions = definitions
        self.asked = asked
        self.view = view
        self._requests: dict[int, dict[tuple[int, int], bytes]] = {}
        """Request frames by correlation id (several requests may have the same), then by (API key, version)."""

    def open(self, data: bytes) -> Iterator[Opened]:
        """The interpretations of one piece of input, in order. Never raises on any bytes."""
        asked = self.asked
        if asked.records or (asked.nothing and is_records(data)):
            yield self._records(data, "" if asked.records else "the bytes begin with a record batch")
        elif asked.names:
            yield self._named(data)
        else:
            specified = not asked.nothing
            for frame in frames(data, self.definitions, *((self._expected, self._reach) if specified else ())):
                yield self._frame(frame)

    def remember(self, request: bytes) -> Opened:
        """The interpretation of a request with its length field; its response is then decoded with it."""
        return self._request(Frame(0, request, is_prefixed=True))

    def _expected(self, frame: bytes) -> bool:
        """Whether a frame has the kind, API and version that the user stated."""
        asked = self.asked
        if asked.side is not Side.BROKER and is_request(frame, self.definitions) and self._asked_request(frame):
            return True
        if asked.side is Side.CLIENT:
            return False
        if asked.api_key is not None and asked.version is not None:
            decoded = decode_response(frame, asked.api_key, asked.version, self.definitions)
            return decoded.body is not None and not decoded.problems
        return bool(responses(frame, self.definitions, api_key=asked.api_key, version=asked.version))

    def _reach(self, frame: bytes) -> int:
        """Number of a frame's bytes that can be decoded as the user stated."""
        asked = self.asked
        if asked.side is Side.CLIENT or asked.api_key is None:
            return _read(decode_request(frame, self.definitions), frame)
        version = self._furthest(frame, asked.api_key) if asked.version is None else asked.version
        return _read(decode_response(frame, asked.api_key, version, self.definitions), frame)

    def _asked_request(self, frame: bytes) -> bool:
        key, version = int.from_bytes(frame[4:6], "big", signed=True), int.from_bytes(frame[6:8], "big", signed=True)
        return self.asked.api_key in {None, key} and self.asked.version in {None, version}

    # --- frames ---

    def _frame(self, frame: Frame) -> Opened:
        asked, data = self.asked, frame.data
        if asked.side is Side.CLIENT:
            return self._request(frame)
        if asked.side is None and is_request(data, self.definitions) and self._asked_request(data):
            return self._request(
                frame, "" if frame.is_prefixed else "a request without length field: it fits to the last byte"
            )
        if asked.api_key is not None and asked.version is not None:
            return self._response(frame, asked.api_key, asked.version)
        askers = self._requests.get(int.from_bytes(data[4:8], "big", signed=True), {})
        for key, version in askers:
            if self._fits(data, key, version) or (frame.is_cut and len(askers) == 1):
                return self._response(frame, key, version, "an earlier request has the same correlation id")
        readings = responses(data, self.definitions, api_key=asked.api_key, version=asked.version)
        if readings and not frame.is_cut:
            first, *others = readings
            assert first.message.api_key is not None  # noqa: S101 (responses have keys)
            opened = self._response(frame, first.message.api_key, first.version, _guess(first, others), others)
            return self._guarded(opened)
        return self._unfit(frame)

    def _fits(self, data: bytes, key: int, version: int) -> bool:
        decoded = decode_response(data, key, version, self.definitions)
        return decoded.body is not None and not decoded.problems

    def _unfit(self, frame: Frame) -> Opened:
        """The interpretation of a frame that no definition decodes to its last byte."""
        asked, data = self.asked, frame.data
        if asked.side is None and plausible_request(data, _size(data), known(self.definitions)):
            return self._request(frame)
        if asked.api_key is not None:
            version = self._furthest(data, asked.api_key)
            return self._response(
                frame, asked.api_key, version, "no version fits to the last byte; this one reads furthest"
            )
        if asked.nothing and not frame.is_prefixed:
            return self._named(frame.data[4:])
        return self._unknown(frame)

    def _furthest(self, data: bytes, key: int) -> int:
        """The version of an API that decodes the most bytes of a response; of equal ones, the newest."""

        def read(version: int) -> tuple[int, int]:
            return _read(decode_response(data, key, version, self.definitions), data), version

        known_versions = self.definitions.versions(key)
        return max(range(known_versions.low, known_versions.high + 1), key=read)

    def _request(self, frame: Frame, guess: str = "") -> Opened:
        decoded = decode_request(frame.data, self.definitions)
        key, version = decoded.header.get("requestApiKey"), decoded.header.get("requestApiVersion")
        opened = self._opened(Kind.REQUEST, frame, decoded, key, version, guess)
        correlation_id = decoded.header.get("correlationId")
        if key is not None and version is not None and correlation_id is not None:
            self._requests.setdefault(correlation_id, {})[key, version] = frame.data
        return opened

    def _response(
        self, frame: Frame, key: int, version: int, guess: str = "", others: list[Reading] | None = None
    ) -> Opened:
        decoded = decode_response(frame.data, key, version, self.definitions)
        opened = self._opened(Kind.RESPONSE, frame, decoded, key, version, guess)
        opened.others = others or []
        return opened

    def _opened(
        self, kind: Kind, frame: Frame, decoded: Decoded, key: int | None, version: int | None, guess: str
    ) -> Opened:
        side = Side.CLIENT if kind is Kind.REQUEST else Side.BROKER
        shift = 0 if frame.is_prefixed else -4
        data, view = frame.data, self.view
        request = self._request_of(data, key, version) if side is Side.BROKER else None
        asked = None if request is None else decode_request(request, self.definitions).body
        if decoded.body is not None and decoded.message is not None:
            view.knowledge.learn(decoded.message, decoded.version, decoded.body, asked)
        both = (asked, decoded.body) if side is Side.BROKER else (decoded.body, None)
        known_places = places(key, *both, view.knowledge, self.definitions)
        opened = Opened(
            kind,
            frame.start,
            data,
            frame_tree(data, side, key, version, self.definitions, view=view, request=request, places=known_places),
            shift,
            decoded.message,
            version,
            api_key=key,
            header=_header(decoded.header),
            guess=guess,
            guessed_version=decoded.guessed_version,
            definitions=decoded.definitions,
            may_hold_secrets=secrets.in_frame(key, data, response=side is Side.BROKER),
        )
        problems = list(limited(decoded.problems))
        if decoded.body is not None and decoded.message is not None:
            scope = Scope(view, self.definitions, asked)
            opened.body = body_json(decoded.body, decoded.message, decoded.version, view, scope)
            problems += record_problems(data, decoded, opened.body, kind.value)
            problems += problems_inside(data, decoded, scope, kind.value)
        problems[:0] = _missing(frame, kind)
        opened.problems = [replace(problem, offset=problem.offset + shift) for problem in problems]
        return opened

    def _request_of(self, response: bytes, key: int | None, version: int | None) -> bytes | None:
        """The frame of the request with this response's correlation id, API key and version.

        None if the input did not hold it before the response.
        """
        asked = self._requests.get(int.from_bytes(response[4:8], "big", signed=True), {})
        return None if key is None or version is None else asked.get((key, version))

    def _guarded(self, opened: Opened) -> Opened:
        """The guessed interpretation; its body is withheld if another message that fits has a secret in these bytes."""
        if self.view.show_secrets or opened.message is None:
            return opened
        name, data = opened.message.name, opened.data
        other = next((one for one in opened.others if one.message.name != name and _has_secret(one, data)), None)
        if other is None:
            return opened
        opened.guess += f"; withheld, as {other.message.name} v{other.version} fits too and holds a secret"
        opened.body, opened.problems, opened.may_hold_secrets = None, [], True
        children = opened.root.children
        body = next(index for index, node in enumerate(children) if node.name == "body")
        start = children[body].start
        del children[body:]
        _child(opened.root, "unread", "bytes", data, start, len(data))
        return opened

    # --- bytes without a header ---

    def _named(self, data: bytes) -> Opened:
        asked = self.asked
        messages = [one for one in self.definitions.messages() if one.name in asked.names]
        if not asked.names and len(data) > MOST_GUESSED:
            return self._unknown(Frame(0, prefixed(data), is_prefixed=False))
        names = asked.names or frozenset(one.name for one in self.definitions.messages() if _stands_alone(one))
        readings = bare(data, self.definitions, names=names, version=asked.version)
        if not asked.names:
            # Nearly any bytes fit some short message; the version in front supports the guess.
            readings = [reading for reading in readings if reading.start]
        if not readings:
            message = next((one for one in messages if asked.version is None or asked.version in one.versions), None)
            if message is None:
                return self._unknown(Frame(0, prefixed(data), is_prefixed=False))
            version = message.versions.high if asked.version is None else asked.version
            guess = "" if asked.version is not None else "no version fits to the last byte; this is the newest"
            return self._bare(data, Reading(message, version, 0, starts(message, version, data)[0]), guess, [])
        first, *others = readings
        specified = len(asked.names) == 1 and asked.version is not None
        return self._guarded(self._bare(data, first, "" if specified else _guess(first, others), others))

    def _bare(self, data: bytes, reading: Reading, guess: str, others: list[Reading]) -> Opened:
        message, version, start = reading.message, reading.version, reading.start
        opened = Opened(
            Kind.MESSAGE, 0, data, self._bare_tree(data, reading), 0, message, version, message.api_key,
            guess=guess, others=others, may_hold_secrets=_tells_secrets(message),
        )  # fmt: skip
        try:
            values, position = decoder(message, version)(data, start, len(data), opened.problems)
        except DecodeError as error:
            opened.problems.append(error.problem(Kind.MESSAGE))
            return opened
        self.view.knowledge.learn(message, version, values)
        scope = Scope(self.view, self.definitions)
        opened.body = body_json(values, message, version, self.view, scope)
        decoded = Decoded(message, version, {}, values, body_start=start)
        opened.problems = [replace(problem, where=Kind.MESSAGE) for problem in limited(opened.problems)]
        opened.problems += record_problems(data, decoded, opened.body, Kind.MESSAGE)
        opened.problems += problems_inside(data, decoded, scope, Kind.MESSAGE)
        if position < len(data):
            text = f"{counted(len(data) - position, 'byte')} after the message"
            opened.problems.append(Problem(Kind.MESSAGE, position, "", text, Code.TRAILING_BYTES))
        return opened

    def _bare_tree(self, data: bytes, reading: Reading) -> Node:
        """The tree of a message without header: its nodes are the bytes before the fields, "body" and "trailing"."""
        message, version, start = reading.message, reading.version, reading.start
        root = Node("message", message.name, 0)
        root.end = len(data)
        position = 0
        for one in lead(message, version) if start else ():
            before = Node(one.name, one.type, position, root)
            position += len(one.data)
            before.end, before.value = position, one.value
            root.children.append(before)
        body = tree(message, version, data, start, len(data))
        body.name = "body"
        root.children.append(body)
        stopped = any(node.problem is not None or node.more for node in body.walk())
        embedded.attach(body, message, version, memoryview(data), Scope(self.view, self.definitions, parts=parts))
        nodes.attach(body, self.view, ())
        if body.end < len(data):
            _child(root, "unread" if stopped else "trailing", "bytes", data, body.end, len(data))
        return root

    def _records(self, data: bytes, guess: str) -> Opened:
        root = Node("records", "records", 0)
        root.end, root.value = len(data), memoryview(data)
        nodes.attach(root, self.view, ())
        form = RecordsForm(data)
        form.open(body_json, self.view)
        position = len(data) - form["truncatedTail"]
        found = [
            Problem(Kind.RECORDS, trouble.offset, trouble.path, trouble.message, trouble.code)
            for trouble in form.troubles
        ]
        problems = list(limited(found, form.left_out))
        if form["truncatedTail"] and not any(problem.offset >= position for problem in problems):
            text = f"{form['truncatedTail']} bytes of an incomplete batch"
            problems.append(Problem(Kind.RECORDS, position, "", text, Code.TRUNCATED))
        return Opened(Kind.RECORDS, 0, data, root, body=form, problems=problems, guess=guess)

    def _unknown(self, frame: Frame) -> Opened:
        shift = 0 if frame.is_prefixed else -4
        root = (
            frame_tree(frame.data, Side.BROKER, None, None, self.definitions)
            if frame.is_prefixed
            else Node("bytes", "", 0)
        )
        root.end = len(frame.data)
        if not root.children:
            _child(root, "unread", "bytes", frame.data, 4, len(frame.data))
        secret = may_tell_a_secret(frame.data, self.definitions)
        text = "no known message fits these bytes"
        if len(frame.data) > MOST_GUESSED:
            text = (
                f"no response with records fits these bytes; other responses are tried only up to {MOST_GUESSED} bytes"
            )
        problem = Problem(Kind.UNKNOWN, 0, "", text, Code.NOT_KAFKA)
        problems = [*_missing(frame, Kind.UNKNOWN), problem]
        return Opened(Kind.UNKNOWN, frame.start, frame.data, root, shift, problems=problems, may_hold_secrets=secret)


def _missing(frame: Frame, kind: Kind) -> list[Problem]:
    """The problem of a length field that does not match the number of bytes; empty if it matches."""
    if frame.missing > 0:
        text = f"{counted(frame.missing, 'byte')} of the frame {are(frame.missing)} missing"
        return [Problem(kind.value, len(frame.data), "", text, Code.TRUNCATED)]
    return (
        [Problem(kind.value, 0, "", "the length field does not match the bytes", Code.BAD_LENGTH)]
        if frame.missing
        else []
    )


def _size(data: bytes) -> int:
    return int.from_bytes(data[:4], "big", signed=True)


def _read(decoded: Decoded, data: bytes) -> int:
    """Number of a frame's bytes that were decoded."""
    read = unfit(decoded, len(data))
    return len(data) if read is None else read


def _header(values: Mapping[str, Any]) -> dict[str, Any]:
    """The header's values for JSON: numbers, text and unknown tagged fields."""
    return {
        name: [{"tag": tag, "base64": base64(data)} for tag, data in value] if isinstance(value, list) else value
        for name, value in values.items()
    }


def _guess(first: Reading, others: list[Reading]) -> str:
    if not others:
        return "no other reading fits"
    count = f"{len(others)} other readings fit" if len(others) > 1 else "1 other reading fits"
    alike = sum(one.score >= first.score for one in others)
    return count + (f", {alike} of them equally likely" if alike else ", less likely")


def _has_secret(reading: Reading, data: bytes) -> bool:
    """Whether a reading finds a secret field that is not empty."""
    message = reading.message
    if message.name not in {*secrets.ALWAYS, *secrets.BY_FLAG, *secrets.BY_NAME}:
        return False
    root = tree(message, reading.version, data, reading.start, len(data))
    return any(node.secret and not node.null and len(node.value) for node in root.walk())


def _tells_secrets(message: Message) -> bool:
    return message.api_key in secrets.API_KEYS or message.name in {*secrets.ALWAYS, *secrets.BY_NAME}


def _stands_alone(message: Message) -> bool:
    return message.kind not in {"request", "response", "header"}


def _child(root: Node, name: str, type_: str, data: bytes, start: int, end: int) -> Node:
    node = Node(name, type_, start, root)
    node.end, node.value = end, memoryview(data)[start:end]
    root.children.append(node)
    return node
