"""How many connections the relay takes, and what is said of those that it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable

import pytest

from kproxy.relay import first_requests, limits, server, warnings
from kproxy.runs.launcher import RelayProcess, wait_until
from kproxy.runs.settings import Settings, upstream
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.support.patience import SECONDS

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]


def test_a_client_too_many_is_reset_and_the_reason_told(broker: FakeBroker) -> None:
    settings = Settings(upstream=upstream(broker.address), listen_port=0, probe=False, max_connections=2)
    with RelayProcess(settings) as relay:
        kept = [(connect(relay.bootstrap), broker.accept()) for _ in range(2)]
        is_reset(relay.bootstrap)
        status = relay.command("status")
        assert (status["connections"], status["connections_refused"]) == (2, 1)
        assert status["messages"] == ["clients are refused: 2 connections are open (--max-connections 2)"]
        for client, side in kept:
            client.sendall(b"\0\0\0\x08")
            assert exactly(side, 4) == b"\0\0\0\x08"
        for client, side in kept:
            client.close()
            side.close()
        assert wait_until(lambda: relay.command("status")["connections"] == 0, SECONDS)
        with connect(relay.bootstrap) as client, broker.accept() as side:
            client.sendall(b"\0\0\0\x09")
            assert exactly(side, 4) == b"\0\0\0\x09"


def test_file_descriptors_do_not_run_out(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    files = 200
    popen = limited_popen(files)
    monkeypatch.setattr("kproxy.runs.launcher.subprocess.Popen", popen)
    settings = Settings(upstream=upstream(broker.address), listen_port=0, probe=False)
    with RelayProcess(settings) as relay:
        spare = files - limits.RESERVED_FILES - files // 8
        room = (spare - spare // 4) // 2
        with contextlib.ExitStack() as kept:
            for _ in range(room):
                kept.enter_context(connect(relay.bootstrap))
                kept.enter_context(broker.accept())
            for _ in range(20):
                is_reset(relay.bootstrap)
            status = relay.command("status")
        assert status["connections"] == room
        assert status["connections_refused"] == 20
        assert status["messages"] == [
            f"clients are refused: {room} connections are open (the limit of {files} open files)"
        ]


def is_reset(address: str) -> None:
    """The reset may come before connecting has returned."""
    with pytest.raises(ConnectionResetError), connect(address) as client:
        client.recv(1)


def limited_popen(files: int) -> object:
    """subprocess.Popen whose children may open so many files."""
    import subprocess

    popen = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        process = popen(command, **options)  # type: ignore[call-overload]  # passed on as given
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))  # before it has been told its settings
        return process  # type: ignore[no-any-return]  # popen's own type

    return start


def test_file_descriptors_bound_what_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert limits.Room.of(100).reason == "--max-connections 100"
    assert limits.Room.of(None).most == limits.Room.of(5000).most == 416
    assert "1024 open files" in limits.Room.of(5000).reason
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert limits.Room.of(5000).most == 5000


def test_listeners_have_a_share_that_leaves_room_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (700, 700))
    spare = 700 - limits.RESERVED_FILES - 700 // 8
    one, each = limits.Share.of(1000), limits.Share.of(1000, 4)
    assert (one.files, each.files) == (spare // 4, spare // 16)
    assert limits.Share.of(10).files == 10 * limits.MOST_PER_LISTENER
    assert limits.Room.of(None, one.files).most == (spare - one.files) // 2
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    assert (limits.Share.of(1000).files, limits.Room.of(None).most) == (0, 1)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        (b"", True),
        (b"\0\0", True),
        (b"\0\0\0\x40\0\x03\0\x01\0\0\0\x01", True),
        (b"\0\0\0\x08\0\x03\0\x01\0\0\0\x01", False),
        (b"\x16\x03\x01\x02\x00", False),
    ],
)
async def test_a_client_that_sends_no_whole_request_is_ended(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, said: bytes, *, ends: bool
) -> None:
    monkeypatch.setattr(first_requests, "SECONDS", 0.2)
    told: list[dict[str, object]] = []
    relay = server.Relay(Settings(upstream=upstream(broker.address), listen_port=0, probe=False), None, told.append)
    await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(said)
    if ends:
        with pytest.raises(ConnectionResetError):
            await reader.read()
        (warning,) = (event["message"] for event in told if event["event"] == "warning")
        assert warning == "client 127.0.0.1 sent no complete request within 0.2 seconds: kproxy ends its connection"
    else:
        await until(lambda: len(relay.links) == 1 and not relay.first_requests._links)
    broker.close()  # which resets what it has not accepted
    await until(lambda: not relay.links)
    assert not relay.first_requests._links
    writer.close()
    await relay.drain()


async def test_a_client_whose_first_request_grows_has_more_time(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_requests, "SECONDS", 3600)
    relay = server.Relay(Settings(upstream=upstream(broker.address), listen_port=0, probe=False), None, lambda _: None)
    await relay.start()
    _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    grown = 0
    before: set[int | None] = {None}
    for piece in (b"\0\0", b"\0\x40\0\x03\0\x01\0\0\0\x01", b"more"):
        writer.write(piece)
        before.add(grown)
        await until(lambda: any(link.received_of_first not in before for link in relay.links))
        (link,) = relay.links
        relay.first_requests._links[link] = (0, grown)
        relay.first_requests._end_silent()
        assert relay.first_requests._links[link][1] > grown
        grown = relay.first_requests._links[link][1]
    broker.close()  # which resets what it has not accepted
    await until(lambda: not relay.links)
    writer.close()
    await relay.drain()


def test_warnings_of_many_topics_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> list[str]:
        events: list[str] = []
        settings = Settings(upstream=upstream("127.0.0.1:1"), listen_port=0)
        relay = server.Relay(settings, None, lambda event: events.append(event["message"]))
        for number in range(3 * warnings.MOST_TOPICS):
            relay.warnings.warn(str(number), str(number))
        assert len(relay.status()["warnings"]) == warnings.MOST_TOPICS + 1
        monkeypatch.setattr(warnings, "FORGOTTEN_SECONDS", 0.0)
        relay.warnings.warn("another", "another")
        return events

    events = asyncio.run(told())
    assert len(events) == warnings.MOST_TOPICS + 2
    assert events[-2:] == ["more than 1000 different warnings: further ones are not shown for now", "another"]


def test_room_is_given_back() -> None:
    room = limits.Room(1, "a test")
    assert room.take()
    assert not room.take()
    room.give()
    assert room.take()
    assert room.refused == 1


def test_slow_readers_share_the_memory() -> None:
    memory = 256 << 20
    assert limits.high_water(memory, 1) == limits.MOST_HIGH_WATER
    assert limits.high_water(memory, 1000) == memory // 2000
    assert limits.high_water(memory, 100_000) == limits.LEAST_HIGH_WATER
