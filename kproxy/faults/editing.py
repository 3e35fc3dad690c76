"""Changes values of a body by path: `set` and `remove`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.body_path import Step
from kproxy.decoders.from_json import JsonError, value
from kproxy.decoders.schema import Message
from kproxy.decoders.schema.layout import Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.faults.rule import Edit


class EditError(ValueError):
    """The body has no such field in this version, or the value does not fit the field."""


def edited(message: Message, version: int, values: Mapping[str, Any], edit: Edit) -> dict[str, Any] | None:
    """The values of a body after the edit; None if the body has nothing at the edit's path. Raises EditError."""
    editor = _Editor(edit)
    new = editor.struct(layout_of(message, version), values, 0)
    return new if editor.done else None


class _Editor:
    """Makes one edit; `done` counts the values that it changed."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._steps = edit.path.steps
        self.done = 0

    def struct(self, layout: Layout, values: Mapping[str, Any], at: int) -> dict[str, Any]:
        step = self._steps[at]
        slot = next((one for one in layout.every() if one.name == step.name), None)
        if slot is None:
            raise EditError(f"this version has no field {step.name}")
        new = dict(values)
        last = at == len(self._steps) - 1
        if step.each or step.index is not None:
            if slot.name in values and values[slot.name] is not None:
                new[slot.name] = self._list(slot, list(values[slot.name]), step, at, last=last)
        elif not last:
            if slot.layout is None or slot.shape is Shape.ARRAY:
                raise EditError(f"{step.name} has no fields of its own")
            if values.get(slot.name) is not None:
                new[slot.name] = self.struct(slot.layout, values[slot.name], at + 1)
        elif self._edit.removes:
            self._remove(slot, new)
        else:
            new[slot.name] = _fitting(slot, self._edit.value)
            self.done += 1
        return new

    def _remove(self, slot: Slot, values: dict[str, Any]) -> None:
        if slot.tag is not None:
            self.done += values.pop(slot.name, None) is not None
        elif slot.nullable:
            values[slot.name] = None
            self.done += 1
        elif slot.shape is Shape.ARRAY:
            values[slot.name] = []
            self.done += 1
        else:
            raise EditError(f"{slot.name} cannot be removed: this version requires a value")

    def _list(self, slot: Slot, elements: list[Any], step: Step, at: int, *, last: bool) -> list[Any]:
        if slot.shape is not Shape.ARRAY:
            raise EditError(f"{slot.name} is not a list in this version")
        places = [place for place in range(len(elements)) if step.each or place == step.index]
        if last and self._edit.removes:
            self.done += len(places)
            return [one for place, one in enumerate(elements) if place not in places]
        for place in places:
            if last:
                elements[place] = _fitting(slot.one, self._edit.value)
                self.done += 1
            elif slot.layout is not None:
                elements[place] = self.struct(slot.layout, elements[place], at + 1)
            else:
                raise EditError(f"elements of {slot.name} have no fields")
        return elements


def _fitting(slot: Slot, given: Any) -> Any:
    """A JSON value as the value of this field. Raises EditError."""
    try:
        return value(slot, given)
    except JsonError as error:
        raise EditError(str(error)) from None
