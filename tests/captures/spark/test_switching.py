"""Tables that are replaced atomically."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.captures.spark.follow.switching import Switch


def batch(folder: Path, name: str, **tables: str) -> Path:
    """A folder with one file for each table, with the given text."""
    for table, text in tables.items():
        path = folder / name / table / "capture_date=2026-11-21" / "capture_hour=05" / f"{name}-0001.parquet"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder / name


def read(out: Path) -> dict[str, list[str]]:
    return {
        table.name: sorted(path.read_text() for path in table.glob("*/*/*.parquet"))
        for table in sorted(out.glob("[!.]*"))
    }


def test_batches(tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "out" / ".follow"
    state.mkdir(parents=True)
    for table in batch(tmp_path, "export", exchanges="of an export").iterdir():
        table.rename(out / table.name)
    seen = []
    for number in range(4):
        switch = Switch(out, state)
        new = batch(tmp_path / str(number), f"c-{number}", exchanges=f"for good {number}")
        open_ = batch(tmp_path / str(number), "c-open", flows=f"open {number}")
        switch.put([new, open_], [f"c-{number}-", "c-open-"])
        seen.append(read(out))
    good = ["for good 0", "for good 1", "for good 2", "for good 3"]
    assert seen == [{"exchanges": [*good[: i + 1], "of an export"], "flows": [f"open {i}"]} for i in range(4)]
    again = batch(tmp_path / "again", "c-3", exchanges="for good, again")
    Switch(out, state).put([again], ["c-3-"])
    assert read(out) == {"exchanges": [*good[:3], "for good, again", "of an export"], "flows": ["open 3"]}
    out.rename(tmp_path / "elsewhere")
    assert read(tmp_path / "elsewhere")["flows"] == ["open 3"]


def test_what_died_before_the_move_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, state = tmp_path / "out", tmp_path / "out" / ".follow"
    state.mkdir(parents=True)
    Switch(out, state).put([batch(tmp_path, "c-0", exchanges="0", flows="0")], ["c-0-"])

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Switch, "_turn", dies)
        with pytest.raises(KeyboardInterrupt):
            Switch(out, state).put([batch(tmp_path, "c-1", exchanges="lost", flows="lost")], ["c-1-"])
    assert read(out) == {"exchanges": ["0"], "flows": ["0"]}
    Switch(out, state).put([batch(tmp_path / "again", "c-1", exchanges="1")], ["c-1-"])
    assert read(out) == {"exchanges": ["0", "1"], "flows": ["0"]}
