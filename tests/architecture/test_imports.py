"""The direction of imports, and what may be loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "scapy", "textual", "rich", "asyncio", "uvloop", "confluent_kafka", "platformdirs", "lz4"}


def loaded(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after `statement`."""
    script = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    return set(run.stdout.splitlines()[-1].split())


BEFORE_ROWS_WITHOUT = {
    "captures.export.oneline", "captures.index.filtering", "captures.index.summary", "captures.source",
    "decoders.filters", "decoders.frames", "decoders.jsonform", "decoders.meanings", "decoders.message",
    "decoders.records.places", "tui.many_records",
    "tui.screens.command", "tui.screens.help", "tui.screens.menu", "tui.screens.records", "tui.screens.stats",
    "tui.screens.views", "tui.widgets.outline",
}  # fmt: skip


def test_contracts() -> None:
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_help_needs_only_click() -> None:
    names = loaded("from kproxy.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass")
    assert not names & HEAVY
    ours = names & {"decoders", "captures", "tui"}
    assert not ours


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_s_help_loads_nothing_heavy(command: str) -> None:
    names = loaded(
        f"from kproxy.cli.main import main\ntry:\n    main(['{command}', '--help'])\nexcept SystemExit:\n    pass"
    )
    assert not names & (HEAVY - {"asyncio", "platformdirs"})


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("kproxy.sniffer", {"textual", "rich", "numpy", "tui", "urllib3", "fastavro"}),
        (
            "kproxy.relay",
            {"textual", "rich", "scapy", "numpy", "tui", "urllib3", "fastavro", "cryptography", "prometheus_client"},
        ),
        ("kproxy.addons.acting", {"textual", "rich", "scapy", "numpy", "captures", "tui", "prometheus_client"}),
        ("kproxy.indexing", {"textual", "rich", "tui", "prometheus_client", "opentelemetry", "uvloop"}),
        ("captures.index.indexer", {"urllib3", "fastavro", "msgpack", "cbor2", "jsonschema"}),
        ("decoders.payloads.choose", HEAVY | {"urllib3", "fastavro", "msgpack", "cbor2", "jsonschema"}),
        ("tui.app", {"numpy", "scapy", "uvloop", "confluent_kafka"}),
        ("decoders.message", HEAVY | {"captures", "kproxy", "tui"}),
        ("captures.reader", {"textual", "rich", "scapy", "kproxy", "tui", "asyncio"}),
    ],
)
def test_a_process_does_without(module: str, without: set[str]) -> None:
    assert not loaded(f"import {module}") & without


def test_the_interface_loads_before_its_first_rows_what_paints_them() -> None:
    script = "import sys\nimport tui.app\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert not BEFORE_ROWS_WITHOUT.intersection(run.stdout.split())
