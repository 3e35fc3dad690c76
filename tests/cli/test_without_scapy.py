"""kproxy where scapy is not installed: only sniffing and rare link layers need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli.exits import Exit
from tests.captures import files
from tests.captures.traffic import LIBRDKAFKA
from tests.support.patience import SECONDS

WITHOUT = "import sys; sys.modules['scapy'] = None  # importing it raises ImportError\n"
GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "golden-4.4.0.pcap"
PPP = 9


def run(*arguments: str | Path, without: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kproxy", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=SECONDS,
        env=dict(os.environ) if without is None else {**os.environ, "PYTHONPATH": str(without)},
    )  # fmt: skip


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """A folder whose sitecustomize.py hides scapy from every process that has the folder in PYTHONPATH."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    return tmp_path


@pytest.mark.parametrize("command", ["stats", "export", "topics", "conns"])
def test_captures_are_read(command: str, without: Path) -> None:
    expected, found = run(command, LIBRDKAFKA), run(command, LIBRDKAFKA, without=without)
    assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout)
    assert expected.stdout


def test_a_link_layer_that_only_scapy_knows_is_named(tmp_path: Path, without: Path) -> None:
    capture = tmp_path / "ppp.pcap"
    capture.write_bytes(files.pcap([(0, b"\xff\x03\x00\x21" + bytes(40))], link=PPP))
    done = run("stats", capture, without=without)
    assert done.returncode == Exit.INPUT
    assert "packets of link-layer type 9 cannot be read without scapy, which is not installed" in done.stderr


def test_sniffing_says_what_it_needs(without: Path) -> None:
    done = run("sniff", "lo", "--headless", without=without)
    assert done.returncode == Exit.USAGE
    assert done.stderr == "kproxy: sniffing needs scapy, which is not installed: pip install scapy\n"


def test_the_doctor_notes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from kproxy.cli.commands import doctor

    def version(name: str) -> str:
        if name == "scapy":
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(metadata, "version", version)
    (fact,) = (fact for fact in doctor.packages() if fact.name == "scapy")
    assert fact.state == "note"
    assert "sniff" in fact.detail
