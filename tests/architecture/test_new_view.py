"""A new view across exchanges is three modules, which collect it, make text of it and tables, and a row of VIEWS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.captures import views
from tests.captures.traffic import LIBRDKAFKA
from tests.support.patience import SECONDS

COLLECTOR = """
class Hosts:
    def __init__(self):
        self._found = {}

    def add(self, seen):
        host = seen.exchange.connection.client.rpartition(":")[0]
        self._found[host] = self._found.get(host, 0) + 1

    def lines(self):
        for host, count in self._found.items():
            yield {"schema": "kproxy.host/1", "host": host, "exchanges": count}
"""
DISPLAY = """
from kproxy.captures.analysis.display.filters import own
from kproxy.captures.views import Kind

def text(lines, clock):
    return (f"{line['host']}  {line['exchanges']} exchanges" for line in lines)

KINDS = {"kproxy.host/1": Kind(("host",), own("client", "host"))}
"""
COLUMNS = """
from kproxy.captures.analysis.columns.column import COUNT, NAME, Column, Table, member

TABLES = (
    Table(
        "hosts", "Hosts", "hosts", "kproxy.host/1",
        (Column("host", "Host", NAME, member("host")), Column("exchanges", "Exchanges", COUNT, member("exchanges"))),
    ),
)
"""
ROW = """
    View(
        "hosts", "hosts:Hosts",
        Command("hosts", "Show who connects.", "Show the hosts of clients."),
        Screen("H", "Hosts", "The hosts of clients.", ("hosts",)),
    ),
"""
BEGIN = """
import sys, types
from pathlib import Path
folder = Path(sys.argv[1])
def load(name, path):
    found = sys.modules[name] = types.ModuleType(name)
    found.__file__ = str(path)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(found))
load("kproxy.captures.views", folder / "views.py")
load("kproxy.captures.analysis.hosts", folder / "hosts.py")
load("kproxy.captures.analysis.display.hosts", folder / "display.py")
load("kproxy.captures.analysis.columns.hosts", folder / "columns.py")
"""
COMMAND = "from kproxy.cli.main import main; main(sys.argv[2:])"
SCREEN = """
import json
from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.columns.storing import store
from kproxy.captures.analysis.columns.tables import of_view
from kproxy.captures.analysis.views import Views
from kproxy.captures.reader import read
from kproxy.captures.text import utc
from kproxy.decoders.exchange import Exchange
from kproxy.tui.actions.registry import SCREENS
from kproxy.tui.views.details import details
reader = read([Path(sys.argv[2])])
found = Views(reader.source, reader.definitions)
for item in reader:
    if isinstance(item, Exchange):
        found.add(item)
path = folder / "hosts.table"
path.write_bytes(store({}, list(found["hosts"].lines()), of_view("hosts"), utc))
rows = Stored(path).rows(of_view("hosts")[0])
print(json.dumps([SCREENS["hosts"], rows.cells(0)[1], details("hosts", rows.line(0)).filters]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The new modules, and the table with one more row."""
    text = Path(views.__file__).read_text(encoding="utf-8")
    begin = "VIEWS: Final[Mapping[str, View]] = {view.name: view for view in ("
    assert begin in text
    (tmp_path / "views.py").write_text(text.replace(begin, begin + ROW), encoding="utf-8")
    (tmp_path / "hosts.py").write_text(COLLECTOR, encoding="utf-8")
    (tmp_path / "display.py").write_text(DISPLAY, encoding="utf-8")
    (tmp_path / "columns.py").write_text(COLUMNS, encoding="utf-8")
    return tmp_path


def python(code: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_view_has_a_command(folder: Path) -> None:
    line = json.loads(python(COMMAND, folder, "hosts", LIBRDKAFKA, "--json").splitlines()[0])
    assert (line["schema"], line["host"]) == ("kproxy.host/1", "127.0.0.1")
    assert python(COMMAND, folder, "hosts", LIBRDKAFKA) == f"127.0.0.1  {line['exchanges']} exchanges\n"
    assert "Show who connects." in python(COMMAND, folder, "--help")
    assert python(COMMAND, folder, "hosts", LIBRDKAFKA, "--table", "hosts").splitlines() == [
        "Host       Exchanges",
        "127.0.0.1        176",
    ]


def test_a_view_has_a_screen(folder: Path) -> None:
    screen, cells, filters = json.loads(python(SCREEN, folder, LIBRDKAFKA))
    assert screen == ["H", "Hosts", "The hosts of clients."]
    assert cells == ["127.0.0.1", "176"]
    assert filters == [['client == "127.0.0.1"']]
