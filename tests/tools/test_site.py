"""Both builders make a site of docs without a warning: no page is left out, no link leads nowhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILDERS = {
    "mkdocs": ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"],
    "zensical": ["-m", "zensical", "build", "--strict"],
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with what the site is made of: zensical writes its pages beside them."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("builder", list(BUILDERS))
def test_the_site_is_built_without_a_warning(builder: str, copy: Path) -> None:
    arguments = [*BUILDERS[builder], *([str(copy / "site")] if builder == "mkdocs" else [])]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=copy, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= {page.parent.name for page in (copy / "site").glob("*/index.html")}
    for page in (copy / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(<script[^>]* src|<link[^>]*stylesheet[^>]* href|<img[^>]* src)=.?https?:", text), page
