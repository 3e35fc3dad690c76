"""Viewers of payloads that are loaded when the first payload is shown, so that the UI opens sooner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.decoders.batches.record import Header
    from kproxy.decoders.payloads.choose import Chooser, Shown


class LateViewers:
    """Payload viewers (tui.detail.viewing.Viewers) that `find` loads on first use."""

    def __init__(self, find: Callable[[], Chooser]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> Chooser:
        return self._find()

    @property
    def names(self) -> Sequence[str]:
        return self._found.names

    def look(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header], viewer: str | None) -> Shown:
        return self._found.look(topic, part, data, headers, viewer)
