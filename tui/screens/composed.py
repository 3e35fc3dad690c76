"""The base of all screens: a screen that is removed before its panes exist runs no handlers that query panes."""

from __future__ import annotations

from textual import events
from textual.screen import Screen, ScreenResultType


class Composed(Screen[ScreenResultType]):
    """A screen that drops mount, resize and resume events while it is being removed, as its panes may never exist."""

    @property
    def stands(self) -> bool:
        """Whether the screen's panes exist: it is mounted and not being removed."""
        return self.is_mounted and not self._leaves

    @property
    def _leaves(self) -> bool:
        # Textual hides a screen that is to be removed, and all screens when the application ends; no style does
        return not (self.display and self.is_attached)

    async def on_event(self, event: events.Event) -> None:
        if not (self._leaves and isinstance(event, events.Mount | events.Resize | events.ScreenResume)):
            await super().on_event(event)
