"""`kproxy run --control` between librdkafka's clients and its mock cluster."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from kproxy.runs.launcher import wait_until
from tests.support.control import TOKEN, Controlled, controlled, environment, kproxy
from tests.support.patience import SECONDS

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.timeout(120)

DENY = "deny: api == Produce and topic == t => error INVALID_RECORD not applied"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    from kproxy.runs.demo import start_cluster

    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, KPROXY_CONTROL_TOKEN=TOKEN)


class Client:
    """A producer whose connections stay open; `send` returns the error of a record, None for success."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self.errors: list[str | None] = []

    def start(self) -> None:
        self.producer.produce(
            "t", "a", partition=0, on_delivery=lambda error, _: self.errors.append(error and error.name())
        )
        self.producer.poll(0)

    def send(self) -> str | None:
        self.start()
        assert self.producer.flush(SECONDS) == 0
        return self.errors[-1]


def relay_of(run: Controlled, env: dict[str, str]) -> dict[str, Any]:
    """What `kproxy ps --json` says of the only run."""
    (line,) = kproxy(env, "ps", "--json").stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["control"] == run.url
    return found


def test_rules_act_on_connections_that_were_open_before(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, token=TOKEN) as run:
        client = Client(run.bootstrap)
        with closing(client.producer):
            assert client.send() is None
            assert run.call("POST", "/rules", DENY)[0] == 201
            assert client.send() == "INVALID_RECORD"
            assert run.call("GET", "/rules/deny")[1]["hits"] == 1
            assert run.call("POST", "/rules/deny/pause")[0] == 200
            assert client.send() is None
            run.call("POST", "/rules/deny/resume")
            assert client.send() == "INVALID_RECORD"
            run.call("POST", "/reset")
            assert run.call("DELETE", "/rules/deny")[1]["hits"] == 0
            assert client.send() is None
        assert TOKEN not in "".join(run.lines), "a token that was given is not printed"


def test_a_held_frame_is_released_over_http(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, token=TOKEN) as run:
        client = Client(run.bootstrap)
        with closing(client.producer):
            run.call("POST", "/rules", "barrier: api == Produce => hold request")
            client.start()
            assert wait_until(lambda: run.call("GET", "/rules/barrier")[1]["held"] == 1, SECONDS)
            assert run.call("POST", "/rules/barrier/release") == (200, {"released": 1})
            assert client.producer.flush(SECONDS) == 0
            assert client.errors == [None]


def test_the_command_line_and_http_manage_the_same_rules(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, "--fault", "given: api == Fetch => swap", token=TOKEN) as run:
        assert kproxy(env, "faults", "add", DENY).stderr == "added: deny\n"
        assert [one["name"] for one in run.call("GET", "/rules")[1]["rules"]] == ["given", "deny"]
        assert run.call("DELETE", "/rules/given")[0] == 200
        run.call("POST", "/rules", '{"match": "api == Fetch", "action": "delay 1s"}', "application/json")
        listed = json.loads(kproxy(env, "faults", "list", "--json").stdout)
        assert listed == run.call("GET", "/rules")[1]["rules"]
        assert [one["name"] for one in listed] == ["deny", "rule-1"]


def test_a_wrong_rule_is_refused_with_the_text_of_the_command_line(cluster: str, env: dict[str, str]) -> None:
    wrong = "api == Fetch => dorp request"
    with controlled(cluster, env, token=TOKEN) as run:
        status, found = run.call("POST", "/rules", wrong)
        assert status == 422
        assert kproxy(env, "faults", "check", wrong).stderr.startswith(f"kproxy: {found['error']}\n")
        assert "^^^^" in found["error"]
        assert run.call("GET", "/rules")[1] == {"rules": []}


def test_what_is_held_in_memory_and_recorded_can_be_asked_for(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, token=TOKEN) as run:
        assert run.call("POST", "/flush")[1]["recorder"]["failed"] is None
        assert run.call("GET", "/status")[1]["messages"] == []
    with controlled(cluster, env, "--no-record", token=TOKEN) as run:
        assert run.call("POST", "/flush")[0] == 409


# --- who can reach it ------------------------------------------------------------------------------------------------


def test_a_new_token_is_printed_once_and_kept_nowhere(cluster: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    with controlled(cluster, env) as run:
        assert run.call("GET", "/rules", token="wrong")[0] == 401
        assert run.call("GET", "/openapi.json", token="wrong")[0] == 401
        assert run.call("GET", "/openapi.json")[0] == 200
        assert len(run.token) > 40
        assert "".join(run.lines).count(run.token) == 1
        pid = relay_of(run, env)["pid"]
        for told in ("cmdline", "environ"):
            assert run.token.encode() not in Path(f"/proc/{pid}/{told}").read_bytes()
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert run.token.encode() not in path.read_bytes(), path
    with controlled(cluster, env) as other:
        assert other.token != run.token


def test_it_listens_on_the_loopback_address_alone(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, token=TOKEN) as run:
        port = int(run.url.rpartition(":")[2])
        relay = psutil.Process(relay_of(run, env)["pid"])
        listening = [one.laddr for one in relay.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        assert [address.ip for address in listening if address.port == port] == ["127.0.0.1"]
        assert "may be reached" not in "".join(run.lines)
    with controlled(cluster, env, token=TOKEN, control="*:0") as run:
        assert "kproxy: warning: --control: * may be reached from other machines, over unencrypted HTTP\n" in run.lines


def test_the_token_s_file_is_made_for_this_user_alone(cluster: str, tmp_path: Path) -> None:
    env, path = environment(tmp_path, KPROXY_CONTROL_TOKEN=TOKEN), tmp_path / "token"
    old = os.umask(0)
    try:
        with controlled(cluster, env, "--control-token-file", str(path), token="unknown") as run:
            run.token = path.read_text().strip()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert run.call("GET", "/rules")[0] == 200
            assert run.call("GET", "/rules", token=TOKEN)[0] == 401, "the file comes before the environment"
            assert run.token not in "".join(run.lines)
    finally:
        os.umask(old)
    with controlled(cluster, env, "--control-token-file", str(path), token=run.token) as again:
        assert again.call("GET", "/rules")[0] == 200


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("a-token-of-sixteen-characters", 0o644, "can be read by everybody: chmod 600"),
        ("short", 0o600, "a token has at least 16 characters"),
        ("", 0o600, "a token has at least 16 characters"),
        ("a token with blanks in it", 0o600, "letters, digits and"),
        ("a-token-in-two-lines\nand-more", 0o600, "letters, digits and"),
        ("a" * 5000, 0o600, "longer than 4096 bytes"),
        ("\udcff" * 20, 0o600, "is not UTF-8"),
        (None, 0o600, "is a directory"),
    ],
)
def test_a_token_that_cannot_be_used_ends_run(tmp_path: Path, content: str | None, mode: int, said: str) -> None:
    path = tmp_path / "token"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content, errors="surrogateescape")
        path.chmod(mode)
    env = environment(tmp_path)
    ended = kproxy(
        env, "run", "--upstream", "localhost:1", "--headless", "--control", "0", "--control-token-file", path
    )
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "bootstrap.servers" not in ended.stderr


def test_options_that_cannot_be_used_end_run(tmp_path: Path) -> None:
    run = ("run", "--upstream", "localhost:1", "--listen", "0", "--headless")
    ended = kproxy(environment(tmp_path, KPROXY_CONTROL_TOKEN="short"), *run, "--control", "0")
    assert (ended.returncode, "KPROXY_CONTROL_TOKEN holds no token" in ended.stderr) == (2, True)
    env = environment(tmp_path)
    assert "needs --control" in kproxy(env, *run, "--control-token-file", tmp_path / "t").stderr
    assert not (tmp_path / "t").exists()
    assert kproxy(env, *run, "--control", "70000").returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = kproxy(env, *run, "--control", str(port))
    assert ended.returncode == 4
    assert f"cannot listen on 127.0.0.1:{port} for --control: " in ended.stderr
    assert "bootstrap.servers" not in ended.stderr


def test_a_run_in_the_background_keeps_its_interface(cluster: str, env: dict[str, str]) -> None:
    started = kproxy(env, "run", "--upstream", cluster, "--listen", "0", "--detach", "--name", "held", "--control", "0")
    try:
        assert started.returncode == 0, started.stderr
        (line,) = kproxy(env, "ps", "--json").stdout.splitlines()
        assert f"control: {json.loads(line)['control']}\n" in started.stderr
        assert kproxy(env, "faults", "add", DENY).returncode == 0
    finally:
        assert kproxy(env, "stop", "held").returncode == 0


def test_ports_in_the_configuration_file_may_be_numbers(tmp_path: Path, cluster: str) -> None:
    env = environment(tmp_path)
    (tmp_path / "config.toml").write_text("[run]\nlisten = 0\ncontrol = 0\n")
    run = ("run", "--config", tmp_path / "config.toml", "--upstream", cluster, "--detach", "--name", "numbers")
    started = kproxy(env, *run)
    assert kproxy(env, "stop", "numbers").returncode == 0, started.stderr
    assert "control: http://127.0.0.1:" in started.stderr


def test_chance_is_repeatable_without_a_rule_at_the_start(cluster: str, env: dict[str, str]) -> None:
    with controlled(cluster, env, "--fault-seed", "7", token=TOKEN) as run:
        assert "rules that come over HTTP can change traffic (kproxy faults list); --fault-seed 7\n" in run.lines
