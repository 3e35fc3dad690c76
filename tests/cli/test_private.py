"""What kproxy writes is its user's alone whatever the umask, and goes nowhere that another user has planted."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures import private
from kproxy.captures.cache import Store
from kproxy.captures.spool import Spooling
from kproxy.runs import scratch
from kproxy.tui.settings.keeping import History
from tests.captures import traffic
from tests.kproxy.test_run import Run
from tests.support.homes import homes

ANOTHER = 54_321
"""A user who is neither root nor this one."""
SYSTEM = "system"
"""A folder where nothing may appear or disappear."""
COMMANDS = """
import json, os, sys
from kproxy.cli.main import main
os.umask(0)
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{arguments}: {end.code}")
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def open_to_others(*folders: Path) -> dict[str, str]:
    """What somebody else can look into or change, below these folders: its name and mode."""
    found = {}
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            status = path.lstat()
            if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o077:
                found[str(path)] = oct(status.st_mode)
    return found


def run(directory: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Commands of kproxy, one after the other in one process, with umask 000."""
    given = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    env = {**os.environ, **homes(directory / "homes")}
    return subprocess.run(given, env=env, cwd=directory, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A capture that must be spooled to be read."""
    path = tmp_path / "packed.pcap.gz"
    path.write_bytes(gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    path.chmod(0o600)
    return path


def test_files_of_commands_are_private_under_any_umask(tmp_path: Path, packed: Path) -> None:
    tmp_path.chmod(0o700)
    plain = str(traffic.KAFKA_1_1)
    done = run(
        tmp_path,
        ["--log-file", "log", "-vv", "export", plain, "--format", "jsonl", "-o", "x.jsonl"],
        ["export", str(packed), "--format", "csv", "-o", "x.csv"],
        ["export", plain, "--format", "pcapng", "-o", "x.pcapng"],
        ["export", plain, "--format", "parquet", "-o", "new/tables"],
        ["export", str(packed), "--format", "jsonl", "-o", "y.jsonl", "--spool-dir", "new/spool"],
        ["merge", plain, plain, "-o", "merged.pcapng"],
        ["split", plain, "-o", "new/parts", "--size", "100K"],
        ["ca"],
    )
    assert done.returncode == 0, done.stderr
    assert open_to_others(tmp_path) == {}


def test_files_of_a_run_are_private_under_any_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    before = os.umask(0)
    try:
        live = Run(tmp_path / "homes", "-w", str(tmp_path / "ring"), "--ring", "3x1MB")
    finally:
        os.umask(before)
    try:
        live.exchange(18, 3)
        assert open_to_others(tmp_path) == {}
        live.end()
    finally:
        live.close()
    assert open_to_others(tmp_path) == {}
    assert any((tmp_path / "ring").iterdir())


def test_what_others_may_read_of_tables_says_their_folder(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    tables.chmod(0o777)
    done = run(tmp_path, ["export", str(traffic.KAFKA_1_1), "--format", "parquet", "-o", "tables"])
    assert done.returncode == 0, done.stderr
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tables.rglob("*") if path.is_dir()}
    assert modes == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tables.rglob("*.parquet")} == {0o644}


# --- planted by another user -----------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder where everybody may write, as /tmp, beside one where nothing may change."""
    system = tmp_path / SYSTEM
    (system / ("a" * 40)).mkdir(parents=True)
    (system / "file").write_text("as it was")
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    yield path
    assert sorted(one.name for one in system.iterdir()) == ["a" * 40, "file"]
    assert (system / "file").read_text() == "as it was"


def link(path: Path, name: str = "") -> Path:
    """A link to the system folder, or to a file in it, that another user made."""
    path.symlink_to(path.parent.parent / SYSTEM / name)
    os.lchown(path, ANOTHER, ANOTHER)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    os.chown(path, ANOTHER, ANOTHER)
    return path


@as_root
@pytest.mark.parametrize("plant", [link, folder])
def test_spools_go_into_no_planted_folder(shared: Path, packed: Path, plant: object) -> None:
    assert callable(plant)
    plant(shared / f"kproxy-{os.getuid()}")
    for place in (shared, shared / f"kproxy-{os.getuid()}"):
        done = run(shared.parent, ["export", str(packed), "--spool-dir", str(place), "-o", "x.jsonl"])
        assert "(--spool-dir)" in done.stderr
        assert "not used, because it " in done.stderr
        assert done.returncode == 1


@as_root
def test_nothing_is_kept_in_a_planted_store(tmp_path: Path, shared: Path) -> None:
    place = shared / "mine"
    place.mkdir()
    store = link(place / "kproxy-kept")
    store.unlink()
    store.symlink_to(tmp_path / SYSTEM)
    made = tmp_path / "made"
    made.write_bytes(b"data")
    kept = Spooling(place).store
    why = kept.keep("a" * 40, {"capture": made})
    assert why is not None
    assert "it is a link" in why
    kept.trim(0)
    assert not kept.lend("a" * 40, {"capture": tmp_path / "lent"})


@as_root
def test_an_entry_of_another_user_is_not_lent(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"data")
    for planted in ("entry", "file"):
        store = Store(tmp_path / f"store-{planted}", 1 << 30)
        assert store.keep("a" * 40, {"data": made}) is None
        entry = tmp_path / f"store-{planted}" / ("a" * 40)
        os.chown(entry if planted == "entry" else entry / "data", ANOTHER, ANOTHER)
        assert not store.lend("a" * 40, {"data": tmp_path / "lent"}), planted
        os.chown(made, 0, 0)


@as_root
@pytest.mark.parametrize("name", ["out.jsonl", "log", "out.pcapng"])
def test_outputs_follow_no_planted_link_and_take_no_planted_file(shared: Path, name: str) -> None:
    path = link(shared / name, "file")
    options = ["--log-file", str(path), "-v"] if name == "log" else []
    target = shared / "other" if name == "log" else path
    form = "pcapng" if name.endswith("pcapng") else "jsonl"
    command = [*options, "export", str(traffic.KAFKA_1_1), "--format", form, "-o", str(target)]
    done = run(shared.parent, command)
    assert done.returncode == 1
    assert str(path) in done.stderr
    path.unlink()
    path.write_text("planted")
    os.chown(path, ANOTHER, ANOTHER)
    assert run(shared.parent, command).returncode == 1
    assert path.read_text() == "planted"


@as_root
def test_no_token_or_password_is_taken_from_another_user(shared: Path) -> None:
    path = shared / "token"
    path.write_text("a-token-that-another-user-knows")
    path.chmod(0o640)
    assert private.secret(path, 100) == "a-token-that-another-user-knows"
    os.chown(path, ANOTHER, ANOTHER)
    with pytest.raises(PermissionError, match="not used, because it belongs to"):
        private.secret(path, 100)
    path.unlink()
    with pytest.raises(PermissionError):
        private.secret(link(path, "file"), 100)


@as_root
def test_a_ring_is_in_no_folder_that_others_write(shared: Path) -> None:
    ring = folder(shared / "ring")
    for place in (shared, ring, link(shared / "link")):
        live = Run(shared.parent / "homes", "-w", str(place), "--ring", "3x1MB")
        live.process.wait(30)
        said = live.first_line
        live.close()
        assert "not used, because" in said, place
        assert live.process.returncode
    assert not any(ring.iterdir())
    os.close(private.kept(shared / "new"))


@as_root
def test_folders_of_kproxys_own_are_taken_from_nobody(shared: Path) -> None:
    for planted in (link(shared / "link"), folder(shared / "folder")):
        with pytest.raises(PermissionError):
            private.folder(planted)
        with pytest.raises(PermissionError):
            private.folder(planted / "below")
        with pytest.raises(PermissionError):
            scratch.new(planted, "ring")
        History(planted / "history").add("a line")
        with pytest.raises(PermissionError):
            private.output(planted / "file")
    assert not any((shared / "folder").iterdir())


def test_a_folder_that_exists_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.mkdir()
    path.chmod(0o777)
    private.folder(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_folder_that_the_user_named_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    scratch.new(tmp_path, "ring")
    assert private.within(tmp_path) == tmp_path / f"kproxy-{os.getuid()}"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_file_that_is_replaced_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("as it was")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    private.replace(tmp_path / "file", "new")
    assert (tmp_path / "other").read_text() == "as it was"
    assert (tmp_path / "file").read_text() == "new"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_outputs_follow_links_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for text in (b"longer", b"text"):
        with private.output(tmp_path / "link") as file:
            file.write(text)
    assert (tmp_path / "file").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_device_keeps_its_mode(tmp_path: Path) -> None:
    terminals = os.openpty()
    file = tmp_path / "file"
    file.touch(0o644)
    try:
        device = Path(os.ttyname(terminals[1]))
        before = device.stat().st_mode
        for path in (device, file):
            with private.log(path) as log:
                private.restrict(log.fileno())
        assert device.stat().st_mode == before
    finally:
        for one in terminals:
            os.close(one)
    assert stat.S_IMODE(file.stat().st_mode) == private.FILE_MODE
