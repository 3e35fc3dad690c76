"""`kproxy run --definitions`: whoever looks at what passes knows what is given, in each of its processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kproxy.decoders.definition_files import read
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.writer import write
from tests.decoders.schema.test_kafkajson import GOOD, RESPONSE
from tests.kproxy.support import connect, exactly
from tests.kproxy.test_run import Run, running

pytestmark = pytest.mark.timeout(60)

KEY = 10000
ADDON = """
from kproxy.addons import Actor, Observer

class Renames(Actor):
    apis = ("VendorThing",)

    def request(self, frame):
        return frame.written(body={**frame.body, "tenantId": "another"})

class Sees(Observer):
    filter = "api == VendorThing"

    def exchange(self, observed):
        with open(FILE, "a") as out:
            out.write(f"{observed.api} {observed.request['tenantId']}\\n")
"""


def exchange(run: Run, tenant: str, becomes: str) -> None:
    """One VendorThing, of which the broker sees another tenant."""
    message = Definitions("4.4.0", read([("a", GOOD), ("b", RESPONSE)])).request(KEY, 0)
    assert message is not None

    def frame(name: str) -> bytes:
        body = write(message, 0, {"tenantId": name, "things": []})
        head = KEY.to_bytes(2, "big") + bytes(2) + (7).to_bytes(4, "big") + b"\xff\xff"
        return (len(head) + len(body)).to_bytes(4, "big") + head + body

    answer = (6).to_bytes(4, "big") + (7).to_bytes(4, "big") + bytes(2)
    with connect(f"127.0.0.1:{run.port}") as client:
        client.sendall(frame(tenant))
        with run.served(frame(becomes)) as side:
            side.sendall(answer)
            assert exactly(client, len(answer)) == answer


def test_relay_observers_and_lines_know_what_is_given(tmp_path: Path) -> None:
    given, seen, addon = tmp_path / "given", tmp_path / "seen", tmp_path / "addon.py"
    given.mkdir()
    (given / "request.json").write_text(GOOD)
    (given / "response.json").write_text(RESPONSE)
    addon.write_text(f"FILE = {str(seen)!r}\n{ADDON}")
    options = ("--definitions", str(given), "--record", "api == VendorThing", "--addon", str(addon))
    with running(tmp_path, "--headless", "--json", *options) as run:
        run.exchange(12, 0)
        exchange(run, "one", "another")
        out, said, code = run.end()
    assert code == 0
    assert [line.partition(" from ")[0] for line in said.splitlines()] == ["first connection"]
    one, health = map(json.loads, out.splitlines())
    assert (one["api"], one["status"]) == ("VendorThing", "ok")
    assert one["request"]["body"]["tenantId"] == "another"
    assert health["undecoded"] == 0
    assert seen.read_text() == "VendorThing another\n"
