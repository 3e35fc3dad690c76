"""config, completion, doctor, and packages of other people that have names like ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.spark.session import java
from kproxy.cli.commands import COMMANDS, doctor
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.cli.requirements import needed
from kproxy.cli.spark_session import NO_JAVA

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-1.1.1.pcap"


@pytest.fixture(autouse=True)
def _config_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def write_config(home: Path, text: str) -> Path:
    path = home / "kproxy" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_config_path(tmp_path: Path) -> None:
    assert run("config", "path").stdout.strip() == str(tmp_path / "kproxy" / "config.toml")
    assert run("--config", "x.toml", "config", "path").stdout.strip() == "x.toml"


def test_config_show_says_value_and_source(tmp_path: Path) -> None:
    write_config(tmp_path, '[stats]\nport = "9092"\n')
    result = run("config", "show", "-X", "count=5")
    lines = result.stdout.splitlines()
    assert "stats.port = '9092'  (configuration)" in lines
    assert "stats.count = '5'  (-X)" in lines
    assert "export.port = '9092'  (configuration)" not in lines
    setting = json.loads(run("config", "show", "--json").stdout.splitlines()[0])
    assert setting == {"option": "stats.port", "value": "9092", "source": "configuration"}


def test_config_check(tmp_path: Path) -> None:
    assert run("config", "check").exit_code == Exit.OK
    path = write_config(tmp_path, '[stats]\nport = "9092"\n')
    assert run("config", "check").stdout.strip() == f"{path}: ok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[stats]\nport = "nine"\n', "configuration: stats.port: 'nine' is not a port"),
        ('[stats]\nprot = "9092"\n', "configuration [stats]: unknown key 'prot'; did you mean port?"),
        ('filter = "api =="\n', "stats.filter: expected a value of api"),
        ("[stats]\ncount = -1\n", "stats.count: -1 is not in the range"),
    ],
)
def test_config_check_finds_what_means_nothing(tmp_path: Path, text: str, message: str) -> None:
    write_config(tmp_path, text)
    result = run("config", "check")
    assert result.exit_code == Exit.USAGE
    assert message in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == Exit.OK
    assert "_KPROXY_COMPLETE" in result.stdout


def completed(words: str) -> list[str]:
    """What bash offers at the end of `words`."""
    environment = {**os.environ, "_KPROXY_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    script = "from kproxy.cli.main import main; main(prog_name='kproxy')"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_options_complete() -> None:
    assert {"stats", "export", "replay"} <= set(completed("kproxy "))
    assert "--port" in completed("kproxy stats --p")
    assert "api" in completed("kproxy stats -Y ap")


def test_doctor() -> None:
    result = run("doctor")
    assert "python" in result.stdout
    assert "kproxy" in result.stdout
    facts = [json.loads(line) for line in run("doctor", "--json").stdout.splitlines()]
    assert {fact["state"] for fact in facts} <= {"ok", "note", "bad"}
    bad = [fact for fact in facts if fact["state"] == "bad"]
    assert result.exit_code == (Exit.CONDITION if bad else Exit.OK)


def test_doctor_ends_with_1_where_something_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([doctor.Fact("x", "bad", "broken")]),))
    result = run("doctor")
    assert result.exit_code == Exit.CONDITION
    assert "bad  x" in result.stdout


def test_doctor_finds_nothing_bad_where_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program on the path, no cache: what is merely absent is a note."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    facts = {fact["name"]: fact for fact in map(json.loads, run("doctor", "--json").stdout.splitlines())}
    assert facts["spark"] == {"name": "spark", "state": "note", "detail": NO_JAVA}
    assert facts["tshark"]["state"] == "note"
    assert "java" not in facts


def test_doctor_says_why_a_java_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    facts = [json.loads(line) for line in run("doctor", "--json").stdout.splitlines()]
    (fact, *_) = [fact for fact in facts if fact["name"] == "java"]
    assert fact["state"] == "note"
    assert fact["detail"] == f"11.0.2 at {program}, from JAVA_HOME: Spark needs 17 or newer"


def test_doctor_outlives_a_check_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def capture_rights() -> Iterator[doctor.Fact]:
        raise OSError("no such thing")

    monkeypatch.setattr(doctor, "CHECKS", (capture_rights,))
    result = run("doctor")
    assert (result.exit_code, result.stdout) == (0, "note capture rights   unknown: no such thing\n")


def test_doctor_tells_the_sizes_of_what_is_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "kproxy" / "index" / "x").mkdir(parents=True)
    (tmp_path / "kproxy" / "index" / "x" / "rows").write_bytes(bytes(3 << 20))
    (tmp_path / "kproxy" / "index" / "x" / "link").symlink_to("rows")
    facts = {fact["name"]: fact for fact in map(json.loads, run("doctor", "--json").stdout.splitlines())}
    assert facts["cache/index"]["detail"] == "3.0MB"


def test_requirements() -> None:
    found = needed(
        ["click>=8", "uvloop>=0.21; sys_platform != 'nowhere'", "x; sys_platform == 'nowhere'", 'y>1; extra == "demo"']
    )
    assert found == [("click", None), ("uvloop", None), ("y", "demo")]


def test_packages_of_other_people_stand_in_nobodys_way(tmp_path: Path) -> None:
    """`decoders`, `captures` and `tui` are names on package indexes; ours are below `kproxy`."""
    for name in ("decoders", "captures", "tui"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger ran')")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['kproxy', 'export', {str(CAPTURE)!r}]\n"
    script += "from kproxy.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"kproxy.exchange/1"' in done.stdout


def test_every_command_is_listed_in_help() -> None:
    text = run("--help").stdout
    assert all(f"  {name}" in text for name in COMMANDS)
