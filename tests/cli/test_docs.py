"""The reference pages say what the code does."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import click
import pytest

from kproxy.captures.tables.schema import TABLES
from kproxy.cli.commands import COMMANDS, load
from kproxy.cli.main import main
from tests.support.require import require
from tools import docs, man


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_page_is_what_the_code_makes(name: str) -> None:
    assert (docs.DOCS / name).read_text(encoding="utf-8") == docs.PAGES[name](), "run `make docs`"


def leaves(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        return [leaf for sub, found in command.commands.items() for leaf in leaves(f"{name} {sub}", found)]
    return [(name, command)]


def test_every_command_and_option_is_on_the_page() -> None:
    """Against click's own tree, without the generator's help."""
    page = (docs.DOCS / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^#+ (kproxy [^\n]+)\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL))
    for name, entry in COMMANDS.items():
        for path, command in leaves(f"kproxy {name}", load(entry.target)):
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert all(f"`{spelling}`" in sections[path] for spelling in option.opts), (path, option.opts)
    top = page[: page.index("\n## kproxy ")]
    for option in main.params:
        assert all(f"`{spelling}`" in top for spelling in option.opts)


def test_the_page_of_addons_shows_the_example_it_links_to() -> None:
    shown = (docs.DOCS / "addons.md").read_text(encoding="utf-8")
    example = (docs.DOCS / "examples" / "throttle.py").read_text(encoding="utf-8")
    assert textwrap.indent(example, "    ") in shown


def test_folders_of_tables_are_named_as_they_are() -> None:
    page = (docs.DOCS / "uses.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"--format parquet.*# folders: (.*)", page)
    assert set(named.split(", ")) <= set(TABLES)


@pytest.mark.parametrize("path", man.files(), ids=lambda path: path.name)
def test_man_page_and_completions_are_those_of_the_commands(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == man.files()[path], "run `make docs`"


def test_the_man_page_has_no_mistakes_in_its_markup() -> None:
    require("groff")
    page = next(path for path in man.files() if path.suffix == ".1")
    done = subprocess.run(
        ["groff", "-K", "utf8", "-man", "-ww", "-z", str(page)], capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
