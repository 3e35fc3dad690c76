"""The base of all screens: one that is taken away before it has its panes does not look for them."""

from __future__ import annotations

from textual import events
from textual.screen import Screen, ScreenResultType


class Composed(Screen[ScreenResultType]):
    """Is mounted only with what it was composed of: where it has to leave meanwhile, its panes may never come."""

    @property
    def stands(self) -> bool:
        """Whether its panes are there to be found: not while it is put up or taken away."""
        return self.is_mounted and not self._leaves

    @property
    def _leaves(self) -> bool:
        # a screen's own styles never hide it: the toolkit does, as soon as it is to be taken away; all are when it ends
        return not (self.display and self.is_attached)

    async def on_event(self, event: events.Event) -> None:
        if not (self._leaves and isinstance(event, events.Mount | events.Resize | events.ScreenResume)):
            await super().on_event(event)
