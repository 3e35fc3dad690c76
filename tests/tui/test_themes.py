from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color
from rich.style import Style

from kproxy.tui.app import KproxyApp
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.terminal import look
from kproxy.tui.terminal.themes import THEMES, ThemeFilter
from tests.tui.screen import grid


def painted(app: KproxyApp) -> list[Style]:
    """The styles of everything on screen."""
    return [segment.style or Style.null() for strip in app.screen._compositor.render_strips() for segment in strip]


def colours(app: KproxyApp) -> set[str]:
    found = {style.color.name for style in painted(app) if style.color is not None}
    return found | {f"on {style.bgcolor.name}" for style in painted(app) if style.bgcolor is not None}


async def seen(index: Path, theme: str) -> tuple[list[str], set[str]]:
    preferences = Preferences(theme=theme)
    app = KproxyApp(index, ascii_only=False, preferences=preferences, filter_text="api != Heartbeat")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "j", "enter")
        await pilot.pause()
        return grid(app), colours(app)


@pytest.mark.parametrize("theme", THEMES)
async def test_a_theme_changes_colours_alone(index: Path, theme: str) -> None:
    lines, used = await seen(index, theme)
    assert lines == (await seen(index, "terminal"))[0]
    if theme in {"dark", "light"}:
        allowed = {*THEMES[theme].colours.values(), THEMES[theme].text}
        assert used <= {*allowed, f"on {THEMES[theme].ground}", f"on {THEMES[theme].raised}"}
        assert f"on {THEMES[theme].raised}" in used
        assert len(used) > 4
    elif theme == "mono":
        assert used <= {"default", "on default", "ansi_default", "on ansi_default"}
    elif theme == "high-contrast":
        assert "bright_black" not in used
        assert "red" in used or "yellow" in used


async def test_no_color_is_stronger_than_a_theme(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    _, used = await seen(index, "dark")
    assert used <= {"default", "on default"}


async def test_a_theme_can_be_changed_while_it_runs(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon", *"theme light", "enter")
        await pilot.pause()
        grounds = {"on #fbfbfb", f"on {THEMES['light'].raised}"}
        assert colours(app) <= {*THEMES["light"].colours.values(), THEMES["light"].text, *grounds}
        await pilot.press("colon", *"theme blue", "enter")
        await pilot.pause()
        assert f"on {THEMES['light'].ground}" in colours(app)
        assert "no theme blue" in [note.message.partition(":")[0] for note in app._notifications]


def luminance(colour: str) -> float:
    def linear(value: int) -> float:
        share = value / 255
        return float(share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = Color.parse(colour).get_truecolor()
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


@pytest.mark.parametrize("name", ["dark", "light"])
def test_everything_can_be_read(name: str) -> None:
    """Contrast as WCAG counts it, dim text included."""
    theme = THEMES[name]
    pairs = [(text, theme.ground) for text in (theme.text, *theme.colours.values())]
    for pair in [*pairs, (theme.text, theme.raised)]:
        darker, lighter = sorted(map(luminance, pair))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, pair


@pytest.mark.parametrize("name", ["dark", "light"])
def test_what_is_reversed_stands_out_from_the_ground(name: str) -> None:
    """Not by its hue alone: it is brighter or darker than the ground too."""
    theme = THEMES[name]
    darker, lighter = sorted((luminance(theme.raised), luminance(theme.ground)))
    assert (lighter + 0.05) / (darker + 0.05) >= 1.3
    styled = ThemeFilter(theme)._style
    assert styled(look.CURSOR).bgcolor == Color.parse(theme.raised)
    assert not styled(look.CURSOR).reverse
    assert styled(look.TITLE_ALARM).reverse


def test_every_colour_of_the_look_has_one_in_each_theme() -> None:
    styles: list[Any] = [*vars(look).values(), *look.SEVERITY.values(), *look.CLASS.values()]
    names = {style.color.name for style in styles if isinstance(style, Style) and style.color is not None}
    for (name, theme), colour in product(THEMES.items(), names):
        if name in {"dark", "light", "mono"}:
            assert colour in theme.colours, (name, colour)
    assert ThemeFilter(THEMES["mono"])._style(Style(color="red", bold=True)) == Style(color="default", bold=True)
