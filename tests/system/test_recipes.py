"""The recipes of docs/running.md and docs/installing.md, followed as far as this goes without systemd as process 1 and
without containers.

The service runs without any capability; that of the unit may write nowhere but where it says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.kproxy.core.frames import request, response
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.support.brokers import free_ports
from tests.support.proxy import KPROXY
from tests.support.relay import eventually
from tests.support.require import require, unavailable

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "running.md").read_text()
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""The user that it runs as is ours all the same, because others may not reach our Python."""
SECONDS = 60.0
ASKED, ANSWER = request(12, 0, 1), response(12, 0, 1, {})


def recipe(heading: str) -> str:
    """The first block of code of a section, dedented."""
    section = DOCS.partition(f"## {heading}\n")[2]
    (block,) = re.findall(r"\A\s*?\n((?:    .*\n|\n)+)", section)
    return textwrap.dedent(block).strip() + "\n"


@dataclass
class Unit:
    """A service's settings: of those that come more than once, all."""

    text: str

    @classmethod
    def documented(cls) -> Unit:
        return cls(recipe("systemd").replace("\\\n", " "))

    def get(self, name: str) -> str:
        """Its value, with the directories of the system's manager in it."""
        (found,) = re.findall(rf"^{name}=(.*)$", self.text, re.MULTILINE)
        for specifier, value in {"%t": "/run", "%C": "/var/cache", "%S": "/var/lib", "%H": "localhost"}.items():
            found = found.replace(specifier, value)
        return str(found)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    require("unshare", "nsenter", "setpriv", "mount")
    if os.geteuid():
        unavailable("mounts need root")
    fake = FakeBroker()
    yield fake
    fake.close()


def command(words: list[str], broker: FakeBroker, port: int) -> list[str]:
    """What a recipe starts, with our program, broker and port."""
    ours = [str(KPROXY), *words[1:]]
    ours[ours.index("--upstream") + 1] = broker.address
    ours[ours.index("--listen") + 1] = f"*:{port}"
    return ours


def covered(parent: str) -> str:
    """A shell's words that put an empty directory over one; our program and its Python stay where they are below it."""
    kept = {place for place in (KPROXY.parents[2], Path(sys.base_prefix)) if place.is_relative_to(parent)}
    words = [f"exec {number}<{place}" for number, place in enumerate(kept, 7)]
    words.append(f"mount -t tmpfs -o mode=1777 none {parent}")
    for number, place in enumerate(kept, 7):
        words += [f"mkdir -p {place}", f"mount -c --bind /proc/self/fd/{number} {place}", f"exec {number}<&-"]
    return "; ".join(words)


@contextlib.contextmanager
def served(script: str, words: list[str], environment: Mapping[str, str], said: Path) -> Iterator[psutil.Popen]:
    """A service behind what a shell script mounts; all of it is killed at the end."""
    with said.open("wb") as out:
        process = psutil.Popen(
            ["unshare", "--mount", "sh", "-ec", f'{script}\ncd /; exec "$@"', "sh", *POWERLESS, *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in [*process.children(recursive=True), process]:
                one.kill()
        process.wait()


def check(process: psutil.Popen, broker: FakeBroker, port: int, environment: Mapping[str, str], said: Path) -> None:
    """It listens, forwards, is known to `kproxy ps` beside it, and ends with SIGTERM."""

    def listens() -> bool:
        assert process.poll() is None, said.read_text()
        with contextlib.suppress(OSError):
            connect(f"127.0.0.1:{port}").close()
            return True
        return False

    eventually(listens, "it listens", SECONDS)
    with connect(f"127.0.0.1:{port}") as client:
        client.sendall(ASKED)
        while True:  # its own questions about the upstream, and who only knocked, are let go
            with broker.accept() as side:
                if exactly(side, len(ASKED)) == ASKED:
                    side.sendall(ANSWER)
                    break
        assert exactly(client, len(ANSWER)) == ANSWER
    beside = ["nsenter", "--mount", f"--target={process.pid}", *POWERLESS]
    listed = subprocess.run(
        [*beside, str(KPROXY), "ps", "--json"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    runs = {tuple(run["upstream"]): run["answers"] for run in map(json.loads, listed.stdout.splitlines())}
    assert runs.get((broker.address,)) is True, listed.stderr  # beside others that this machine may have
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0, said.read_text()
    assert "bootstrap.servers=" in said.read_text()


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    require("systemd-analyze")
    path = tmp_path / "kproxy.service"
    path.write_text(recipe("systemd").replace("/opt/kproxy/bin/kproxy", str(KPROXY)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_the_service_needs_no_more_than_the_unit_allows(broker: FakeBroker, tmp_path: Path) -> None:
    unit = Unit.documented()
    assert unit.get("ProtectSystem") == "strict"
    port = free_ports(1)[0]
    script = "mount --make-rprivate /\n"
    for kind, parent in (
        ("RuntimeDirectory", "/run"),
        ("CacheDirectory", "/var/cache"),
        ("StateDirectory", "/var/lib"),
    ):
        directory = f"{parent}/{unit.get(kind)}"
        script += f"{covered(parent)}; mkdir -m 0700 {directory}\n"
        script += f"mount --bind {directory} {directory}; mount -o remount,bind,ro {parent}\n"
    for parent in ("/tmp", "/var/tmp"):
        script += covered(parent)
        script += "\n" if "PrivateTmp=yes" in unit.text else f"; mount -o remount,bind,ro {parent}\n"
    environment = dict(one.split("=", 1) for one in shlex.split(unit.get("Environment")))
    words = command(shlex.split(unit.get("ExecStart")), broker, port)
    with served(script, words, environment, tmp_path / "said") as process:
        check(process, broker, port, environment, tmp_path / "said")


def test_the_image_needs_no_more_than_it_has(broker: FakeBroker, tmp_path: Path) -> None:
    """Its steps, but that our own installation stands for the image's."""
    image = (ROOT / "packages" / "container" / "Containerfile").read_text()
    (made,) = re.findall(r"^RUN useradd (.*)$", image, re.MULTILINE)
    (given,) = re.findall(r"^ENV PATH=\S+ (.*)$", image, re.MULTILINE)
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", image, re.MULTILINE)
    page = (ROOT / "docs" / "installing.md").read_text()
    (started,) = re.findall(r"podman run .*? \\\n +kproxy (.*)$", page, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^STOPSIGNAL (.*)$", image, re.MULTILINE) == ["SIGTERM"]
    (directory,) = re.findall(r"^VOLUME (.*)$", image, re.MULTILINE)
    assert f"install -d -o kproxy {directory}" in made  # a volume takes its owner from what is there
    port = free_ports(1)[0]
    environment = dict(one.split("=", 1) for one in given.split())
    words = command([*json.loads(entry), *shlex.split(started.splitlines()[0])], broker, port)
    place = tmp_path / "data"
    place.mkdir()
    script = f"mount --make-rprivate /; mkdir -p {directory}; mount --bind {place} {directory}"
    try:
        with served(script, words, environment, tmp_path / "said") as process:
            check(process, broker, port, environment, tmp_path / "said")
    finally:
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
