"""Addons by file, by module and by the names that packages give."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.addons import loading

SOURCE = """
from dataclasses import dataclass
from kproxy.addons import Actor, Observer
from kproxy.addons import Observer as Imported

class Sees(Observer):
    pass

class Acts(Actor):
    apis = ("Metadata",)

@dataclass
class Own:
    x: int = 0
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that an installed package has, with entry points to it."""
    name = f"addons_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    info = tmp_path / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[kproxy.observers]\n{name}-sees = {name}:Sees\n{name}-wrong = {name}:Own\n\n"
        f"[kproxy.actors]\n{name}-acts = {name}:Acts\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return name


def names(loaded: loading.Loaded) -> tuple[list[str], list[str]]:
    return [one.__name__ for one in loaded.observers], [one.__name__ for one in loaded.actors]


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    assert names(loading.load([str(path)])) == (["Sees"], ["Acts"])


def test_a_module_and_an_entry_point(package: str) -> None:
    assert names(loading.load([package])) == (["Sees"], ["Acts"])
    assert names(loading.load([f"{package}-sees"])) == (["Sees"], [])
    assert names(loading.load([f"{package}-acts", f"{package}-sees"])) == (["Sees"], ["Acts"])


def test_being_installed_is_not_being_asked(package: str) -> None:
    assert package
    assert names(loading.load([])) == ([], [])


def test_what_cannot_be_loaded_is_named(tmp_path: Path, package: str) -> None:
    broken, nothing = tmp_path / "broken.py", tmp_path / "nothing.py"
    broken.write_text("1 / 0")
    nothing.write_text("from kproxy.addons import Observer")
    for spec, words in [
        (str(broken), "ZeroDivisionError"),
        (str(nothing), "contains no subclass"),
        (str(tmp_path / "missing.py"), "No such file"),
        ("no.such.module", "ModuleNotFoundError"),
        (f"{package}-wrong", "is not a subclass"),
    ]:
        with pytest.raises(loading.LoadError) as caught:
            loading.load([spec])
        assert str(caught.value).startswith(f"addon {spec}: ")
        assert words in str(caught.value)


def test_a_file_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert loading.absolute("mine.py") == str(tmp_path / "mine.py")
    assert loading.absolute("package.module") == "package.module"
