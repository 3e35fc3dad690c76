"""The public names of the package, its page of names, and the programs of the library's page."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kproxy
from tests.kproxy.library.programs import ROOT, printed_by, programs
from tools.docs import members

PROGRAMS = programs()


def test_every_public_name_is_there_and_documented() -> None:
    assert sorted(kproxy.__all__) == list(kproxy.__all__)
    assert set(kproxy.__all__) <= set(dir(kproxy))
    for name in kproxy.__all__:
        value = getattr(kproxy, name)
        assert inspect.getdoc(value), name
        for member, of in members(value).items() if inspect.isclass(value) else ():
            assert inspect.getdoc(of), f"{name}.{member}"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'kproxy' has no attribute 'opn'"):
        kproxy.opn  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_are_told_the_same_names() -> None:
    stub = (ROOT / "kproxy" / "__init__.pyi").read_text(encoding="utf-8")
    modules: dict[str, tuple[str, ...]] = vars(kproxy)["_MODULES"]
    told = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2\b", stub, re.MULTILINE)}
    assert told == {name: module for module, names in modules.items() for name in names}
    assert sorted(told) == list(kproxy.__all__)


def test_the_page_has_every_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert all(f"\n## kproxy.{name}\n" in page for name in kproxy.__all__)


def test_the_page_has_ten_programs() -> None:
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert len(PROGRAMS) == text.count("```python\n") >= 10


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_prints_what_the_page_says(title: str, tmp_path: Path) -> None:
    program, printed = PROGRAMS[title]
    assert printed
    assert printed_by(program, tmp_path) == printed


@pytest.mark.parametrize(("code", "loaded"), [
    ("import kproxy", {"kproxy"}),
    ("import kproxy; kproxy.CaptureError", {"kproxy", "kproxy.captures", "kproxy.captures.errors"}),
])  # fmt: skip
def test_importing_the_package_loads_nothing_else(code: str, loaded: set[str]) -> None:
    shown = "import sys; print(*(name for name in sys.modules if name.split('.')[0] in {'kproxy', 'numpy', 'pytest'}))"
    done = subprocess.run([sys.executable, "-c", f"{code}; {shown}"], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == loaded
