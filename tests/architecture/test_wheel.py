"""What an installation holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import kproxy
from tests.support.wheel import COMPILED, FOLDERS, PACKAGES, ROOT, build

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """A wheel built from a copy of the tree, without what is compiled in it."""
    with zipfile.ZipFile(build(tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def names(wheel: zipfile.ZipFile) -> list[str]:
    return wheel.namelist()


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_links_of_the_readme_work_outside_the_repository(metadata: Message) -> None:
    targets = re.findall(r"\]\(([^)]*)\)", str(metadata.get_payload()))
    assert len(targets) > 15
    assert all(target.startswith("https://") for target in targets)
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    for target in targets:
        assert (ROOT / re.sub(r".*/(?:raw|blob)/main/", "", target)).is_file(), target
        assert target.startswith(urls["Source"])


def test_version_and_types_of_the_package(metadata: Message, names: list[str]) -> None:
    assert metadata["Version"] == kproxy.__version__
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)


def test_exactly_our_packages(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == set(PACKAGES)
    assert not [name for name in names if "tests" in name.split("/")]


def test_every_module_and_data_file(names: list[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT) if folder in PACKAGES else Path("kproxy") / path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not any(map(path.match, COMPILED))
    }
    assert wanted <= set(names), sorted(wanted - set(names))


def test_the_loops_are_compiled_where_they_can_be(names: list[str]) -> None:
    compiler = shutil.which((sysconfig.get_config_var("CC") or "cl").split()[0])
    compiled = [name for name in names if any(map(Path(name).match, COMPILED))]
    header = Path(sysconfig.get_path("include"), "Python.h")
    loops = {
        "kproxy/captures/formats/_block",
        "kproxy/captures/formats/_starts",
        "kproxy/decoders/conversation/_loop",
        "kproxy/decoders/conversation/_pairing",
        "kproxy/decoders/batches/_loop",
        "kproxy/decoders/batches/_shown",
        "kproxy/decoders/batches/_text",
        "kproxy/core/_passing",
    }
    assert {name.partition(".")[0] for name in compiled} == (loops if compiler and header.exists() else set())


def test_man_page_and_completions_come_with_it(names: list[str]) -> None:
    placed = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert placed == {
        "share/man/man1/kproxy.1",
        "share/bash-completion/completions/kproxy.bash",
        "share/zsh/site-functions/_kproxy",
        "share/fish/vendor_completions.d/kproxy.fish",
    }


def test_without_a_compiler_a_wheel_for_every_machine_works(tmp_path: Path) -> None:
    wheel = build(tmp_path, pure=True)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        assert not [name for name in archive.namelist() if any(map(Path(name).match, COMPILED))]
    capture = str(ROOT / "tests/data/findings/group.poll_gap.pcap.xz")
    assert "JoinGroup" in _said(tmp_path, "stats", capture)
    assert "record loop      plain Python" in _said(tmp_path, "doctor")


def _said(place: Path, *arguments: str) -> str:
    """The output of a command of the kproxy in `place`/site, which takes the dependencies of ours."""
    done = subprocess.run(
        [sys.executable, "-c", "from kproxy.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place / "site")},
    )
    return done.stdout
