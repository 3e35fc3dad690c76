"""What no file of the tree may say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Put together here, so that this file does not say them either.
HOSTS = [
    ("pypi", "org"), ("pythonhosted", "org"), ("repo1.maven", "org"), ("repo.maven.apache", "org"), ("npmjs", "org"),
    ("npmjs", "com"), ("crates", "io"), ("golang", "org/proxy"), ("proxy.golang", "org"), ("deb.debian", "org"),
    ("archive.ubuntu", "com"), ("docker", "io"), ("ghcr", "io"), ("quay", "io"), ("confluent", "io/maven"),
]  # fmt: skip
REGISTRY = re.compile(rb"|".join(re.escape(".".join(parts)).encode() for parts in HOSTS))
MACHINE_PATH = re.compile(rb"(?<![\w./~-])/(?:work|root|home/[a-z]+|tmp/k|tmp/[a-z]+_jobs)/")
INDEX_OPTION = re.compile(rb"^\s*(?:-i|--index-url|--extra-index-url|--find-links|-f)\b", re.MULTILINE)


def files() -> list[Path]:
    """Every file that is in the repository, or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return [path for name in listed.stdout.split(b"\0") if name and (path := ROOT / name.decode()).is_file()]


def found(pattern: re.Pattern[bytes], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {match.group().decode(errors='replace')}"
        for path in paths
        for match in pattern.finditer(path.read_bytes())
    ]


def test_no_registry_host_is_named() -> None:
    assert not found(REGISTRY, files())


def test_no_path_of_a_machine_is_named() -> None:
    text = [path for path in files() if "data" not in path.relative_to(ROOT).parts]
    assert not found(MACHINE_PATH, text)


def test_the_locks_leave_the_index_to_the_user() -> None:
    locks = list((ROOT / "requirements").glob("*.txt"))
    assert len(locks) == 2
    assert not found(INDEX_OPTION, locks)
    assert not found(re.compile(rb"https?://"), locks)


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_every_locked_package_has_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    entries = re.findall(r"^[a-z0-9][\w.-]*==.*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)


def test_what_runs_is_part_of_what_develops() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^([\w.-]+==\S+)", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE))

    assert pins("runtime") <= pins("dev")
