"""Real Kafka brokers on loopback, for system tests.

Apache Kafka 4.4.0 and 3.9.2 (KRaft, every node broker and controller), 2.8.2, 1.1.1 and 0.8.2.2 (with ZooKeeper), from
the jars that tests/oracle/brokers names.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import java
from tests.support.certificates import TestCa
from tests.support.raw import RawClient

HEAP = ["-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# Old releases of Kafka and ZooKeeper use internal classes of Java by reflection.
OPENS = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
READY_SECONDS = 120.0
UNHURRIED = ("--limit", "latency.broker_slow.slow_ms=2000")
"""Options of `kproxy findings` for healthy brokers, which may need a second for a request on a busy machine."""
LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c)%n
"""


class BrokerError(Exception):
    """A broker does not start; the message ends with the tail of its log."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` free ports of `host`.

    They are below the range of ephemeral ports, so that no outgoing connection takes one meanwhile.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(range(20000, 32000), 2000):
            listener = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind((host, port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise BrokerError("no free ports")


def free_base(count: int) -> int:
    """The first of `count` consecutive free ports of loopback, outside of the range of `free_ports`."""
    for base in random.sample(range(12000, 20000 - count), 200):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(base, base + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return base
    raise BrokerError("no free ports")


class Process:
    """A Java program in its own process group; it is killed when this process ends, if not before."""

    def __init__(self, name: str, classpath: str, arguments: list[str], directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        # Kills the program even if this process is killed and cannot clean up.
        tie = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*tie, "java", *HEAP, *OPENS, "-cp", classpath, *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise BrokerError if the program has ended."""
        if self._process.poll() is not None:
            raise BrokerError(f"{self.name} ended with {self._process.returncode}: {self.tail()}")

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Kill the process group; does nothing if it has ended."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        atexit.unregister(self.kill)


class Cluster:
    """Brokers that run until `stop` is called, at the latest at the end of the `with` block or of this process.

    `bootstrap` ("host:port,…") and `ports` are those of the brokers' first listener, in order of node ids (from 1).
    """

    def __init__(
        self,
        release: str,
        nodes: int,
        directory: Path,
        settings: Callable[[int], dict[str, object]] | None = None,
        *,
        protocols: Sequence[str] = ("PLAINTEXT",),
        host: str = "127.0.0.1",
    ) -> None:
        """`settings(node)` adds settings of one node; clients reach the brokers at `host`.

        KRaft brokers have one listener for each security protocol, and use the first between brokers. An SSL listener
        requires client certificates, which `ca` issues, as it does those of the brokers.
        """
        self.release = release
        self.host = host
        self.ca = TestCa(directory, "brokers-ca") if any("SSL" in protocol for protocol in protocols) else None
        self.nodes = nodes
        self.directory = directory
        self.listeners: dict[str, list[int]] = {protocol: [] for protocol in protocols}
        self.controllers: list[int] = []
        self.processes: list[Process] = []
        self._more = settings or (lambda _: {})

    @property
    def ports(self) -> list[int]:
        return next(iter(self.listeners.values()))

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses(next(iter(self.listeners))))

    def addresses(self, protocol: str) -> list[str]:
        """Addresses ("host:port") of the nodes' listeners of a security protocol."""
        return [f"{self.host}:{port}" for port in self.listeners[protocol]]

    @property
    def logs(self) -> list[Path]:
        return [process.log for process in self.processes]

    def stop(self) -> None:
        for process in self.processes:
            process.kill()

    def __enter__(self) -> Self:
        try:
            if self.release.startswith(("0.", "1.", "2.")):
                self._start_with_zookeeper()
            else:
                self._start_kraft()
            self._await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, name: str, *arguments: str) -> Process:
        process = Process(name, java.broker_classpath(self.release), list(arguments), self.directory)
        self.processes.append(process)
        return process

    def _settings(self) -> dict[str, object]:
        copies = min(3, self.nodes)
        return {
            "num.network.threads": 2,
            "num.io.threads": 4,
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.check.interval.ms": 3_600_000,
            # Tests write records with old timestamps.
            "log.retention.hours": 876_000,
        }

    def _write(self, name: str, settings: dict[str, object]) -> Path:
        path = self.directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _start_kraft(self) -> None:
        ids = range(1, self.nodes + 1)
        ports = free_ports((len(self.listeners) + 1) * self.nodes, self.host)
        for listener in (*self.listeners.values(), self.controllers):
            listener.extend(ports.pop() for _ in ids)
        configs = [self._kraft_config(node) for node in ids]
        self._format(configs)
        for node, config in zip(ids, configs, strict=True):
            self._start(f"kafka-{node}", "kafka.Kafka", str(config))

    def _kraft_config(self, node: int) -> Path:
        """Write the configuration of a broker; one with a controller port is a controller as well."""
        voters = list(enumerate(self.controllers, start=1))
        own = dict(voters).get(node)
        protocols = list(self.listeners)
        clients = ",".join(f"{protocol}://{self.addresses(protocol)[node - 1]}" for protocol in protocols)
        return self._write(
            f"server-{node}.properties",
            {
                **self._settings(),
                "process.roles": "broker" if own is None else "broker,controller",
                "node.id": node,
                "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{other}" for one, other in voters),
                "listeners": clients if own is None else f"{clients},CONTROLLER://127.0.0.1:{own}",
                "advertised.listeners": clients,
                "controller.listener.names": "CONTROLLER",
                "inter.broker.listener.name": protocols[0],
                "listener.security.protocol.map": ",".join(
                    ("CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in protocols))
                ),
                **self._tls_settings(node),
                "share.coordinator.state.topic.num.partitions": 3,
                "share.coordinator.state.topic.replication.factor": min(3, self.nodes),
                "share.coordinator.state.topic.min.isr": 1,
                "log.dirs": self.directory / f"data-{node}",
                **self._more(node),
            },
        )

    def stop_node(self, node: int) -> None:
        """Kill one broker."""
        self.processes.pop(self._place(node)).kill()

    def start_node(self, node: int, port: int | None = None) -> None:
        """Restart a stopped KRaft broker, at another port if given."""
        if port is not None:
            self.ports[node - 1] = port
        self._start(f"kafka-{node}", "kafka.Kafka", str(self._kraft_config(node)))

    def pause_node(self, node: int) -> None:
        """Make one broker stand still, as a long garbage collection does."""
        os.killpg(self.processes[self._place(node)].pid, signal.SIGSTOP)

    def resume_node(self, node: int) -> None:
        os.killpg(self.processes[self._place(node)].pid, signal.SIGCONT)

    def join(self) -> int:
        """Start another KRaft broker that is no controller; returns its id."""
        node = len(self.ports) + 1
        for ports in self.listeners.values():
            ports.extend(free_ports(1, self.host))
        data = self.directory / f"data-{node}"
        data.mkdir()
        self._identify(self.directory / "data-1" / "meta.properties", data / "meta.properties", node)
        self.start_node(node)
        return node

    def _place(self, node: int) -> int:
        return next(at for at, process in enumerate(self.processes) if process.name == f"kafka-{node}")

    def _tls_settings(self, node: int) -> dict[str, object]:
        if self.ca is None:
            return {}
        certificate, key = self.ca.leaf(f"broker-{node}", "localhost", self.host)
        both = self.directory / f"broker-{node}-both.pem"
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": both,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca.path,
            "ssl.client.auth": "required",
        }

    def _admin_settings(self) -> dict[str, str]:
        """Settings with which librdkafka connects to the brokers."""
        if self.ca is None or next(iter(self.listeners)) != "SSL":
            return {}
        certificate, key = self.ca.leaf("admin")
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca.path),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }

    def _format(self, configs: list[Path]) -> None:
        """Format the first node's storage with Kafka's tool, then copy it to the others with their own ids."""
        cluster = _kafka_uuid()
        arguments = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(configs[0])]
        run = subprocess.run(
            ["java", *HEAP, "-cp", java.broker_classpath(self.release), *arguments],
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )
        if run.returncode != 0:
            raise BrokerError(f"formatting the storage: {run.stdout[-1500:]}{run.stderr[-1500:]}")
        first = self.directory / "data-1"
        for node in range(2, self.nodes + 1):
            copy = shutil.copytree(first, self.directory / f"data-{node}")
            self._identify(copy / "meta.properties", copy / "meta.properties", node)

    @staticmethod
    def _identify(source: Path, target: Path, node: int) -> None:
        """Copy meta.properties from one node to another, with the ids replaced."""
        changed = {"node.id": str(node), "directory.id": _kafka_uuid()}
        lines = []
        for line in source.read_text().splitlines():
            key, equals, value = line.partition("=")
            lines.append(f"{key}{equals}{changed.get(key, value)}\n")
        target.write_text("".join(lines))

    def _start_with_zookeeper(self) -> None:
        keeper_port, *ports = free_ports(1 + self.nodes)
        self.ports.extend(ports)
        (self.directory / "log4j.properties").write_text(LOG4J)
        log4j = f"-Dlog4j.configuration=file:{self.directory}/log4j.properties"
        keeper = self._write(
            "zookeeper.properties",
            {
                "dataDir": self.directory / "zookeeper",
                "clientPort": keeper_port,
                "clientPortAddress": "127.0.0.1",
                "maxClientCnxns": 0,
            },
        )
        self._start("zookeeper", log4j, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(keeper))
        for node, port in enumerate(self.ports, start=1):
            config = self._write(
                f"server-{node}.properties",
                {
                    **self._settings(),
                    "broker.id": node,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    # 0.8 has these in place of `listeners`.
                    "host.name": "127.0.0.1",
                    "port": port,
                    "zookeeper.connect": f"127.0.0.1:{keeper_port}",
                    "log.dirs": self.directory / f"data-{node}",
                    **self._more(node),
                },
            )
            self._start(f"kafka-{node}", log4j, "kafka.Kafka", str(config))

    def _await_ready(self) -> None:
        """Ask for metadata until it lists every broker, and a controller if the release names one."""
        if self.release.startswith(("0.8", "0.9")):
            self._await_listed()
            return
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        settings.update(self._admin_settings())
        admin = AdminClient(settings)
        deadline = time.monotonic() + READY_SECONDS
        state = "no answer"
        while time.monotonic() < deadline:
            for process in self.processes:
                process.check()
            try:
                metadata = admin.list_topics(timeout=1)
            except KafkaException as problem:
                state = str(problem)
                continue
            if len(metadata.brokers) == self.nodes and metadata.controller_id in metadata.brokers:
                return
            state = f"brokers {sorted(metadata.brokers)}, controller {metadata.controller_id}"
            admin.poll(0.2)
        raise self._not_ready(state)

    def _await_listed(self) -> None:
        """`_await_ready` for 0.8, which librdkafka cannot talk to, and 0.9; their metadata names no controller.

        Its brokers learn of each other with the first topic, which the request creates.
        """
        deadline = time.monotonic() + READY_SECONDS
        state = "no answer"
        while time.monotonic() < deadline:
            for process in self.processes:
                process.check()
            try:
                with RawClient(self.bootstrap.partition(",")[0], timeout=2.0) as client:
                    brokers = client.ask("Metadata", 0, {"topics": [{"name": "first"}]})["brokers"]
            except OSError as problem:
                state = str(problem)
            else:
                if len(brokers) == self.nodes:
                    return
                state = f"brokers {brokers}"
            time.sleep(0.2)
        raise self._not_ready(state)

    def _not_ready(self, state: str) -> BrokerError:
        tails = "\n".join(f"{process.name}: {process.tail()}" for process in self.processes)
        return BrokerError(f"not ready after {READY_SECONDS:.0f} s: {state}\n{tails}")


def _kafka_uuid() -> str:
    """A UUID in Kafka's form, without a leading "-", which Kafka's tools would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


@contextlib.contextmanager
def cluster(
    release: str,
    nodes: int,
    settings: Callable[[int], dict[str, object]] | None = None,
    *,
    protocols: Sequence[str] = ("PLAINTEXT",),
    host: str = "127.0.0.1",
) -> Iterator[Cluster]:
    """A running cluster in a temporary directory, which is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="kproxy-brokers-", ignore_cleanup_errors=True) as directory,
        Cluster(release, nodes, Path(directory), settings, protocols=protocols, host=host) as running,
    ):
        yield running
