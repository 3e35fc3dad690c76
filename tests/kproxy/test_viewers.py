"""The door for viewers: entry points of installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kproxy.decoders.payloads.choose import Chooser
from kproxy.decoders.payloads.viewer import Viewer
from kproxy.schemas.viewers import find
from tests.decoders.payloads.support import VIEWERS

GOOD = """
from kproxy.decoders.payloads.viewer import Content
class Shout:
    name, title, priority, plain = "shout", "Shouted", 2000, False
    def guess(self, payload, schemas): return "loud" if payload.data.isupper() else None
    def show(self, payload, schemas): return Content(payload.data.decode() + "!")
shout = Shout()
class Json(Shout):
    name = "json"
class Nameless:
    pass
class Needy:
    def __init__(self, thing): pass
class Deaf(Shout):
    name, guess = "deaf", None
"""
POINTS = """
[kproxy.viewers]
shout = {module}:shout
again = {module}:Shout
json2 = {module}:Json
nameless = {module}:Nameless
needy = {module}:Needy
deaf = {module}:Deaf
gone = {module}:Gone
nowhere = {module}_of_nowhere:Gone
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's with viewers, good and bad."""
    module = "shouting_viewers"
    (tmp_path / f"{module}.py").write_text(GOOD)
    information = tmp_path / "shouting-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1\n")
    (information / "entry_points.txt").write_text(POINTS.format(module=module))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)


def by_name(viewers: tuple[Viewer, ...]) -> dict[str, Viewer]:
    return {viewer.name: viewer for viewer in viewers}


def test_kproxy_s_own_come_through_the_door() -> None:
    assert {name: type(viewer) for name, viewer in by_name(find().viewers).items()} == {
        viewer.name: type(viewer) for viewer in VIEWERS
    }


@pytest.mark.usefixtures("installed")
def test_somebody_else_s_viewer_is_used_and_a_bad_one_named() -> None:
    found = find()
    assert Chooser(found.viewers).show("t", "value", b"HELLO", ()) == {
        "base64": "SEVMTE8=", "format": "shout", "reason": "loud", "decoded": "HELLO!",
    }  # fmt: skip
    assert type(by_name(found.viewers)["json"]).__module__ == "kproxy.decoders.payloads.json"
    said = "\n".join(found.warnings)
    for name, why in (
        ("shout", "exists already"),
        ("json2", "'json' exists already"),
        ("nameless", "the viewer's name is not a str"),
        ("needy", "TypeError"),
        ("deaf", "the viewer has no guess()"),
        ("gone", "AttributeError"),
        ("nowhere", "ModuleNotFoundError"),
    ):
        (line,) = [line for line in found.warnings if line.startswith(f"viewer {name} (")]
        assert why in line, said
    assert len(found.warnings) == 7
