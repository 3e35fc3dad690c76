"""What docs/tasks.md says to press, pressed in tmux: the screen shows what it says is seen."""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest
from confluent_kafka import Producer

from kproxy.runs.demo import start_cluster
from tests.support.brokers import free_ports
from tests.support.proxy import KPROXY, Proxy, environment, kproxy
from tests.support.require import require
from tests.support.tmux import PROMPT, Terminal

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "data" / "captures"
THROTTLED = ROOT / "tests" / "data" / "findings" / "latency.throttled.pcap.xz"
NAMED = {"enter": "Enter", "esc": "Escape", "tab": "Tab", "ctrl+g": "C-g"}
"""Keys of docs/keys.md by tmux's names; other words of several characters are typed."""
SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}  # fmt: skip

SIZES = [(80, 24), (120, 40)]
MOST_KEYS = 8
"""No task takes more after its captures are open; what is typed into a line counts as one."""

Step = tuple[list[str], list[str]]
"""Keys, and what is seen after them."""


def tasks() -> dict[str, list[Step]]:
    """Steps of each task of docs/tasks.md, by its heading."""
    found: dict[str, list[Step]] = {}
    for line in (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            steps = found.setdefault(line[3:], [])
        elif line.startswith("| `"):
            keys, seen = line.strip("| ").split(" | ")
            steps.append((re.findall("`([^`]+)`", keys), re.findall("`([^`]+)`", seen)))
    return found


TASKS = tasks()


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of an Avro value, and a folder with its schema, in a directory of their own."""
    directory = tmp_path_factory.mktemp("orders")
    (directory / "schemas").mkdir()
    (directory / "schemas" / "orders-value.avsc").write_text(json.dumps(SCHEMA))
    value = io.BytesIO()
    fastavro.schemaless_writer(value, SCHEMA, {"id": 7, "item": "tea"})
    keeper, bootstrap = start_cluster()
    with Proxy(bootstrap, directory / "proxy") as proxy:
        producer = Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0})
        producer.produce("orders", b"\0\0\0\0\1" + value.getvalue(), "first")
        assert producer.flush(60) == 0
        proxy.stop()
    del keeper
    shutil.copy(proxy.recording, directory / "orders.pcapng")
    return directory


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Surroundings in which `kproxy` is ours and keeps nothing of the user's."""
    ours = environment(tmp_path / "places")
    return {**ours, "PATH": f"{KPROXY.parent}:{ours['PATH']}", "PYTHONPATH": str(ROOT), "TZ": "UTC"}


@pytest.fixture
def size() -> tuple[int, int]:
    return SIZES[0]


@pytest.fixture
def terminal(tmp_path: Path, places: dict[str, str], size: tuple[int, int]) -> Iterator[Terminal]:
    """A shell where the captures are."""
    require("tmux")
    for capture in CAPTURES.glob("kafka-*.pcap"):
        shutil.copy(capture, tmp_path)
    (tmp_path / "latency.throttled.pcap").write_bytes(lzma.decompress(THROTTLED.read_bytes()))
    # The path of a socket is short.
    with tempfile.TemporaryDirectory() as short, Terminal(tmp_path, Path(short, "tmux"), places, size) as shell:
        shell.wait_for(PROMPT)
        yield shell


def perform(terminal: Terminal, steps: list[Step]) -> None:
    for keys, seen in steps:
        assert keys
        assert seen
        for key in keys:
            if key in NAMED or len(key) == 1:
                terminal.press(NAMED.get(key, key))
            else:
                terminal.type(key)
        terminal.wait_for(*seen)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_few_keys(task: str) -> None:
    opened = [keys for keys, _ in TASKS[task] if not any("kproxy " in key for key in keys)]
    assert 0 < sum(map(len, opened)) <= MOST_KEYS


OF_ITS_OWN = {
    "Read a record's Avro value",
    "Copy a request as hex",
    "Open last night's capture while the proxy still runs",
}
"""Tasks that need more than the captures, or leave more than the screen."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "{}x{}".format(*size))
@pytest.mark.parametrize("task", [task for task in TASKS if task not in OF_ITS_OWN])
def test_the_screen_shows_what_the_task_asks_for(task: str, terminal: Terminal) -> None:
    perform(terminal, TASKS[task])


def test_a_record_s_avro_value_is_read(terminal: Terminal, orders: Path, tmp_path: Path) -> None:
    shutil.copytree(orders, tmp_path, dirs_exist_ok=True)
    perform(terminal, TASKS["Read a record's Avro value"])


def test_a_request_that_is_copied_as_hex_can_be_pasted(terminal: Terminal) -> None:
    perform(terminal, TASKS["Copy a request as hex"])
    terminal.wait_until_copied()
    perform(terminal, [(["q"], [PROMPT]), (["kproxy decode "], ["kproxy decode"])])
    terminal.paste()
    perform(terminal, [(["enter"], ["Metadata request v0", "j-none"])])


def test_a_capture_is_opened_while_the_proxy_runs(terminal: Terminal, tmp_path: Path) -> None:
    upstream, listen = free_ports(2)
    steps = [
        ([key.replace("kafka:9092", f"127.0.0.1:{upstream} --listen 127.0.0.1:{listen}") for key in keys], seen)
        for keys, seen in TASKS["Open last night's capture while the proxy still runs"]
    ]
    try:
        perform(terminal, steps)
    finally:
        kproxy(tmp_path / "places", "stop", "--all")
