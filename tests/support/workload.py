"""Runs the programs of the workload (tests/system/clients/workload) in network namespaces and reads their output."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from kproxy.decoders.schema.errors import all_errors
from tests.support.java import broker_classpath, oracle_classpath
from tests.support.namespaces import Machine
from tests.system.clients.workload import Access

ROOT = Path(__file__).parents[2]
RELEASE = "4.4.0"
STAGE_SECONDS = 300.0
CLIENTS = ("java", "librdkafka", "pure", "aio")
CHANCE, CONNECTION = "chance", "connection"

_COMPLAINT = re.compile(r"(?:WARN|WARNING|ERROR|CRITICAL|%[0-5]\|[0-9.]+)[ |].*")
# The workload itself causes these complaints (a new topic, a leader or coordinator that moves, a member that joins, a
# bootstrap address that turns out to be a known broker's, a client that waits for the CPU); how many a client logs
# depends on milliseconds. Three retriable errors are excluded: a proxy that loses or corrupts bytes causes them.
_HARM = {"CORRUPT_MESSAGE", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT"}
_ANSWERS = {error.name for error in all_errors().values() if error.retriable} - _HARM
_ANSWERS |= {"FENCED_MEMBER_EPOCH", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"}
_ANSWERS |= {"OUT_OF_ORDER_SEQUENCE", "UNKNOWN_TOPIC_OR_PART"}  # as clients shorten them
_CHANCE = re.compile(
    "brokerhandledestroyed|coordinatordead(?!.*connection)|coordinatorload|metadataupdate.*notfoundincache"
    "|nopartitionmetadata|notfoundinclustermetadata|notleader|notstartedornotvalid|ranfor.*blockingtheeventloop|rebalanc"
    f"|{'|'.join(sorted(answer.lower().replace('_', '') for answer in _ANSWERS))}"
)
_CONNECTION = re.compile("connect|eofoccurred|network|socket|notready|coordinatordead|coordinatorrequest|timedout")


class Program:
    """A client's process; it is killed at the end of the `with` block."""

    def __init__(self, client: str, machine: Machine, access: Access, name: str, directory: Path) -> None:
        self.client = client
        self.name = name
        self.log = directory / f"{name}.log"
        self.ledger: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Digests of messages by "sent TOPIC", "aborted TOPIC", "read READER TOPIC"."""
        self._words: queue.Queue[str | None] = queue.Queue()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*machine.enter, *_command(client, access, name, directory)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, _, rest = line.strip().rpartition(" ")
            if what:
                self.ledger[what][rest] += 1
            else:
                self._words.put(rest)
        self._words.put(None)

    def expect(self, word: str) -> None:
        """Wait until the program prints `word`; raises AssertionError if it prints another word, or ends."""
        try:
            said = self._words.get(timeout=STAGE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"{self.name} is not {word!r} after {STAGE_SECONDS:.0f} s: {self.text}") from None
        assert said == word, f"{self.name} says {said!r} in place of {word!r}: {self.text}"

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def await_end(self) -> None:
        assert self.process.wait(STAGE_SECONDS) == 0, self.text
        self._reader.join()

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def has_heard(self, word: str) -> bool:
        """Whether the program has read a word that was sent to it."""
        return f"--- {word}" in self.log.read_text(errors="replace").splitlines()

    def complaints(self) -> dict[str, Counter[str]]:
        """Counts of kinds of logged complaints, by the last word sent to the program ("" before the first).

        A kind is CHANCE, CONNECTION, or the text of any other complaint.
        """
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        stage = ""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("--- "):
                stage = line.removeprefix("--- ")
            elif matched := _COMPLAINT.match(line):
                found[stage][self._kind(matched[0])] += 1
        return found

    def _kind(self, line: str) -> str:
        plain = re.sub("[ _]", "", line.lower())
        if _CHANCE.search(plain):
            return CHANCE
        if _CONNECTION.search(plain):
            return CONNECTION
        return re.sub("[0-9]+", "N", line.replace(self.name, ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()


def _command(client: str, access: Access, name: str, directory: Path) -> list[str]:
    settings = directory / f"{name}.settings"
    if client != "java":
        settings.write_text(json.dumps(asdict(access)))
        return [sys.executable, "-m", f"tests.system.clients.workload.{client}", str(settings), name]
    settings.write_text("".join(f"{key}={value}\n" for key, value in _properties(access).items()))
    classes = oracle_classpath(RELEASE).partition(":")[0]
    logging = {"defaultLogLevel": "warn", "showThreadName": "false"}
    return [
        *("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in logging.items()),
        *("-cp", f"{classes}:{broker_classpath(RELEASE)}", "kproxy.oracle.Workload", str(settings), name),
    ]


def _properties(access: Access) -> dict[str, str]:
    properties = {"bootstrap.servers": access.bootstrap, "security.protocol": access.protocol}
    if access.encrypted:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca}
    if access.certificate:
        both = Path(access.certificate).with_suffix(".both.pem")
        both.write_bytes(Path(access.key).read_bytes() + Path(access.certificate).read_bytes())
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    if access.authenticated:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        properties |= {
            "sasl.mechanism": access.mechanism,
            "sasl.jaas.config": f'{login} username="{access.user}" password="{access.password}";',
        }
    return properties


class Watch:
    """Observes the TCP sockets of machines during the `with` block."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._seen: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.25):
            for machine in self._machines:
                for line in machine.run("ss", "-Htn").splitlines():
                    local, peer = line.split()[3:5]
                    self._seen[machine.name].add((_plain(local), _plain(peer)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def peers(self, machine: Machine, local: Sequence[str] | None = None) -> set[str]:
        """Hosts that a machine's sockets were connected to; with `local` only those of sockets with these addresses."""
        return {
            peer.rpartition(":")[0]
            for own, peer in self._seen[machine.name].copy()
            if local is None or own in local
        }  # fmt: skip


def _plain(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host.strip('[]').removeprefix('::ffff:')}:{port}"
