from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.tui.settings import keeping
from kproxy.tui.settings.keeping import History, SavedFilters


def test_history_is_kept_without_repetitions(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    history = History(path)
    for line in ("error", "api == Fetch", "error", "", "bell \a"):
        history.add(line)
    assert history.lines == ["api == Fetch", "error"]
    assert History(path).lines == ["api == Fetch", "error"]
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == ["history"]


def test_history_takes_in_what_another_process_added(tmp_path: Path) -> None:
    one, other = History(tmp_path / "history"), History(tmp_path / "history")
    assert one.lines == other.lines == []
    one.add("first")
    other.add("second")
    one.add("third")
    assert one.lines == History(tmp_path / "history").lines == ["first", "second", "third"]


def test_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_LINES", 3)
    history = History(tmp_path / "history")
    for number in range(5):
        history.add(str(number))
    history.add("x" * (keeping.MOST_CHARACTERS + 1))
    assert (tmp_path / "history").read_text() == "2\n3\n4\n"


def test_history_that_cannot_be_written_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / "history")
    history.add("one")
    history.add("two")
    assert history.lines == ["one", "two"]


def test_what_was_saved_stands_over_what_is_configured(tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    saved = SavedFilters({"slow": "latency > 1s", "mine": "error"}, path)
    saved.save("slow", "latency > 50ms")
    again = SavedFilters({"slow": "latency > 1s"}, path)
    assert dict(saved) == {"mine": "error", "slow": "latency > 50ms"}
    assert dict(again) == {"slow": "latency > 50ms"}
    assert again.owns("slow")
    again.delete("slow")
    assert not again.owns("slow")
    assert dict(again) == {"slow": "latency > 1s"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1, "b": "error", "c": "x\\u0007"}'])
def test_a_damaged_file_of_filters_is_no_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "filters.json"
    path.write_text(text)
    assert set(SavedFilters({}, path)) <= {"b"}
