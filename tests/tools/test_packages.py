"""The one file and the .deb, made of a shell script in place of the program that PyInstaller makes."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import yaml

from kproxy import __version__
from tests.support.require import require
from tools import packages

PROGRAM = '#!/bin/sh\necho "$0" "$#" "$@"\nexit 7\n'


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder whose program prints its path and its arguments, and exits with 7."""
    program = tmp_path / "made" / "kproxy" / "kproxy"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (program.parent / "library.so").write_bytes(Random(1).randbytes(100_000))
    return program.parent


def run(file: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "KPROXY_UNPACK": str(cache)}
    return subprocess.run(
        [str(file), *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_one_file_unpacks_itself_once_and_passes_on_arguments_and_exit_code(made: Path, tmp_path: Path) -> None:
    file, cache = packages.onefile(made), tmp_path / "a cache"
    for _ in range(2):
        done = run(file, cache, "export", "a file")
        (folder,) = cache.iterdir()
        assert (done.returncode, done.stdout) == (7, f"{folder}/kproxy 2 export a file\n")
        (folder / "library.so").unlink(missing_ok=True)  # a second unpacking would bring it back
    assert folder.name.startswith(f"program-{__version__}-")
    assert not (folder / "library.so").exists()
    assert cache.stat().st_mode & 0o77 == 0


def test_runs_at_the_same_time_share_one_folder(made: Path, tmp_path: Path) -> None:
    file, cache = packages.onefile(made), tmp_path / "cache"
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: run(file, cache), range(8)))
    (folder,) = cache.iterdir()
    assert {(one.returncode, one.stdout) for one in done} == {(7, f"{folder}/kproxy 0\n")}


@pytest.mark.parametrize("lost", [1, 100, 10_000])
def test_a_damaged_file_says_so_and_leaves_nothing(made: Path, tmp_path: Path, lost: int) -> None:
    require("sha256sum")
    file, cache = packages.onefile(made), tmp_path / "cache"
    data = bytearray(file.read_bytes())
    data[-lost] ^= 1
    for bad in (bytes(data), bytes(data[:-lost])):
        file.write_bytes(bad)
        done = run(file, cache)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"kproxy: {file} is damaged: copy it again\n"
        assert not list(cache.iterdir())


def test_where_it_cannot_unpack_it_says_how_to_name_another_folder(made: Path, tmp_path: Path) -> None:
    file = packages.onefile(made)
    (tmp_path / "file").touch()
    done = run(file, tmp_path / "file" / "cache")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "kproxy: cannot unpack: name a folder in KPROXY_UNPACK"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_program_of_another_user_does_not_run(made: Path, tmp_path: Path) -> None:
    file, cache = packages.onefile(made), tmp_path / "cache"
    run(file, cache)
    (folder,) = cache.iterdir()
    os.chown(folder, 65534, 65534)
    done = run(file, cache)
    assert (done.returncode, done.stdout) == (2, "")
    assert "belongs to another user" in done.stderr


def test_the_debian_package_has_program_man_page_and_completions(made: Path, tmp_path: Path) -> None:
    require("dpkg-deb")
    package = packages.deb(made)
    fields = subprocess.run(["dpkg-deb", "--field", str(package)], capture_output=True, text=True, check=True).stdout
    assert {"Package: kproxy", f"Version: {__version__}"} <= set(fields.splitlines())
    subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path / "root")], check=True)
    root = tmp_path / "root"
    done = run(root / "usr" / "bin" / "kproxy", tmp_path / "unused", "--version")
    assert (done.returncode, done.stdout.split()[1:]) == (7, ["1", "--version"])
    for path in (
        "share/man/man1/kproxy.1.gz",
        "share/bash-completion/completions/kproxy",
        "share/doc/kproxy/copyright",
    ):
        assert (root / "usr" / path).stat().st_size > 500


def test_an_archive_tells_nothing_of_the_machine_that_made_it(made: Path, tmp_path: Path) -> None:
    first, other = packages.onefile(made).read_bytes(), tmp_path / "other"
    again = packages.onefile(made).read_bytes()
    assert first == again
    other.write_bytes(first[first.index(b"\x1f\x8b\x08") :])
    with tarfile.open(other) as archive:
        assert {(member.uid, member.uname, member.mtime) for member in archive} == {(0, "root", 0)}


@pytest.mark.parametrize(
    "workflow", sorted((packages.ROOT / ".github" / "workflows").iterdir()), ids=lambda path: path.name
)
def test_workflows_take_others_work_at_one_commit_and_need_no_password(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used)
    assert "secrets." not in text
