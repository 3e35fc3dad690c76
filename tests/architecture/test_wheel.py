"""What an installation holds."""

from __future__ import annotations

import shutil
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.wheel import COMPILED, PACKAGES, ROOT, build


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel built from a copy of the tree, without what is compiled in it."""
    wheel = build(tmp_path_factory.mktemp("wheel"))
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_exactly_our_packages(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in names if "tests" in name.split("/")]


def test_every_module_and_data_file(names: list[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not any(map(path.match, COMPILED))
    }
    assert wanted <= set(names), sorted(wanted - set(names))


def test_the_loops_are_compiled_where_they_can_be(names: list[str]) -> None:
    compiler = shutil.which((sysconfig.get_config_var("CC") or "cl").split()[0])
    compiled = [name for name in names if any(map(Path(name).match, COMPILED))]
    header = Path(sysconfig.get_path("include"), "Python.h")
    loops = {
        "captures/formats/_block",
        "captures/formats/_starts",
        "captures/spark/_checks",
        "captures/spark/_looked",
        "decoders/conversation/_loop",
        "decoders/conversation/_pairing",
        "decoders/records/_loop",
        "decoders/records/_shown",
        "decoders/records/_text",
        "kproxy/core/_passing",
    }
    assert {name.partition(".")[0] for name in compiled} == (loops if compiler and header.exists() else set())
