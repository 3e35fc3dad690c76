"""Several clusters in one process, brokers that change their address, and a relay that starts again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.problems import Code
from kproxy.runs.launcher import RelayProcess, StartError, wait_until
from kproxy.runs.settings import Cluster, Settings, upstream
from tests.kproxy.core.frames import decoded, framed, naming, request
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.support.brokers import free_base, free_ports
from tests.support.patience import SECONDS

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]


def metadata(bootstrap: str, broker: FakeBroker, nodes: list[tuple[int, str, int]]) -> dict[int, int]:
    """Let a client hear of these nodes; returns the ports that it is told."""
    with connect(bootstrap) as client:
        client.sendall(request(3, 9, 1))
        with broker.accept() as side:
            exactly(side, len(request(3, 9, 1)))
            side.sendall(naming(3, 9, 1, nodes))
            head = exactly(client, 4)
            body = decoded(head + exactly(client, int.from_bytes(head, "big")), 3, 9)
    return {one["nodeId"]: one["port"] for one in body["brokers"]}


def two(broker: FakeBroker, second: FakeBroker, record_to: Path | None = None) -> Settings:
    return Settings(
        upstream=upstream(broker.address),
        listen_port=free_ports(1)[0],
        probe=False,
        scratch=16 << 20,
        record_to=None if record_to is None else str(record_to),
        name="east",
        more=(Cluster("west", upstream(second.address), "127.0.0.1", free_ports(1)[0]),),
    )


def test_two_clusters_have_books_of_their_own_and_one_recording(
    broker: FakeBroker, second: FakeBroker, tmp_path: Path
) -> None:
    recording = tmp_path / "r.pcapng"
    with RelayProcess(two(broker, second, recording)) as process:
        assert process.bootstrap == process.clusters["east"]
        told: dict[str, int] = {}
        for name, fake in (("east", broker), ("west", second)):
            ports = metadata(process.clusters[name], fake, [(1, "127.0.0.1", fake.port)])
            assert ports == {1: int(process.clusters[name].rpartition(":")[2]) + 2}
            told[name] = ports[1]
        for name, fake in (("east", broker), ("west", second)):
            with connect(f"127.0.0.1:{told[name]}") as client, fake.accept() as side:
                client.sendall(b"\0\0\0\x08")
                assert exactly(side, 4) == b"\0\0\0\x08"
        status = process.command("status")
        assert status["connections_total"] == 4
        assert status["responses"]["rewritten"] == 2
        assert status["brokers"] == {
            "east/1": {"upstream": broker.address, "port": told["east"]},
            "west/1": {"upstream": second.address, "port": told["west"]},
        }
        assert status["clusters"]["west"]["connections_total"] == 2
        state = json.loads((process.run_dir / "run.json").read_text())
        assert state["clusters"] == process.clusters
        process.stop()
    reader = read(recording)
    found = {item.connection.broker for item in reader if isinstance(item, Exchange)}
    reader.close()
    assert found == {broker.address, second.address}
    held = recording.read_bytes()
    for name in ("east", "west"):
        assert f"the bootstrap listener of cluster {name}".encode() in held
        assert f"the listener of broker 1 of cluster {name}".encode() in held


def test_state_is_saved_once_for_all_that_an_answer_brings(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every save is counted, in the relay's own process."""
    counted = tmp_path / "counted"
    counted.mkdir()
    (counted / "sitecustomize.py").write_text(
        "import pathlib\nreplace = pathlib.Path.replace\n"
        "def counting(path, to):\n"
        f"    open({str(counted / 'saves')!r}, 'a').write('x')\n"
        "    return replace(path, to)\n"
        "pathlib.Path.replace = counting\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(counted))
    with RelayProcess(Settings(upstream(broker.address), listen_port=0, probe=False, scratch=16 << 20)) as process:
        nodes = [(number, "127.0.0.1", broker.port) for number in range(100)]
        assert len(metadata(process.bootstrap, broker, nodes)) == 100
        state = process.run_dir / "run.json"
        assert wait_until(lambda: len(json.loads(state.read_text())["brokers"]) == 100, SECONDS)
        assert len((counted / "saves").read_text()) <= 4


def test_a_cluster_that_cannot_listen_is_named(broker: FakeBroker, second: FakeBroker) -> None:
    settings = two(broker, second)
    more = dataclasses.replace(settings.more[0], listen_port=broker.port)
    with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{broker.port}: "):
        RelayProcess(dataclasses.replace(settings, more=(more,)))


def test_settings_of_several_travel_as_json(broker: FakeBroker, second: FakeBroker) -> None:
    settings = two(broker, second)
    assert Settings.from_json(settings.to_json()) == settings
    assert [one.name for one in settings.clusters()] == ["east", "west"]


def test_a_broker_that_changes_its_address_is_dialled_at_the_new_one(broker: FakeBroker, second: FakeBroker) -> None:
    with RelayProcess(Settings(upstream(broker.address), listen_port=0, probe=False, scratch=16 << 20)) as process:
        (port,) = metadata(process.bootstrap, broker, [(7, "127.0.0.1", broker.port)]).values()
        with connect(f"127.0.0.1:{port}") as old, broker.accept() as before:
            old.sendall(b"\0\0\0\x08")
            assert exactly(before, 4) == b"\0\0\0\x08"
            assert metadata(process.bootstrap, broker, [(7, "127.0.0.1", second.port)]) == {7: port}
            with connect(f"127.0.0.1:{port}") as new, second.accept() as after:
                new.sendall(b"\0\0\0\x09")
                assert exactly(after, 4) == b"\0\0\0\x09"
            # What stood before still stands.
            old.sendall(b"\x01")
            assert exactly(before, 1) == b"\x01"


def test_a_broker_that_left_refuses_and_keeps_its_port(broker: FakeBroker) -> None:
    gone = FakeBroker()
    with RelayProcess(Settings(upstream(broker.address), listen_port=0, probe=False, scratch=16 << 20)) as process:
        ports = metadata(process.bootstrap, broker, [(1, "127.0.0.1", broker.port), (2, "127.0.0.1", gone.port)])
        gone.close()
        assert metadata(process.bootstrap, broker, [(1, "127.0.0.1", broker.port)]) == {1: ports[1]}
        with pytest.raises(ConnectionResetError), connect(f"127.0.0.1:{ports[2]}") as client:  # which may reset at once
            client.recv(1)
        assert f"upstream {gone.address} refused the connection" in process.command("status")["messages"]
        back = metadata(process.bootstrap, broker, [(2, "127.0.0.1", broker.port)])
        assert back == {2: ports[2]}


def test_ports_are_the_same_after_a_restart_whatever_comes_first(broker: FakeBroker) -> None:
    (port,), base = free_ports(1), free_base(4)
    settings = Settings(upstream(broker.address), listen_port=port, port_base=base, probe=False, scratch=16 << 20)
    nodes = [(number, "127.0.0.1", broker.port) for number in (3, 1, 2)]
    found = []
    for order in (nodes, nodes[::-1]):
        with RelayProcess(settings) as process:
            found.append(metadata(process.bootstrap, broker, order))
    assert found == [{number: base + number for number in (1, 2, 3)}] * 2


def test_an_address_that_passes_is_a_problem_of_the_exchange(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    settings = Settings(
        upstream(broker.address), listen_port=0, probe=False, scratch=16 << 20, record_to=str(recording)
    )
    with RelayProcess(settings) as process:
        answer = framed(b"\0\0\0\x01" + b"\0\x09127.0.0.1" + broker.port.to_bytes(4, "big"))
        with connect(process.bootstrap) as client:
            client.sendall(request(3, 99, 1))
            with broker.accept() as side:
                exactly(side, len(request(3, 99, 1)))
                side.sendall(answer)
                assert exactly(client, len(answer)) == answer
        status = process.command("status")
        assert status["responses"]["leaked"] == 1
        assert any(f"a broker's own address {broker.address} to a client" in one for one in status["messages"])
        process.stop()
    reader = read(recording)
    (found,) = [item for item in reader if isinstance(item, Exchange)]
    reader.close()
    (problem,) = [one for one in found.problems if one.code is Code.ADDRESS_LEAKED]
    assert (problem.where, problem.message.rpartition(" ")[2]) == ("response", broker.address)
