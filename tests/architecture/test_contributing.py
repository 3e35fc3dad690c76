"""What CONTRIBUTING.md and SECURITY.md name is there, and the files for a forge and for pre-commit are well-formed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"(?<![\w/.])(?:decoders|captures|kproxy|tui|tests|bench|tools|docs)(?:/[\w-]+)+(?:\.\w+)?")
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_every_place_is_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\_", "_")
    places = {*PLACE.findall(text), *re.findall(r"\]\(([^):#]+)\)", text)}
    assert places
    assert not [place for place in places if not (ROOT / place).exists()]


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^    |`)make ([\w-]+)", text, re.MULTILINE))
    assert named
    assert named <= targets


def test_hooks_run_what_the_tests_install() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program, command, *_ = hook["entry"].split()
        assert (program, command) in {(".venv/bin/ruff", "check"), (".venv/bin/ruff", "format")}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_well_formed(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids) > 1
    for part in form["body"]:
        assert part["type"] in {"textarea", "input"}
        assert part["attributes"]["label"]
