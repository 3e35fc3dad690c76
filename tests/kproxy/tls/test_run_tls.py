"""TLS as a user asks `kproxy run` for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli.main import main
from kproxy.tls.authority import Authority, default_directory
from tests.kproxy.support import FakeBroker
from tests.support.certificates import TestCa

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("own_places")]

SCRIPT = "from kproxy.cli.main import main; main()"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tls-in-ca", "ca.pem"], "--tls-in-ca needs --tls-in"),
        (["--tls-keylog", "keys.log"], "--tls-keylog needs --tls-in or --tls-out"),
        (["--tls-out-ca", "ca.pem"], "--tls-out-ca needs --tls-out"),
        (["--tls-out-cert", "a,b"], "--tls-out-cert needs --tls-out"),
        (["--tls-out-insecure"], "--tls-out-insecure needs --tls-out"),
        (["--tls-out", "--tls-out-insecure", "--tls-out-ca", "ca.pem"], "exclude each other"),
        (["--tls-out", "--tls-out-ca", "nowhere.pem"], "cannot read"),
        (["--check", "--tls-out", "--tls-out-ca", "nowhere.pem"], "cannot read"),
    ],
)
def test_what_does_not_fit_is_said(options: list[str], words: str) -> None:
    done = CliRunner().invoke(main, ["run", "--upstream", "localhost:1", "--listen", "0", *options])
    assert words in f"{done.output}{done.exception}"
    assert done.exit_code == 2


def test_what_to_paste_is_printed_and_relative_paths_hold(tmp_path: Path) -> None:
    ca = TestCa(tmp_path)
    broker = FakeBroker()
    options = ["--tls-in", "auto", "--tls-out", "--tls-out-ca", ca.path.name, "--tls-keylog", "keys.log", "--no-record"]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "run", "--upstream", broker.address, "--listen", "0", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = [process.stderr.readline().strip() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    broker.close()
    own = Authority.open(default_directory()).path
    assert lines[0].startswith("bootstrap.servers=127.0.0.1:")
    assert lines[1:] == ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={own}"]
    assert (tmp_path / "keys.log").exists()


def test_not_verifying_is_loud(tmp_path: Path) -> None:
    arguments = ["run", "--check", "--upstream", "localhost:1", "--tls-out", "--tls-out-insecure", "--listen", "0"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert done.returncode == 4
    assert "anybody between here and the cluster can read and change what passes" in done.stderr


def test_settings_travel_to_the_relay() -> None:
    from kproxy.runs.settings import Settings, TlsSettings

    settings = Settings((("kafka", 9092),), tls=TlsSettings(in_certificate="auto", out=True, out_name="a"))
    assert Settings.from_json(settings.to_json()) == settings
    assert json.loads(settings.to_json())["tls"]["out_name"] == "a"
