from __future__ import annotations

from functools import partial
from pathlib import Path

from textual.pilot import Pilot

from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.kept_filters import KeptFilters
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.suggestions import Suggestions
from tests.tui.screen import grid
from tests.tui.test_views import until


def bar(app: KproxyApp) -> FilterBar:
    return app.main.query_one(FilterBar)


def offered(app: KproxyApp) -> list[str]:
    return [one.text for one in app.main.query_one(Suggestions)._candidates]


async def type_in(pilot: Pilot[bool], text: str) -> None:
    """Type and wait for the bar to have judged it."""
    await pilot.press(*text)
    app = pilot.app
    assert isinstance(app, KproxyApp)
    bar(app)._quiet()
    await pilot.pause()


async def test_values_of_the_capture_are_suggested(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "api == ")
        assert offered(app)[0] == "Heartbeat"
        await pilot.press("escape")
        await pilot.pause()
        assert not app.main.query_one(Suggestions).display


async def test_tab_takes_what_is_marked_and_enter_applies_the_line(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "ap")
        await pilot.press("tab")
        assert bar(app).input.value == "api"
        await pilot.press("tab")
        assert bar(app).input.value == "api == "
        await type_in(pilot, "Met")
        await pilot.press("tab")
        assert bar(app).input.value == "api == Metadata"
        assert app.main.pane.count == 60
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.pane.count == 2
        assert not app.main.query_one(Suggestions).display
        assert app.focused is app.main.pane


async def test_down_goes_into_the_suggestions_and_enter_takes_one(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "client.id == ")
        texts = offered(app)
        await pilot.press("down", "down", "up", "enter")
        await pilot.pause()
        assert bar(app).input.value == f"client.id == {texts[0]}"
        assert app.main.pane.count == 60
        assert app.focused is bar(app).input


async def test_an_example_is_taken_and_replaced_by_what_is_typed(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "latency > ")
        assert "50ms" in offered(app)
        await pilot.press("enter")
        await pilot.pause()
        assert bar(app).input.value == "latency > 50ms"
        assert bar(app).applied == ""
        await type_in(pilot, "2s")
        await pilot.press("enter")
        await pilot.pause()
        assert bar(app).applied == "latency > 2s"


async def test_enter_takes_the_highlighted_suggestion_of_an_unfinished_filter(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "ap")
        await pilot.press("enter")
        assert bar(app).input.value == "api"
        await type_in(pilot, " == ")
        await pilot.press(*"Met", "enter")  # at once: the list is still of what stood there before
        await pilot.pause()
        assert bar(app).input.value == "api == Metadata"
        assert app.main.pane.count == 60
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.pane.count == 2


async def test_enter_searches_for_words_that_are_no_filter(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "metaDATA ")
        assert "enter searches for this text" in "".join(grid(app))
        assert bar(app).applied == ""
        await pilot.press("enter")
        await pilot.pause()
        assert bar(app).applied == '"metaDATA"'
        assert app.main.pane.count == 2
        await pilot.press("f", "end")
        await type_in(pilot, " and not 'nowhere'")
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.pane.count == 2


async def test_what_has_an_operator_is_never_a_search(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "eror == 3")
        await pilot.press("enter")
        await pilot.pause()
        assert bar(app).applied == ""
        assert "did you mean error?" in "".join(grid(app))


async def test_history_outlives_the_process(index: Path, tmp_path: Path) -> None:
    preferences = Preferences(state=tmp_path / "state")
    app = KproxyApp(index, ascii_only=False, preferences=preferences)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f", *"error", "enter", "ctrl+x", "f", *"api == Produce", "enter", "f", "up")
        assert bar(app).input.value == "error"
    app = KproxyApp(index, ascii_only=False, preferences=preferences)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f", *"topi", "up")
        assert bar(app).input.value == "api == Produce"
        await pilot.press("up", "up", "up")
        assert bar(app).input.value == "error"
        await pilot.press("down", "down")
        assert bar(app).input.value == "topi"


async def test_recent_filters_are_offered_with_their_counts(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False, preferences=Preferences(filters={"slow": "latency > 50ms"}))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        decoded = 'record.value contains "a"'
        counts = {}
        for text in ("api == Fetch", decoded, "error", "$slow"):
            app.main.bar.set_text(text)
            await until(partial(_is_applied, app, text), pilot)
            counts[text] = app.main.pane.count
        await pilot.press("ctrl+x", "dollar_sign")
        await until(lambda: isinstance(app.screen, KeptFilters) and len(app.screen._counts) == 5, pilot)
        await pilot.pause()
        lines = [line.split() for line in grid(app)[1:6]]
        assert lines[0] == [">$slow", str(counts["$slow"]), "latency", ">", "50ms"]
        latest = ["$slow", "error", decoded, "api == Fetch"]
        assert [line[:2] for line in lines[1:]] == [["recent", str(counts[text])] for text in latest]
        assert any(counts.values())
        await pilot.press("j", "j", "enter")
        await until(lambda: app.main.bar.applied == "error", pilot)


def _is_applied(app: KproxyApp, text: str) -> bool:
    view, index = app.main.pane.view, app.main.shared.index
    return view is not None and index is not None and view.text == text and view.scanned == index.count


async def test_a_saved_filter_stands_for_its_text(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False, preferences=Preferences(filters={"meta": "api == Metadata", "bad": "ap"}))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await type_in(pilot, "$")
        assert offered(app) == ["$meta", "$bad"] or offered(app) == ["$bad", "$meta"]
        await pilot.press(*"meta or error", "enter")
        await pilot.pause()
        shown = app.main.pane.count
        assert shown > 2
        assert "[f: $meta or error]" in "\n".join(grid(app))
        await pilot.press("f", "ctrl+u", *"$bad", "enter")
        await pilot.pause()
        assert "$bad: unknown field 'ap'" in grid(app)[2] or "$bad: 'ap'" in grid(app)[2]
        assert app.main.pane.count == shown


async def test_a_menu_that_is_left_filters_nothing(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "j", "j", "equals_sign")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert not app.main.filtering.filtered


async def test_a_field_is_filtered_by_in_every_form(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "j", "enter", *["right_curly_bracket"] * 2, "G", "equals_sign", "enter")
        await pilot.pause()
        first = bar(app).applied
        assert first.startswith("response.body.")
        shown = app.main.pane.count
        assert 0 < shown < 60
        await pilot.press("equals_sign", "exclamation_mark")
        await pilot.pause()
        assert bar(app).applied == f"not {first}"
        await pilot.press("equals_sign", "vertical_line")
        await pilot.pause()
        assert bar(app).applied.startswith(f"not {first} or ")
        assert app.main.pane.count > shown


async def test_a_prepared_filter_changes_nothing_until_it_is_applied(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("equals_sign", "tab", "equals_sign")
        await pilot.pause()
        assert app.focused is bar(app).input
        assert (bar(app).input.value, bar(app).applied) == ("api == Metadata", "")
        assert app.main.pane.count == 60
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.pane.count == 2
