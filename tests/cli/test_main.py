"""The command line as a whole: its table, its exit codes, its messages."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from kproxy import __version__
from kproxy.captures.errors import CaptureError
from kproxy.cli import commands, settings
from kproxy.cli import main as cli
from kproxy.cli.exits import MEANINGS, Exit, Failure


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Result]:
    """Runs a command that raises."""

    def invoke(error: BaseException, *args: str) -> Result:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(commands, "COMMANDS", {"fail": commands.Entry("x:y", "Fail.")})
        monkeypatch.setattr(commands, "load", lambda _: command)
        return run("fail", *args)

    return invoke


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Failure("no such thing", Exit.CONNECT), Exit.CONNECT, "kproxy: no such thing"),
        (click.UsageError("what?"), Exit.USAGE, "kproxy: what? (kproxy fail --help tells more)"),
        (CaptureError("cut", "a.pcap", 7), Exit.INPUT, "kproxy: a.pcap: byte 7: cut"),
        (PermissionError(13, "Permission denied", "x"), Exit.PERMISSION, "kproxy: x: Permission denied"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
        (BrokenPipeError(), Exit.PIPE, ""),
        (OSError(errno.ENOSPC, "No space left on device"), Exit.USAGE, "kproxy: the output: No space left on device"),
        (
            OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28]"),
            Exit.USAGE,
            "kproxy: the output: No space left on device",
        ),
        (click.exceptions.Exit(Exit.CONDITION), Exit.CONDITION, ""),
    ],
)
def test_every_end_has_its_exit_code(
    failing: Callable[[BaseException], Result], error: BaseException, code: Exit, message: str
) -> None:
    result = failing(error)
    assert result.exit_code == code
    assert result.stderr.strip() == message
    assert not result.stdout


def test_a_bug_says_where_in_one_line(failing: Callable[..., Result]) -> None:
    result = failing(ZeroDivisionError("oh"))
    assert result.exit_code == Exit.BUG
    assert result.stderr.startswith("kproxy: internal error: ZeroDivisionError: oh at tests.cli.test_main:")
    assert re.search(r"; please report it at https://\S+/issues$", result.stderr)
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" in failing(ZeroDivisionError("oh"), "-v").stderr


def test_errors_are_json_with_json(failing: Callable[..., Result]) -> None:
    result = failing(Failure("no", Exit.CONNECT), "--json")
    assert json.loads(result.stderr) == {"error": "no", "exit": 4}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["exprt"], "no such command 'exprt'; did you mean export?"),
        (["stats"], "Missing argument 'CAPTURE...'."),
        (["stats", "--prot", "1", "x"], "No such option '--prot'."),
        (["stats", "--port", "x", "x"], "Invalid value for '--port': 'x' is not a port or range of ports"),
        (["stats", "-Y", "topc", "x"], "unknown field 'topc'"),
        (["stats", "--since", "noon", "x"], "Invalid value for '--since': 'noon' is not a time"),
        (["stats", "--release", "2.1", "x"], "no definitions of Kafka 2.1"),
        (["-X", "a", "doctor"], "'a' is not key=value"),
    ],
)
def test_a_wrong_command_line(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    first, *marked = result.stderr.splitlines()
    assert message in first
    assert len(marked) in {0, 3}  # a filter, the mark under its place, and where to read more
    assert not result.stdout


def test_without_a_command_it_says_what_can_be_done_here() -> None:
    result = run()
    assert result.exit_code == Exit.USAGE
    assert "kproxy demo" in result.stderr
    assert "kproxy --help lists all commands" in result.stderr
    assert not result.stdout


def test_config_show_says_that_nothing_is_set() -> None:
    result = run("config", "show")
    assert result.stdout.startswith("nothing is set in the environment or in ")
    assert not run("config", "show", "--json").stdout
    assert run("-X", "run.headless=true", "config", "show").stdout.startswith("run.headless = ")


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_the_table_says_what_the_commands_say(name: str) -> None:
    entry = commands.COMMANDS[name]
    command = commands.load(entry.target)
    assert command.help
    assert entry.help.endswith(".")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.opts[-1]} has no help"


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_global_options_stand_before_or_after_the_command(name: str) -> None:
    assert run("--color", "never", name, "--help").exit_code == Exit.OK
    command = settings.with_globals(commands.load(commands.COMMANDS[name].target))
    taken = {spelling for option in command.params for spelling in option.opts}
    assert set(settings.GLOBAL_OPTIONS) <= taken


def test_every_exit_code_is_explained() -> None:
    assert set(MEANINGS) == set(Exit)


def test_a_closed_pipe_ends_quietly() -> None:
    script = "from kproxy.cli.main import main; main(['doctor'])"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == Exit.PIPE
    assert errors == b""


def test_standard_output_that_is_closed() -> None:
    script = "from kproxy.cli.main import main; main(['config', 'path'])"
    run = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, script], capture_output=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (Exit.OK, b"")


@pytest.mark.parametrize("name", ["run", "replay", "export", "stats", "decode", "schema", "demo"])
def test_help_shows_how_it_is_called(name: str) -> None:
    said = run(name, "--help").stdout
    assert f"  kproxy {name} " in said[said.index("\n\n") :]


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == Exit.OK
    assert result.stdout == f"kproxy, version {__version__}\n"


def test_python_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"kproxy, version {__version__}\n"
