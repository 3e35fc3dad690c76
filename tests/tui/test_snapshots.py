"""What every screen looks like in each size: tests/tui/snapshots, which UPDATE_SNAPSHOTS=1 writes anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from textual import events

from kproxy.captures.index.indexer import run
from kproxy.tui.app import KproxyApp
from kproxy.tui.output.commands import Exporter
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.views import analysis
from tests.support.indexes import sample
from tests.support.thinned import thinned
from tests.tui.screen import SNAPSHOTS, assert_settles, name
from tests.tui.test_records import with_records
from tests.tui.test_screens import LIVE, Clock

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
SMALLEST = (60, 15)
SIZES = ((80, 24), (120, 40), (200, 60))
SAVED = {"preferences": Preferences(filters={"slow": "latency > 50ms", "mine": "client.id == billing-1"})}
OF_TRANSACTIONS = {"filter_text": "api == Produce and txn == shop-tx"}
EXPORTS = {"exporter": Exporter(("kproxy", "export"))}
LIVE_SECONDS = 1_700_003_725.0
STARTED = {"live": replace(LIVE, since=LIVE_SECONDS - 3_725)}
OTHERS = {"compare-100x30", "list-ascii-80x24", "mouse-menu-80x24", "stats-ascii-80x24"}
"""Snapshots of tests elsewhere."""


@dataclass(frozen=True)
class Look:
    """A screen: what is opened, and the keys that lead there ("'text" is typed)."""

    name: str
    source: str
    keys: str = ""
    sizes: tuple[tuple[int, int], ...] = SIZES
    options: Mapping[str, Any] = field(default_factory=dict)


LOOKS = (
    Look("list", "sample"),
    Look("list-maximised", "sample", "backslash"),
    Look("list-live", "sample", options=STARTED),
    Look("nothing-yet", "none", options=STARTED),
    Look("nothing-matches", "sample", options={"filter_text": "api == Produce"}),
    Look("detail", "sample", "j j j enter } } j j j"),
    Look("bytes", "sample", "j j j enter } } G enter left"),
    Look("undecodable", "sample", "j j j j j enter"),
    Look("request", "captured", "enter { j j j", options=OF_TRANSACTIONS),
    Look("overview", "sample", "j enter"),
    Look("records-produce", "records", "g enter }"),
    Look("records-fetch", "records", "g j enter }"),
    Look("timing", "captured", "j j enter } } j", options={"filter_text": "api == Fetch"}),
    Look("plain", "sample", options={"preferences": Preferences(plain=True)}),
    # the lines that are typed into
    Look("filter-suggestions", "sample", "f 'api·==·", (SMALLEST, *SIZES)),
    Look("filter-error", "sample", "f 'api·==·Metadata enter f '·and·latenzy·>·1ms enter"),
    Look("filtered", "captured", options={"filter_text": "error and not api in (Metadata, FindCoordinator)"}),
    Look("find", "captured", "ctrl+f 'joingroup"),
    Look("go-to", "captured", "ctrl+g '06:11:20"),
    Look("comment", "sample", "semicolon 'slow·here"),
    # what stands over a screen
    Look("filter-menu", "sample", "j j j ="),
    Look("saved-filters", "sample", "$", options=SAVED),
    Look("copy-menu", "sample", "j j j enter } } G c"),
    Look("follow", "captured", "t", options=OF_TRANSACTIONS),
    Look("palette", "sample", "ctrl+p 'filter·", (SMALLEST, *SIZES)),
    Look("command", "sample", ": 'theme·"),
    Look("export", "sample", "x l", options=EXPORTS),
    Look("export-file", "sample", "x j j j", options=EXPORTS),
    Look("leave", "sample", "q", options=STARTED),
    Look("help", "sample", "?"),
    Look("legend", "sample", "? ?"),
    Look("columns", "sample", "C"),
    Look("help-of-lines", "captured", "3 ?"),
    # the screens beside the exchanges
    Look("stats", "captured", "2 j"),
    Look("topics", "captured", "3 j"),
    Look("groups", "captured", "4 j"),
    Look("transactions", "captured", "5 j"),
    Look("connections", "captured", "6 j"),
    Look("findings", "captured", "7 j"),
    Look("many-records", "captured", "9"),
    Look("health", "sample", "0 j"),
    Look("cluster", "captured", "B j"),
    Look("clients", "captured", "8 j"),
    Look("clients-sorted", "captured", "8 o o o o j"),
    Look("clients-narrowed", "captured", "8 / 'classic enter"),
    Look("clients-none", "captured", "8 / 'nobody enter"),
    Look("client", "captured", "8 j enter j"),
    Look("clients-plain", "captured", "8 o j", SIZES[:1], {"preferences": Preferences(plain=True)}),
    Look("partitions", "captured", "3 }"),
    Look("members", "captured", "4 }"),
    Look("lag", "captured", "4 } }"),
    Look("aborted", "captured", "5 }"),
    Look("events", "captured", "B }"),
    Look("brokers", "captured", "B {"),
)
NAMED = {
    "{": "left_curly_bracket", "}": "right_curly_bracket", "=": "equals_sign", ":": "colon", "$": "dollar_sign",
    "?": "question_mark", "/": "slash",
}  # fmt: skip


PAIRS = [(look, size) for look in LOOKS for size in look.sizes]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the indexes are: named from there, so that no picture has a path of this machine."""
    found = tmp_path_factory.mktemp("looks")
    with chdir(found):
        for name in ("sample", "records"):
            Path(name).mkdir()
        sample(Path("sample"))
        with_records(Path("records"))
        shutil.copy(CAPTURE, ".")
        run([Path(CAPTURE.name)], Path("captured/index"))
        # what is added up is there already, and no test starts a process for it
        subprocess.run([sys.executable, "-P", "-m", analysis.MODULE, "captured/index"], check=False, timeout=120)
    return found


@pytest.fixture(autouse=True)
def _still(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes from run to run does not."""
    monkeypatch.chdir(directory)
    monkeypatch.setattr(analysis.Analysis, "start", lambda _: None)
    monkeypatch.setattr("kproxy.tui.captions.time", Clock(LIVE_SECONDS))


async def paint(look: Look, size: tuple[int, int]) -> KproxyApp:
    """Compare a screen with its snapshot; the application that painted it."""
    app = KproxyApp(Path(look.source, "index"), ascii_only=False, **look.options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for word in look.keys.split():
            typed = word[1:].replace("·", " ") if word[0] == "'" else ""
            for key in typed or [NAMED.get(word, word)]:
                app.post_message(events.Key(key, key if typed else None))
        await assert_settles(app, name(look.name, size))
    return app


@pytest.mark.parametrize(
    ("look", "size"),
    [
        pytest.param(look, size, id=name(look.name, size), marks=[pytest.mark.system] if size == SIZES[-1] else [])
        for look, size in PAIRS
    ],
)
async def test_look(look: Look, size: tuple[int, int]) -> None:
    app = await paint(look, size)
    assert not app.no_color


@pytest.mark.parametrize("look", thinned(LOOKS, 12), ids=lambda look: look.name)
async def test_the_same_is_said_without_colour(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = await paint(look, SIZES[0])
    assert app.no_color


def test_every_snapshot_is_of_a_test() -> None:
    """What no test compares with is forgotten, not kept."""
    assert {path.stem for path in SNAPSHOTS.iterdir()} == {name(look.name, size) for look, size in PAIRS} | OTHERS
