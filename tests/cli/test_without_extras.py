"""kproxy as `pip install kafka-kproxy` leaves it: what needs an extra names it, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli.exits import Exit
from kproxy.cli.requirements import needed
from tests.captures import files
from tests.captures.traffic import LIBRDKAFKA
from tests.support.patience import SECONDS

MODULES = ("scapy", "cryptography", "scramp", "asn1crypto", "fastavro", "jsonschema")
"""What the extras `sniff`, `security` and `schemas` bring."""
WITHOUT = f"""
import importlib.machinery
import sys


class Hidden(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {MODULES!r} else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Hidden
"""
PPP = 9
SCHEMA = '{"type": "record", "name": "person", "fields": [{"name": "age", "type": "int"}]}'


def run(*arguments: str | Path, without: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    hiding = {} if without is None else {"PYTHONPATH": str(without)}
    return subprocess.run(
        [sys.executable, "-m", "kproxy", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=SECONDS, env={**os.environ, **hiding, **variables},
    )  # fmt: skip


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH: its sitecustomize.py makes MODULES impossible to import."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    return tmp_path


@pytest.mark.parametrize("command", ["stats", "export", "topics", "conns", "findings"])
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


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        ("sniff lo --headless", {}, "sniffing needs scapy, which is not installed: pip install 'kafka-kproxy[sniff]'"),
        (
            "ca",
            {},
            "kproxy ca needs cryptography, which is not installed: pip install 'kafka-kproxy[security]'",
        ),
        (
            "run --upstream 127.0.0.1:9 --listen 127.0.0.1:0 --tls-in auto --headless",
            {},
            "certificates of kproxy's own CA need cryptography: pip install 'kafka-kproxy[security]'",
        ),
        (
            "run --upstream 127.0.0.1:9 --listen 127.0.0.1:0 --sasl scram-sha-256 --headless",
            {"KPROXY_SASL_USERNAME": "u", "KPROXY_SASL_PASSWORD": "p"},
            "--sasl: SCRAM-SHA-256 needs scramp: pip install 'kafka-kproxy[security]'",
        ),
    ],
)
def test_what_needs_an_extra_names_it(
    arguments: str, variables: dict[str, str], says: str, without: Path, tmp_path: Path
) -> None:
    done = run(*arguments.split(), without=without, **variables, XDG_DATA_HOME=str(tmp_path / "data"))
    assert done.returncode == Exit.USAGE
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_log_needs_an_extra(without: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.log").write_text("")
    done = run("stats", LIBRDKAFKA, "--keylog", tmp_path / "keys.log", without=without)
    assert done.returncode == Exit.INPUT
    assert "decrypting TLS needs the package cryptography: pip install 'kafka-kproxy[security]'" in done.stderr


def test_an_avro_payload_says_what_it_needs(without: Path) -> None:
    code = (
        "from kproxy.decoders.payloads.avro import reader_of\n"
        "from kproxy.decoders.payloads.schemas import Part, Schema, SchemaType\n"
        f"print(reader_of(Schema(SchemaType.AVRO, (Part('person', {SCHEMA.encode()!r}),), 'file')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=SECONDS, env={**os.environ, "PYTHONPATH": str(without)},
    )  # fmt: skip
    assert "needs fastavro, which is not installed: pip install 'kafka-kproxy[schemas]'" in done.stdout, done.stderr


def test_the_doctor_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from kproxy.cli.commands import doctor

    def version(name: str) -> str:
        if name == "scapy":
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(metadata, "version", version)
    (fact,) = (fact for fact in doctor.packages() if fact.name == "scapy")
    assert fact.state == "note"
    assert "kafka-kproxy[sniff]" in fact.detail


def test_an_extra_made_of_others_is_no_package() -> None:
    assert needed(['kafka-kproxy[sniff,security]; extra == "full"', 'scapy>=2.6; extra == "sniff"']) == [
        ("scapy", "sniff")
    ]
