"""What a capture lacks is said in whatever form it is exported."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli.exits import Exit
from kproxy.cli.main import main

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-1.1.1.pcap"
TOLD = b"1 frame cut"


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    path = tmp_path / "cut.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:100_000])
    return path


@pytest.mark.parametrize("form", ["csv", "records", "html", "pcapng", "parquet"])
def test_standard_error_says_it(form: str, cut: Path, tmp_path: Path) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    more = ["-c", "1000"] if form == "html" else []
    command = ["export", str(cut), "--format", form, "-o", str(tmp_path / "out"), *more]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == Exit.INPUT
    assert TOLD.decode() in result.stderr


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_json_ends_with_it(form: str, cut: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["export", str(cut), "--format", form, "-o", str(out)])
    assert result.exit_code == Exit.INPUT
    end = out.read_bytes().rstrip(b"]\n").splitlines()[-1]
    assert b'"schema":"kproxy.health/1"' in end
    assert b'"cut":1' in end


@pytest.mark.parametrize(("form", "more"), [("html", ["-c", "1000"]), ("pcapng", [])])
def test_what_is_shared_says_it_itself(form: str, more: list[str], cut: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    CliRunner().invoke(main, ["export", str(cut), "--format", form, "-o", str(out), *more])
    assert TOLD in out.read_bytes()
