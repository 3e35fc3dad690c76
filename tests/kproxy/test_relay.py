"""The relay's process between raw sockets: bytes, ends, back-pressure, addresses, what it records."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange, Health
from kproxy.runs.launcher import RelayProcess, StartError, wait_until
from kproxy.runs.registry import ask
from kproxy.runs.settings import ControlSettings, Settings, upstream
from tests.kproxy.core.frames import decoded, naming, request, response
from tests.kproxy.support import FakeBroker, connect, exactly, relay, reset, to_the_end
from tests.support.patience import SECONDS

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]


def exchanges(recording: Path) -> tuple[list[Exchange], Health, list[bytes]]:
    """What a recording holds, and the frames of the responses; fails where it cannot be read to its last byte."""
    reader = read(recording)
    try:
        items = list(reader)
        found = [item for item in items if isinstance(item, Exchange)]
        frames = [b"" if one.response is None else bytes(one.response.data(reader.source)) for one in found]
    finally:
        reader.close()
    assert isinstance(items[-1], Health)
    return found, items[-1], frames


def test_bytes_pass_both_ways_and_are_recorded(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    asked = b"".join(request(12, 0, number) for number in range(3))
    answered = b"".join(response(12, 0, number, {}) for number in range(3))
    with relay(broker.address, record_to=recording) as process:
        with connect(process.bootstrap) as client:
            client.sendall(asked)
            with broker.accept() as upstream_side:
                assert exactly(upstream_side, len(asked)) == asked
                for byte in answered:
                    upstream_side.sendall(bytes([byte]))
                assert exactly(client, len(answered)) == answered
            address = client.getsockname()
        process.stop()
    found, health, _ = exchanges(recording)
    assert [exchange.correlation_id for exchange in found] == [0, 1, 2]
    assert {exchange.status for exchange in found} == {"ok"}
    assert found[0].connection.client == f"127.0.0.1:{address[1]}"
    assert found[0].connection.broker == broker.address
    assert (health.gaps, health.recorder_dropped) == (0, 0)
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600


def test_addresses_are_replaced_and_the_recording_has_the_brokers_side(
    broker: FakeBroker, second: FakeBroker, tmp_path: Path
) -> None:
    recording = tmp_path / "r.pcapng"
    nodes = [(5, "127.0.0.1", broker.port), (6, "127.0.0.1", second.port)]
    answer = naming(3, 9, 1, nodes)
    heartbeat = response(12, 0, 2, {})
    with relay(broker.address, record_to=recording) as process:
        with connect(process.bootstrap) as client:
            client.sendall(request(3, 9, 1) + request(12, 0, 2))
            with broker.accept() as side:
                exactly(side, len(request(3, 9, 1) + request(12, 0, 2)))
                side.sendall(answer + heartbeat)
                size = int.from_bytes(head := exactly(client, 4), "big")
                body = decoded(head + exactly(client, size), 3, 9)
                assert exactly(client, len(heartbeat)) == heartbeat
        ports = {entry["nodeId"]: entry["port"] for entry in body["brokers"]}
        listen = int(process.bootstrap.rpartition(":")[2])
        assert ports == {5: listen + 6, 6: listen + 7}
        with connect(f"127.0.0.1:{ports[6]}") as direct, second.accept() as side:
            direct.sendall(b"\0\0\0\x08")
            assert exactly(side, 4) == b"\0\0\0\x08"
        status = process.command("status")
        assert status["brokers"]["6"] == {"upstream": second.address, "port": ports[6]}
        assert status["responses"]["rewritten"] == 1
        process.stop()
    found, _, frames = exchanges(recording)
    metadata = next(exchange for exchange in found if exchange.api_key == 3)
    assert metadata.response is not None
    assert frames[found.index(metadata)] == answer
    (comment,) = metadata.response.comments
    assert f"brokers[0].port: {broker.port} -> {ports[5]}" in comment
    heartbeats = next(exchange for exchange in found if exchange.api_key == 12)
    assert heartbeats.response is not None
    assert len(heartbeats.response.comments) == 0


def fetch(size: int) -> bytes:
    """A Fetch v16 response of about `size` bytes with records and endpoints."""
    topic = {"topicId": bytes(16), "partitions": [{"partitionIndex": 0, "records": bytes(size)}]}
    nodes = [{"nodeId": 9, "host": "kafka-nine.example", "port": 9092}]
    return response(1, 16, 1, {"responses": [topic], "nodeEndpoints": nodes})


@pytest.mark.parametrize("hold_max", [1 << 20, 16 << 20], ids=["walked", "held"])
def test_endpoints_behind_eight_mebibytes_are_replaced(broker: FakeBroker, tmp_path: Path, hold_max: int) -> None:
    answer = fetch(8 << 20)
    recording = tmp_path / "r.pcapng"
    with relay(broker.address, hold_max=hold_max, record_to=recording) as process:
        with connect(process.bootstrap) as client:
            client.sendall(request(1, 16, 1))
            with broker.accept() as side:
                exactly(side, len(request(1, 16, 1)))
                sender = threading.Thread(target=side.sendall, args=(answer,))
                sender.start()
                got = exactly(client, 4)
                got += exactly(client, int.from_bytes(got, "big"))
                sender.join(SECONDS)
        counters = process.command("status")["responses"]
        process.stop()
    assert counters["walked" if hold_max == 1 << 20 else "held"] == 1
    assert counters["rewritten"] == 1
    after, before = decoded(got, 1, 16), decoded(answer, 1, 16)
    assert after["nodeEndpoints"][0]["host"] == "127.0.0.1"
    assert after["nodeEndpoints"][0]["port"] != 9092
    assert (len(got) == len(answer)) == (hold_max == 1 << 20)
    assert bytes(after["responses"][0]["partitions"][0]["records"]) == bytes(
        before["responses"][0]["partitions"][0]["records"]
    )
    (exchange,), health, frames = exchanges(recording)
    assert exchange.response is not None
    assert frames == [answer]
    assert len(exchange.response.comments) == 1
    assert health.gaps == 0


@pytest.mark.parametrize("who", ["client", "broker"])
def test_half_close_reaches_the_other_side_and_the_rest_still_passes(broker: FakeBroker, who: str) -> None:
    with (
        relay(broker.address) as process,
        connect(process.bootstrap) as client,
        broker.accept() as side,
    ):
        first, second = (client, side) if who == "client" else (side, client)
        first.sendall(b"\0\0\0\x08\0\x0c\0\0\0\0\0\x01")
        first.shutdown(socket.SHUT_WR)
        assert to_the_end(second) == b"\0\0\0\x08\0\x0c\0\0\0\0\0\x01"
        second.sendall(b"\0\0\0\x08\0\x0c\0\0\0\0\0\x02")
        second.shutdown(socket.SHUT_WR)
        assert to_the_end(first) == b"\0\0\0\x08\0\x0c\0\0\0\0\0\x02"


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_reset_is_a_reset_on_the_other_side(broker: FakeBroker, who: str) -> None:
    with relay(broker.address) as process:
        client, side = connect(process.bootstrap), broker.accept()
        first, second = (client, side) if who == "client" else (side, client)
        first.sendall(b"\0\0\0\x08")
        assert exactly(second, 4) == b"\0\0\0\x08"
        reset(first)
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        second.close()
        assert wait_until(lambda: process.command("status")["connections"] == 0, SECONDS)


def test_a_client_that_ends_before_the_broker_answers_the_dial(broker: FakeBroker) -> None:
    with relay(broker.address) as process:
        client = connect(process.bootstrap)
        client.sendall(b"\0\0\0\x08")
        client.shutdown(socket.SHUT_WR)
        side = broker.accept()
        assert to_the_end(side) == b"\0\0\0\x08"
        side.close()
        assert to_the_end(client) == b""
        client.close()


def test_a_slow_reader_slows_the_sender(broker: FakeBroker) -> None:
    with relay(broker.address, record=False) as process, connect(process.bootstrap) as client, broker.accept() as side:
        block = bytes(1 << 20)
        side.settimeout(1.0)
        with pytest.raises(TimeoutError):
            side.sendall(block * 200)
        assert process.command("status")["bytes_from_brokers"] < 64 << 20
        assert client.recv(1) == b"\0"


def test_a_refused_upstream_closes_the_client_and_is_named(broker: FakeBroker) -> None:
    broker.close()
    with relay(broker.address, probe=True) as process, connect(process.bootstrap) as client:
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        messages = process.command("status")["messages"]
        assert f"upstream {broker.address} refused the connection" in messages


def test_the_next_bootstrap_server_is_tried(broker: FakeBroker) -> None:
    gone = FakeBroker()
    gone.close()
    with (
        relay(f"{gone.address},{broker.address}") as process,
        connect(process.bootstrap) as client,
        broker.accept() as side,
    ):
        client.sendall(b"\0\0\0\x08")
        assert exactly(side, 4) == b"\0\0\0\x08"


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"<!DOCTYPE HTML>", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
    ],
)
def test_another_protocol_upstream_is_named(broker: FakeBroker, answer: bytes, named: str) -> None:
    with relay(broker.address) as process:
        with connect(process.bootstrap) as client:
            client.sendall(request(18, 0, 1))
            with broker.accept() as side:
                exactly(side, len(request(18, 0, 1)))
                side.sendall(answer)
            assert to_the_end(client) == answer
        messages = process.command("status")["messages"]
        assert [message for message in messages if broker.address in message and named in message]


def test_a_listen_port_in_use_is_one_clear_line(broker: FakeBroker) -> None:
    settings = Settings(upstream=(("127.0.0.1", 1),), listen_port=broker.port)
    with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{broker.port}: ") as raised:
        RelayProcess(settings)
    assert raised.value.exit_code == 4


def test_a_port_that_another_run_has_names_its_process(broker: FakeBroker) -> None:
    with relay(broker.address) as process:
        port = int(process.bootstrap.rpartition(":")[2])
        words = rf"in use by kproxy's relay {process.pid} \(kproxy stop {process.pid} ends it\)"
        with pytest.raises(StartError, match=words):
            RelayProcess(Settings(upstream=(("127.0.0.1", 1),), listen_port=port))


def test_nothing_that_the_relay_says_is_missed() -> None:
    with relay("127.0.0.1:1", probe=True) as process:
        early: list[str] = []
        process.on_event(lambda event: early.append(event["event"]))
        assert wait_until(lambda: "warning" in early, SECONDS)
        late: list[str] = []
        process.on_event(lambda event: late.append(event["event"]))
        assert late == early


def test_scratch_is_private_and_goes_with_the_run(broker: FakeBroker) -> None:
    with relay(broker.address) as process:
        assert process.recording is not None
        directories = [process.run_dir, process.recording, process.index_dir]
        for directory in directories:
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((process.run_dir / "control.sock").stat().st_mode) == 0o600
        files = [*process.recording.iterdir(), *process.run_dir.iterdir()]
        names = {file.name for file in files}
        assert {"run.json", "ring.json"} < names
        assert any(name.startswith("seg-00000001-") for name in names)
        for file in files:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert not any(directory.exists() for directory in directories)


LAUNCHER = """
import signal, sys
from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Settings, upstream
settings = Settings(
    upstream=upstream(sys.argv[1]), listen_port=0, probe=False, scratch=1 << 20, attached=sys.argv[2] == "attached"
)
relay = RelayProcess(settings)
print(relay.bootstrap, relay.pid, relay.run_dir, relay.recording, relay.index_dir, flush=True)
signal.pause()
"""


def launcher_of(broker: FakeBroker, attached: str) -> tuple[subprocess.Popen[str], list[str]]:
    """A process that starts a relay and waits, and what it says: address, process, directories."""
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, broker.address, attached], stdout=-1, text=True)
    assert launcher.stdout is not None
    return launcher, launcher.stdout.readline().split()


def test_an_attached_relay_ends_with_its_launcher(broker: FakeBroker) -> None:
    launcher, (bootstrap, _, *directories) = launcher_of(broker, "attached")
    with launcher:
        launcher.kill()
    assert wait_until(lambda: not any(Path(directory).exists() for directory in directories), SECONDS)
    assert _refuses(bootstrap)


def test_the_relay_outlives_its_launcher(broker: FakeBroker) -> None:
    launcher, (bootstrap, pid, run_dir, recording, _) = launcher_of(broker, "")
    assert launcher.stdout is not None
    with connect(bootstrap) as client, broker.accept() as side:
        launcher.send_signal(signal.SIGKILL)
        launcher.wait(SECONDS)
        launcher.stdout.close()
        client.sendall(b"\0\0\0\x08")
        assert exactly(side, 4) == b"\0\0\0\x08"
        with connect(bootstrap) as another, broker.accept() as other:
            another.sendall(b"\0\0\0\x09")
            assert exactly(other, 4) == b"\0\0\0\x09"
        assert ask(Path(run_dir), "status")["connections_total"] == 2
    os.kill(int(pid), signal.SIGTERM)
    assert wait_until(lambda: not Path(run_dir).exists() and not Path(recording).exists(), SECONDS)


def test_a_stop_drains(broker: FakeBroker) -> None:
    with relay(broker.address) as process, connect(process.bootstrap) as client, broker.accept() as side:
        client.sendall(request(12, 0, 1))
        exactly(side, len(request(12, 0, 1)))
        assert process.command("stop") == {"stopping": True}
        assert wait_until(lambda: _refuses(process.bootstrap), SECONDS)
        side.sendall(response(12, 0, 1, {}))
        assert to_the_end(client) == response(12, 0, 1, {})
        assert wait_until(lambda: not process.alive, SECONDS)


def _refuses(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionError:
        return True
    return False


def test_unknown_commands_are_answered(broker: FakeBroker) -> None:
    with relay(broker.address) as process:
        assert "error" in process.command("dance")


def test_the_relay_imports_no_heavy_package() -> None:
    script = "import sys, kproxy.relay.process, uvloop; print(list(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for name in ("textual", "scapy", "numpy", "kproxy.tui", "rich"):
        assert f"'{name}'" not in loaded


def test_settings_travel_as_json() -> None:
    settings = Settings(upstream=upstream("a,b:1,[::1]:2"), advertise="x", record_to="/r")
    assert Settings.from_json(settings.to_json()) == settings
    settings = replace(settings, control=ControlSettings("localhost", 0, "a-token"))
    assert "a-token" not in repr(settings)
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.upstream == (("a", 9092), ("b", 1), ("::1", 2))
