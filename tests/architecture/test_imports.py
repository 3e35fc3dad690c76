"""The direction of imports, and what may be loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "scapy", "textual", "rich", "asyncio", "uvloop", "confluent_kafka", "platformdirs", "lz4"}
UNPAINTED = {"textual", "rich", "kproxy.tui"}


def loaded(statement: str, below: int = 1) -> set[str]:
    """The packages that a fresh interpreter holds after `statement`: top-level names, and `below` levels of kproxy."""
    names = f"{{'.'.join(name.split('.')[: 1 + {below} * name.startswith('kproxy.')]) for name in sys.modules}}"
    script = f"import sys\n{statement}\nprint(*{names})"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    return set(run.stdout.splitlines()[-1].split())


BEFORE_ROWS_WITHOUT = {
    "kproxy.captures.export.oneline",
    "kproxy.captures.index.filtering",
    "kproxy.captures.index.summary",
    "kproxy.captures.source",
    "kproxy.decoders.filters",
    "kproxy.decoders.frames",
    "kproxy.decoders.jsonform",
    "kproxy.decoders.meanings",
    "kproxy.decoders.message",
    "kproxy.decoders.records.places",
    "kproxy.tui.detail.many_records",
    "kproxy.tui.screens.command",
    "kproxy.tui.screens.help",
    "kproxy.tui.screens.menu",
    "kproxy.tui.screens.records",
    "kproxy.tui.screens.stats",
    "kproxy.tui.screens.views",
    "kproxy.tui.widgets.outline",
}


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
    names = loaded(
        "from kproxy.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass", below=2
    )
    assert not names & HEAVY
    ours = {name for name in names if name.startswith(("kproxy.decoders", "kproxy.captures", "kproxy.tui"))}
    assert ours == {"kproxy.captures", "kproxy.captures.views"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_s_help_loads_nothing_heavy(command: str) -> None:
    names = loaded(
        f"from kproxy.cli.main import main\ntry:\n    main(['{command}', '--help'])\nexcept SystemExit:\n    pass"
    )
    assert not names & (HEAVY - {"asyncio", "platformdirs"})


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("kproxy.recording.sniffer", UNPAINTED | {"numpy", "urllib3", "fastavro"}),
        (
            "kproxy.relay.process",
            {
                "textual",
                "rich",
                "scapy",
                "numpy",
                "kproxy.tui",
                "urllib3",
                "fastavro",
                "cryptography",
                "prometheus_client",
                "aiohttp",
                "yaml",
                "kproxy.control",
            },
        ),
        (
            "kproxy.addons.acting",
            {"textual", "rich", "scapy", "numpy", "kproxy.captures", "kproxy.tui", "prometheus_client"},
        ),
        ("kproxy.addons.indexing", UNPAINTED | {"prometheus_client", "opentelemetry", "uvloop"}),
        ("kproxy.captures.index.indexer", {"urllib3", "fastavro", "msgpack", "cbor2", "jsonschema"}),
        ("kproxy.decoders.payloads.choose", HEAVY | {"urllib3", "fastavro", "msgpack", "cbor2", "jsonschema"}),
        ("kproxy.tui.app", {"numpy", "scapy", "uvloop", "confluent_kafka"}),
        ("kproxy.decoders.message", HEAVY | {"kproxy.captures", "kproxy.core", "kproxy.tui"}),
        ("kproxy.captures.reader", UNPAINTED | {"scapy", "kproxy.core", "asyncio"}),
    ],
)
def test_a_process_does_without(module: str, without: set[str]) -> None:
    assert not loaded(f"import {module}") & without


def test_the_interface_loads_before_its_first_rows_what_paints_them() -> None:
    script = "import sys\nimport kproxy.tui.app\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert not BEFORE_ROWS_WITHOUT.intersection(run.stdout.split())
