from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from textual.widget import Widget

from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.sasl.session import Session, State
from kproxy.decoders.stream import Side
from kproxy.tui.app import KproxyApp
from kproxy.tui.captions import Captions
from kproxy.tui.screens.help import HelpScreen
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.widgets.field_tree import FieldTree
from tests.support.indexes import START, IndexBuilder, heartbeat
from tests.tui.screen import assert_snapshot, grid, styled
from tests.tui.test_views import until

SIZES = [(80, 24), (120, 40)]
LIVE = RunInfo("127.0.0.1:19092", "kafka:9092", ("127.0.0.1:19092", "127.0.0.1:19093"))


def focused(app: KproxyApp) -> Widget | None:
    return app.focused


async def test_the_bytes_of_a_field_are_marked(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "j", "j", "enter", *["right_curly_bracket"] * 2, "j", "j", "j")
        await pilot.pause()
        assert "00" in " ".join(styled(app, "reverse"))


async def test_undecodable_response_shows_where_it_stopped(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "j", "j", "j", "enter")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "✖ stopped at byte" in text
        assert "unparsed 2 B" in text


async def test_ascii_and_small_and_growing(index: Path) -> None:
    app = KproxyApp(index, ascii_only=True)
    async with app.run_test(size=(59, 20)) as pilot:
        await pilot.pause()
        assert grid(app)[0] == "terminal too small (59x20, needs 60x15)"
        assert not any(grid(app)[1:])
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert_snapshot(app, "list-ascii-80x24")
        assert "".join(grid(app)).isascii()
        await pilot.resize_terminal(120, 14)
        await pilot.pause()
        assert grid(app)[0].startswith("terminal too small (120x14")


async def test_a_record_cannot_drive_the_terminal(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "j", "j", "enter")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "evil\\x1b[31m\\u202etopic" in text
        assert "\x1b" not in text
        assert "tab\\there" in text


async def test_a_broken_filter_is_marked_and_changes_nothing(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f", *"api == Metadata", "enter")
        await pilot.pause()
        before = grid(app)[2:20]
        assert "2 of 60" in grid(app)[1]
        await pilot.press("f", *" and latenzy > 1ms", "enter")
        await pilot.pause()
        assert "latenzy" in styled(app, "underline")
        assert app.main.pane.count == 2
        await pilot.press("escape")
        await pilot.pause()
        assert grid(app)[2:20] == before
        await pilot.press("ctrl+x")
        await pilot.pause()
        assert app.main.pane.count == 60


async def test_a_filter_that_matches_nothing_says_how_to_go_on(index: Path) -> None:
    app = KproxyApp(index, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "0 of 60 match" in "\n".join(grid(app))


async def test_errors_beyond_the_row_are_filtered_too(index: Path) -> None:
    app = KproxyApp(index, filter_text="error == REBALANCE_IN_PROGRESS", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.main.pane.count == 1


async def test_help(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert grid(app)[0].startswith(" Help")
        await pilot.press("q")
        await pilot.pause()
        assert grid(app)[0].startswith(" kproxy")


async def test_tree_and_bytes_follow_each_other(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "j", "enter", *["right_curly_bracket"] * 2, "G")
        await pilot.pause()
        detail = app.main.detail
        assert detail.fields.node is not None
        assert detail.fields.node.name == "errorCode"
        assert detail.hex.marked == (12, 14)
        await pilot.press("enter")
        assert focused(app) == detail.hex
        await pilot.press("left")
        await pilot.pause()
        assert detail.hex.byte == 11
        assert detail.fields.node.name == "throttleTimeMs"
        assert detail.hex.marked == (8, 12)
        await pilot.press("enter")
        assert focused(app) == detail.fields


async def test_next_exchange_without_leaving_the_pane(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "space", "space", "space")
        await pilot.pause()
        assert grid(app)[2].startswith(" 4 EndTxn v1")
        assert focused(app) == app.main.detail.fields
        await pilot.press("q")
        assert focused(app) == app.main.pane


async def test_live_without_clients_says_what_to_paste(tmp_path: Path) -> None:
    app = KproxyApp(tmp_path / "none-yet", live=LIVE, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "bootstrap.servers=127.0.0.1:19092" in text
        assert "listening  127.0.0.1:19093" in text


@pytest.mark.parametrize("size", SIZES)
async def test_a_sniffer_says_what_it_listens_to(tmp_path: Path, size: tuple[int, int]) -> None:
    info = RunInfo("eth7", "", ours=False, taken="listening on eth7 for tcp port 9092")
    app = KproxyApp(tmp_path / "none-yet", live=info, ascii_only=False)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        lines = grid(app)
        assert "LIVE eth7  " in lines[0]
        assert "    listening on eth7 for tcp port 9092" in "\n".join(lines)
        assert not any("upstream" in line or "paste" in line for line in lines)


class Clock:
    """Of `tui.captions`: seconds since the epoch and since somewhen."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - 1000


def test_rates_are_of_what_passes_now_whenever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.tui.captions.time", clock := Clock(100_000))
    captions = Captions(RunInfo("127.0.0.1:19092", "kafka:9092", since=100_000 - 3_725))
    times: list[float] = []
    rows = SimpleNamespace(meta={}, count=0, first=0, row=lambda row: SimpleNamespace(time=times[row] * 1e9))
    captions.index = cast("IndexReader", rows)

    def title(after: float, *passed: float) -> str:
        clock.now = 100_000 + after
        times.extend(passed)
        rows.count = len(times)
        return captions.title(120)[0][0][0]

    assert "01:02:05  0 exchanges  0/s" in title(0)
    assert "01:02:06  5,000 exchanges  0/s" in title(1, *[98_000] * 5_000), "of long ago"
    assert "01:02:07  8,000 exchanges  1,000/s" in title(2, *[100_001] * 3_000), "of now, though nobody looked before"
    assert "01:02:11  8,000 exchanges  0/s" in title(6)
    rows.first = 8_000
    assert "01:02:12  8,030 exchanges  10/s" in title(7, *[100_006] * 30)


async def test_a_run_that_has_ended_is_said_to(index: Path) -> None:
    ended = threading.Event()
    app = KproxyApp(index, live=replace(LIVE, ours=False, alive=lambda: not ended.is_set()), ascii_only=False)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        assert "kproxy LIVE 127.0.0.1:19092" in grid(app)[0]
        ended.set()
        await pilot.press("j")
        await until(lambda: "kproxy ENDED 127.0.0.1:19092" in grid(app)[0], pilot)
        await until(lambda: "the run has ended" in "\n".join(grid(app)), pilot)


async def test_escape_never_leaves(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("enter", "escape", "escape", "escape")
        await pilot.pause()
        assert not app._exit
        assert "q leaves" in "\n".join(grid(app))
        await pilot.press("q")
        await pilot.pause()
        assert app._exit


async def test_help_is_searched(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("question_mark", "slash", *"/bad(/", "enter")
        await pilot.pause()
        assert focused(app) is not None
        assert "invalid regular expression" in "\n".join(grid(app))
        await pilot.press(*["backspace"] * 6, *"acks: 0", "enter")
        await pilot.pause()
        assert "acks of a Produce request" not in grid(app)[0]
        await pilot.press("slash", *["backspace"] * 7, *"of a Produce request", "enter")
        await pilot.pause()
        assert "acks of a Produce request" in " ".join(styled(app, "reverse"))
        await pilot.press("q")
        await pilot.pause()
        assert grid(app)[0].startswith(" kproxy")


async def test_a_notice_leaves_the_keys_to_be_read(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.pause()
        keys = grid(app)[-3:]
        await pilot.press("escape")
        await pilot.pause()
        assert "q leaves" in "\n".join(grid(app))
        assert grid(app)[-3:] == keys


async def test_live_leaving_asks_first(index: Path) -> None:
    app = KproxyApp(index, live=LIVE, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert "Stop the proxy?" in "\n".join(grid(app))
        await pilot.press("n")
        await pilot.pause()
        assert app.is_running
        await pilot.press("q", "y")
        await pilot.pause()
        assert app._exit


@pytest.mark.parametrize(("key", "goes_on"), [("y", False), ("d", True), ("Q", False)])
async def test_leaving_says_what_becomes_of_the_traffic(index: Path, key: str, *, goes_on: bool) -> None:
    app = KproxyApp(index, live=LIVE, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q", key)
        await pilot.pause()
        assert app._exit
    assert (app.return_value is True) is goes_on


async def test_leaving_a_run_of_somebody_else_asks_nothing(index: Path) -> None:
    app = KproxyApp(index, live=replace(LIVE, ours=False), ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert app._exit


async def test_a_growing_index_is_followed(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path, state="following")
    waiting = builder.exchange(
        "Heartbeat", 3, {"groupId": "late", "generationId": 1, "memberId": "m", "groupInstanceId": None}
    )
    builder.flush()
    app = KproxyApp(builder.path, live=LIVE, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "waiting" in grid(app)[3]
        builder.answer(waiting, {"throttleTimeMs": 0, "errorCode": 27})
        builder.put(waiting)
        for _ in range(40):
            heartbeat(builder)
        builder.flush()
        app.main._tick()
        await pilot.pause()
        assert app.main.pane.count == 41
        assert app.main.pane.cursor == 40
        await pilot.press("k")
        for _ in range(5):
            heartbeat(builder)
        builder.flush()
        app.main._tick()
        await pilot.pause()
        assert app.main.pane.cursor == 39
        assert "5 new" in grid(app)[21]
        await pilot.press("g")
        await pilot.pause()
        assert "27 REBAL" in grid(app)[3]
        await pilot.press("ctrl+e")
        heartbeat(builder)
        builder.flush()
        app.main._tick()
        await pilot.pause()
        assert "PAUSED, 1 not shown" in grid(app)[21]
        assert app.main.pane.count == 46
        await pilot.press("ctrl+e", "G")
        await pilot.pause()
        assert app.main.pane.count == 47
        assert app.main.pane.cursor == 46
    builder.writer.close()


async def test_bytes_that_are_gone_are_said_to_be_gone(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    heartbeat(builder)
    heartbeat(builder, group="gone")
    path = builder.finish()
    builder.capture.write_bytes(builder.capture.read_bytes()[:-5])
    app = KproxyApp(path, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "enter")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "✖ 5 of 14 bytes are gone" in text
        assert "or the file was cut" in text
        assert app.main.pane.count == 2


def sasl(directory: Path) -> Path:
    builder = IndexBuilder(directory)
    builder.exchange(
        "SaslAuthenticate",
        2,
        {"authBytes": b"\0alice\0letmein"},
        {"errorCode": 0, "errorMessage": None, "authBytes": b"", "sessionLifetimeMs": 0},
    )
    return builder.finish()


@pytest.mark.parametrize("show_secrets", [False, True])
async def test_secrets_are_withheld_in_fields_and_bytes(tmp_path: Path, *, show_secrets: bool) -> None:
    app = KproxyApp(sasl(tmp_path), show_secrets=show_secrets, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter", "left_curly_bracket")
        await pilot.pause()
        text = "\n".join(grid(app))
        secret = ("letmein", b"letmein".hex(" "))
        assert "authBytes" in text
        assert any(form in text for form in secret) == show_secrets
        assert ("withheld" in text) != show_secrets
        assert ("secrets shown" in text) == show_secrets


@pytest.mark.parametrize("show_secrets", [False, True])
async def test_a_bare_token_has_fields(tmp_path: Path, *, show_secrets: bool) -> None:
    builder = IndexBuilder(tmp_path)
    token = Exchange(1, builder.connection(1), None, None, None, None, token=True, status=Status.NO_REPLY_EXPECTED)
    token.request = builder.frame(Side.CLIENT, b"\0alice\0letmein")
    token.session = Session(State.AUTHENTICATED, "PLAIN", ("PLAIN", "GSSAPI"), "alice", 2, START, 60_000)
    builder.put(token)
    app = KproxyApp(builder.finish(), show_secrets=show_secrets, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter", "left_curly_bracket", "j", "right")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "PLAIN client" in text
        assert "username" in text
        assert ("letmein" in text) == show_secrets
        assert (b"letmein".hex(" ")[:11] in text) == show_secrets
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "alice by PLAIN, authenticated 2 times, for 60 s" in text
        assert "until 2023-11-14T22:14:20" in text
        assert "PLAIN, GSSAPI" in text


async def test_a_row_that_did_not_change_is_not_painted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = IndexBuilder(tmp_path, state="following")
    asked = {"groupId": "late", "generationId": 1, "memberId": "m", "groupInstanceId": None}
    waiting = builder.exchange("Heartbeat", 3, asked)
    for _ in range(10):
        heartbeat(builder)
    builder.flush()
    app = KproxyApp(builder.path, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        painted: list[int] = []
        pane = app.main.pane
        monkeypatch.setattr(pane, "refresh_line", painted.append)
        builder.answer(waiting, {"throttleTimeMs": 0, "errorCode": 0})
        builder.put(waiting)
        builder.flush()
        app.main._tick()
        assert painted == [0]
    builder.writer.close()


async def test_what_a_value_means_stands_beside_it_and_below_the_bytes(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    partition = {"partitionIndex": 0, "highWatermark": 20, "records": None, "lastStableOffset": 12}
    asked = {"partition": 0, "fetchOffset": 10, "partitionMaxBytes": 1000}
    builder.exchange(
        "Fetch",
        11,
        {"replicaId": -1, "maxWaitMs": 5, "minBytes": 1, "topics": [{"topic": "t", "partitions": [asked]}]},
        {"throttleTimeMs": 0, "responses": [{"topic": "t", "partitions": [partition]}]},
    )
    app = KproxyApp(builder.finish(health={}), ascii_only=False)
    async with app.run_test(size=(150, 50)) as pilot:
        await pilot.press("enter", *"j" * 14)
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "sessionId: 0  no session: none was asked for" in text
        assert "field responses[0].partitions[0].highWatermark" in text
        assert "t-0: 10, from the next offset 10 to the high watermark 20" in text
        assert "Records before this offset are on every replica in sync" in text
        await pilot.press("left_curly_bracket", "left_curly_bracket")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "because the wait of 5 ms was over: 0 of 1 min bytes" in text
        assert "t-0: 10, from the next offset 10 to the high watermark 20" in text


async def test_a_secret_s_meaning_is_withheld_with_it(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    builder.exchange("SaslAuthenticate", 1, {"authBytes": b""}, {"errorCode": 58, "authBytes": b""})
    index = builder.finish(health={})
    for show_secrets in (False, True):
        app = KproxyApp(index, ascii_only=False, show_secrets=show_secrets)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("enter", *["right_curly_bracket"] * 2)
            await pilot.pause()
            assert any("errorCode: 58 SASL_AUTHENTICATION_FAILED  Not retr" in line for line in grid(app))
            tree = app.screen.query_one(FieldTree)
            found = [item.node for item in tree._items if item.node is not None and item.node.secret]
            assert found
            for node in found:
                # no row tells of a secret's value: let it stand where values mean something
                node.name, node.value = "errorCode", 58
            assert [bool(tree.meaning(node)) for node in found] == [show_secrets] * len(found)


async def test_a_recording_that_stopped_says_why(index: Path) -> None:
    live = replace(LIVE, recording=Path("r.pcapng"), stopped=lambda: "No space left on device")
    app = KproxyApp(index, ascii_only=False, live=live)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "[recording stopped: No space left on device]" in text
        assert "[W: " not in text


async def test_keys_find_no_panes_on_a_screen_that_is_put_up(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert await app.run_action("screen.step_back", app.main)
        with monkeypatch.context() as patch:
            patch.setattr(type(app.main), "is_mounted", False)
            assert not await app.run_action("screen.step_back", app.main)
        await pilot.press("question_mark")
        with monkeypatch.context() as patch:
            patch.setattr(HelpScreen, "is_mounted", False)
            assert not await app.run_action("screen.close", app.screen)
        assert await app.run_action("screen.close", app.screen)


@pytest.mark.parametrize("turns", range(6))
async def test_a_screen_that_is_taken_away_before_it_has_its_panes(index: Path, turns: int) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for name in ("topics", "records", "stats"):
            app.go(name)
            view = app.screen
            await _turn(turns)
            app.go("exchanges")
            app.uninstall_screen(view)
            await view.remove()
        await app.run_action("screen.help", app.main)
        await _turn(turns)
        await app.pop_screen()
        app.go("groups")
        await _turn(turns)
        app.exit()


async def _turn(times: int) -> None:
    """Let all go on that can: the panes of a screen come after a few times."""
    for _ in range(times):
        await asyncio.sleep(0)
