"""Chooses the viewer for a payload, and converts its output to JSON.

A rule for the topic or the user chooses a viewer; otherwise it is the one with the highest priority that recognises the
payload. The choice for a payload does not depend on earlier payloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Self

from kproxy.decoders.batches.compiled import text_or_base64
from kproxy.decoders.batches.record import NO_HEADERS, Header
from kproxy.decoders.jsonform import base64
from kproxy.decoders.payloads import jsonvalue
from kproxy.decoders.payloads.reading import missing
from kproxy.decoders.payloads.schemas import NONE, Schemas
from kproxy.decoders.payloads.viewer import Payload, Viewer, ViewError

PARTS = ("key", "value", "header")
CHOSEN = "chosen"
"""The reason that is given if a rule or the user chose the viewer."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Assigns a viewer to the payloads of topics.

    `topic` may have the wildcards * and ?; * also matches an unknown topic.

    `part` is "key", "value" or "header"; without it, the rule applies to keys and values.
    """

    topic: str
    part: str | None
    viewer: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "TOPIC=VIEWER" or "TOPIC.value=VIEWER" (key, value, header). Raises ValueError."""
        place, equals, viewer = text.rpartition("=")
        if not (equals and place and viewer):
            raise ValueError(f"{text!r} is not TOPIC[.key|.value|.header]=VIEWER")
        topic, _, part = place.rpartition(".")
        return cls(topic, part, viewer) if topic and part in PARTS else cls(place, None, viewer)

    def holds(self, topic: str | None, part: str) -> bool:
        wanted = self.part == part if self.part is not None else part != "header"
        return wanted and fnmatchcase(topic or "", self.topic)


@dataclass(frozen=True, slots=True)
class Shown:
    """A payload as a viewer shows it: the viewer's name, the reason why it was chosen, and `value` in JSON types.

    `error` ("avro: schema 42 not found (404)") is the reason why there is no value (`failed`), or a fault in the value.
    `automatic` says that neither a rule nor the user chose the viewer.
    """

    viewer: str
    reason: str
    value: Any = None
    schema_id: int | str | None = None
    error: str | None = None
    failed: bool = False
    automatic: bool = False
    plain: bool = False

    def to_json(self, data: bytes) -> Any:
        """The payload in the form of the exchange JSON; plain text stays a string."""
        if self.plain and self.automatic:
            plain = text_or_base64(data)
            if self.error is None:
                return plain
            if not isinstance(plain, str):
                return {"base64": base64(data), "error": self.error}
        form: dict[str, Any] = {"base64": base64(data), "format": self.viewer}
        if self.schema_id is not None:
            form["schemaId"] = self.schema_id
        if self.automatic:
            form["reason"] = self.reason
        if self.error is not None:
            form["error"] = self.error
        if not self.failed:
            form["decoded"] = self.value
        return form


class Chooser:
    """Shows payloads by viewers (a `decoders.view.Payloads`); later rules win.

    The attribute `viewers` is sorted by priority, highest first. Raises ValueError if a rule names an unknown viewer.
    """

    def __init__(self, viewers: Iterable[Viewer], rules: Sequence[Rule] = (), schemas: Schemas = NONE) -> None:
        self.viewers: tuple[Viewer, ...] = tuple(sorted(viewers, key=lambda viewer: (-viewer.priority, viewer.name)))
        self._by_name = {viewer.name: viewer for viewer in self.viewers}
        self._rules = tuple(reversed(rules))
        self._schemas = schemas
        for rule in rules:
            if rule.viewer not in self._by_name:
                raise ValueError(f"no viewer {rule.viewer!r}: there are {', '.join(sorted(self._by_name))}")

    @property
    def names(self) -> Sequence[str]:
        """Names of the viewers, as used by `look` and by rules."""
        return tuple(self._by_name)

    def show(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header]) -> Any:
        return self.look(topic, part, data, headers).to_json(data)

    def look(
        self,
        topic: str | None,
        part: str,
        data: bytes,
        headers: Sequence[Header] = NO_HEADERS,
        viewer: str | None = None,
    ) -> Shown:
        """A payload as the viewer with this name shows it; with None, rules or guesses choose.

        Never raises on any bytes.
        """
        payload = Payload(topic, part, data, headers)
        chosen = viewer or self.rule(topic, part)
        if chosen is not None:
            return self._shown(self._by_name[chosen], payload, CHOSEN, automatic=False)
        for one in self.viewers:
            reason = self._guess(one, payload)
            if reason is not None:
                return self._automatic(one, payload, reason)
        return Shown("none", "no viewer fits", error="no viewer is installed", failed=True, automatic=True, plain=True)

    def rule(self, topic: str | None, part: str) -> str | None:
        """Name of the viewer that a rule assigns to the keys, values or header values of a topic.

        None if no rule does.
        """
        return next((rule.viewer for rule in self._rules if rule.holds(topic, part)), None)

    def _automatic(self, viewer: Viewer, payload: Payload, reason: str) -> Shown:
        shown = self._shown(viewer, payload, reason, automatic=True)
        if shown.schema_id is not None or shown.error is not None:
            return shown
        why = missing(payload, self._schemas)
        if why is None:
            return shown
        # The payload seems to hold the id of a schema that is missing. That may be chance, so this output is kept.
        if shown.plain:
            return replace(shown, error=why)
        return replace(shown, reason=f"{reason}; {why}")

    def _guess(self, viewer: Viewer, payload: Payload) -> str | None:
        try:
            return viewer.guess(payload, self._schemas)
        except Exception:  # noqa: BLE001 (a viewer is anybody's code: one that fails does not recognise)
            return None

    def _shown(self, viewer: Viewer, payload: Payload, reason: str, *, automatic: bool) -> Shown:
        name = viewer.name
        shown = Shown(name, reason, automatic=automatic, plain=viewer.plain)
        try:
            content = viewer.show(payload, self._schemas)
            value = jsonvalue.json_value(content.value)
        except (ViewError, jsonvalue.NotJsonError) as error:
            return replace(shown, error=f"{name}: {error}", failed=True)
        except Exception as error:  # noqa: BLE001 (a viewer is anybody's code, and a payload anybody's bytes)
            return replace(shown, error=f"{name}: {type(error).__name__}: {error}", failed=True)
        complaint = None if content.complaint is None else f"{name}: {content.complaint}"
        schema_id = None if content.schema is None else content.schema.id
        return replace(shown, value=value, schema_id=schema_id, error=complaint)
