"""Lines of the Overview tab."""

from __future__ import annotations

from textual.app import App, ComposeResult

from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.overview import Overview


class _Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield Overview(Cells())


async def test_a_note_of_several_lines_takes_several() -> None:
    app = _Shown()
    async with app.run_test(size=(60, 20)) as pilot:
        overview = app.query_one(Overview)
        overview.show(
            [("response note", "changed by kproxy:\nhost: a -> b\n\x1bport", look.PLAIN), ("a", "b", look.PLAIN)]
        )
        await pilot.pause()
        lines = ["".join(segment.text for segment in overview.segments(at, 60)).strip() for at in range(overview.count)]
    assert lines[:2] == ["response note  changed by kproxy:", "host: a -> b"]
    assert lines[2].endswith("port")
    assert "\x1b" not in lines[2]
    assert lines[3].split() == ["a", "b"]
