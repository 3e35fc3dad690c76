"""How keys and values of records are shown: by viewers, such as text and hex, which are always available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kproxy.decoders import secrets
from kproxy.decoders.view import PLAIN, View

if TYPE_CHECKING:
    from kproxy.decoders.batches.record import Header, Record

TEXT: Final = "text"
HEX: Final = "hex"
WITHHELD: Final = "withheld"


class Seen(Protocol):
    """A payload as a viewer shows it.

    `value` is a JSON value: a text, or a structure to be laid out. The viewer HEX shows the bytes and ignores `value`.
    `error` says what is wrong with the value, or why there is no value; then the bytes are shown.
    """

    @property
    def viewer(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Read:
    """A payload as a viewer shows it, as plain data: implements `Seen`."""

    viewer: str
    reason: str
    value: Any = None
    error: str | None = None


class Viewers(Protocol):
    """A set of viewers; `names` are those that the user can choose."""

    @property
    def names(self) -> Sequence[str]: ...

    def look(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header], viewer: str | None) -> Seen:
        """A payload as `viewer` shows it; None takes the viewer that fits best. Never raises on any bytes."""


class PlainViewers:
    """Shows UTF-8 without control characters as text, other bytes in hex."""

    names = (TEXT, HEX)

    def look(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header], viewer: str | None) -> Seen:
        del topic, part, headers
        if viewer == HEX:
            return Read(HEX, "chosen")
        if viewer == TEXT:
            try:
                return Read(TEXT, "chosen", data.decode())
            except UnicodeDecodeError as error:
                return Read(TEXT, "chosen", error=f"text: not UTF-8 at byte {error.start}")
        from kproxy.decoders.batches.compiled import text_or_base64

        plain = text_or_base64(data)
        if isinstance(plain, str):
            return Read(TEXT, "UTF-8 without control characters", plain)
        return Read(HEX, "no other viewer fits")


class Choices:
    """The viewer that was chosen for the keys, and the one for the values, of each topic.

    Without a choice, records of internal topics are decoded by their definitions; secrets stay withheld in any case.
    """

    def __init__(self, viewers: Viewers, view: View = PLAIN) -> None:
        self._viewers = viewers
        self._view = view
        self._chosen: dict[tuple[str | None, str], str] = {}

    def look(self, topic: str | None, part: str, record: Record) -> Seen:
        """The key or value of a record as its viewer shows it; `part`, "key" or "value", must not be null in it."""
        key, value, headers = record[2], record[3], record[4]
        data = (key if part == "key" else value) or b""
        chosen = self._chosen.get((topic, part))
        from kproxy.decoders.records import internal

        if topic in internal.TOPICS:
            from kproxy.decoders.jsonform import body_json
            from kproxy.decoders.records.form import internal_part

            form, found = internal_part(topic, part, key, data, body_json, self._view)
            error = f"{found[0][0]}: {found[0][1]}" if found else None
            if "redacted" in form:
                return Read(WITHHELD, "it may hold a secret", form.get("decoded", ""), error)
            if chosen is None and "decoded" in form:
                return Read(topic, "its definition", form["decoded"], error)
        return self.viewers.look(topic, part, data, headers, chosen)

    @property
    def viewers(self) -> Viewers:
        """The viewers given, or PlainViewers if none were given."""
        return self._viewers if self._viewers.names else PlainViewers()

    def withholds(self, topic: str | None) -> bool:
        """Whether keys and values of a topic are withheld where no definition decodes them."""
        return topic in secrets.TOPICS and not self._view.show_secrets

    def next(self, topic: str | None, part: str) -> None:
        """Choose the next viewer for a topic's keys or values: best fit, then each by name, then best fit again."""
        names: list[str | None] = [None, *self.viewers.names]
        chosen = names[(names.index(self._chosen.get((topic, part))) + 1) % len(names)]
        if chosen is None:
            del self._chosen[topic, part]
        else:
            self._chosen[topic, part] = chosen
