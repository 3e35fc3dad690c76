"""`kproxy mcp`, asked by the SDK's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import kproxy
from kproxy.agents.answers import LONGEST, Answers
from kproxy.agents.rules import Rules
from kproxy.agents.server import ACTING, TOOLS, server
from kproxy.cli.exits import Exit
from kproxy.cli.main import main

DATA = Path(__file__).parents[2] / "data"
CAPTURE = DATA / "captures" / "kafka-4.4.0-librdkafka.pcap"
POISON = DATA / "findings" / "consumer.poison.pcap.xz"
REBALANCE = next((DATA / "findings").glob("group.poll_gap*"))
COMMAND = ["-c", "from kproxy.cli.main import main; main()", "mcp"]
pytestmark = pytest.mark.timeout(120)


def answers(path: Path = CAPTURE) -> Answers:
    return Answers(lambda: kproxy.open(path, strict=False))


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    assert len(content.text) <= 1.6 * LONGEST
    found: dict[str, Any] = json.loads(content.text)
    return found


async def test_why_a_group_rebalances_takes_three_calls() -> None:
    async with Client(server(answers(REBALANCE))) as client:
        findings = (await call(client, "findings", severity="warn"))["findings"]
        found = next(one for one in findings if one["rule"] == "group.poll_gap")
        group = found["scope"]["name"]
        left = (await call(client, "exchanges", where=f'group == "{group}" and api == LeaveGroup'))["exchanges"]
        proof = next(one["exchange"] for one in found["evidence"] if one["exchange"])
        exchange = (await call(client, "exchange", number=proof))["exchange"]
    assert "max.poll.interval.ms" in json.dumps(found["fixes"])
    assert left[0]["groups"] == [group]
    assert exchange["exchange"] == proof
    assert exchange["request"]["body"]


async def test_every_tool_is_described_and_answers() -> None:
    async with Client(server(answers())) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == set(TOOLS)
        for tool in tools.values():
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
        summary = await call(client, "summary")
        assert summary["exchanges"] == 176
        assert summary["health"]["packets"] == 679
        assert sum(line["count"] for line in summary["apis"]) == 176
        for by in ("api", "client", "broker", "topic"):
            assert (await call(client, "stats", by=by))["stats"]
        for name in ("groups", "topics", "transactions", "connections", "cluster"):
            assert (await call(client, "view", name=name))[name]
        records = await call(client, "records", where="api == Produce and topic == shop-payments", limit=3)
        assert [one["value"] for one in records["records"]] == ["pay 0", "pay 1", "pay 2"]
        fields = (await call(client, "schema", name="FetchRequest", version=12))["messages"][0]["fields"]
        assert {"maxWaitMs", "minBytes"} <= {one["path"] for one in fields}


async def test_the_journey_of_a_record_that_nobody_gets_past() -> None:
    async with Client(server(answers(POISON))) as client:
        steps = (await call(client, "journey", topic="letters", partition=0, offset=70))["steps"]
        before = (await call(client, "journey", topic="letters", partition=0, offset=69))["steps"]
        nowhere = (await call(client, "journey", topic="letters", partition=0, offset=5_000))["steps"]
    assert [(one["what"], one["client_id"]) for one in steps] == [("written", "filler"), *[("delivered", "reader")] * 4]
    assert {one["value"] for one in steps} == {"70"}
    assert [one["what"] for one in before] == ["written", "committed"]
    assert (before[1]["group"], before[1]["committed_offset"]) == ("picky", 70)
    assert nowhere == []


async def test_the_difference_of_two_requests_is_what_matters() -> None:
    async with Client(server(answers(POISON))) as client:
        fetches = (await call(client, "exchanges", where="api == Fetch"))["exchanges"]
        first, second = (one["exchange"] for one in fetches[:2])
        found = (await call(client, "diff", first=first, second=second))["differences"]
        same = (await call(client, "diff", first=first, second=first))["differences"]
    assert found[0] == {"path": "request.topics[0].partitions[0].fetchOffset", "first": 70, "second": 100}
    assert same == []


async def test_only_with_rules_an_agent_can_act(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def ask(run_dir: Path, command: str, **more: Any) -> dict[str, Any]:
        asked.append((run_dir, command, more))
        if more.get("rule") == "nonsense":
            return {"error": "no => in this rule"}
        return {"rules": [{"name": "lost"}]}

    monkeypatch.setattr("kproxy.runs.registry.ask", ask)
    async with Client(server(answers(), Rules(Path("run")))) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert (await call(client, "add_fault", rule="lost: api == Fetch => refuse"))["added"] == {"name": "lost"}
        assert (await call(client, "faults"))["rules"] == [{"name": "lost"}]
        assert (await call(client, "remove_fault", name="lost"))["removed"] == "lost"
        wrong = await client.call_tool("add_fault", {"rule": "nonsense"})
    assert set(tools) == {*TOOLS, *ACTING}
    assert [(more["op"], command) for _, command, more in asked][:3] == [
        ("add", "faults"), ("list", "faults"), ("remove", "faults"),
    ]  # fmt: skip
    assert wrong.is_error
    assert "no => in this rule" in str(wrong.content)


def test_faults_need_a_running_proxy() -> None:
    done = CliRunner().invoke(main, ["mcp", str(CAPTURE), "--allow-faults"])
    assert done.exit_code == Exit.USAGE
    assert "--attach" in done.stderr


async def test_pages_together_are_the_whole() -> None:
    async with Client(server(answers())) as client:
        numbers: list[int] = []
        cursor: int | None = 0
        while cursor is not None:
            page = await call(client, "exchanges", limit=50, cursor=cursor)
            assert len(page["exchanges"]) <= 50
            numbers += [one["exchange"] for one in page["exchanges"]]
            cursor = page["next"]
    with kproxy.open(CAPTURE) as capture:
        assert numbers == [one.number for one in capture]


@pytest.mark.parametrize(("name", "arguments", "words"), [
    ("exchanges", {"where": "apy == Fetch"}, "did you mean api?"),
    ("exchange", {"number": 100_000}, "there is no exchange 100000"),
    ("diff", {"first": 1, "second": 100_000}, "there is no exchange 100000"),
    ("view", {"name": "group"}, "there are topics, groups"),
    ("findings", {"severity": "bad"}, "not a severity"),
    ("schema", {"name": "Fetsh"}, "no API and no message"),
    ("schema", {"name": "Fetch", "version": 99}, "not 99"),
])  # fmt: skip
async def test_a_mistake_is_explained(name: str, arguments: dict[str, Any], words: str) -> None:
    async with Client(server(answers())) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert words in str(result.content)


def test_large_answers_are_cut() -> None:
    with kproxy.open(CAPTURE) as capture:
        largest = max(capture, key=lambda one: len(one.to_json())).number
        assert len(json.dumps(dict(next(iter(capture.where(f"exchange == {largest}")))))) > LONGEST
    text = json.dumps(answers().exchange(largest))
    assert len(text) <= LONGEST
    assert "left out" in text


def test_secrets_are_withheld() -> None:
    golden = answers(DATA / "golden" / "golden-4.4.0.pcap")
    page = golden.exchanges("api in (SaslAuthenticate, AlterUserScramCredentials)", limit=3)
    assert page["exchanges"]
    for one in page["exchanges"]:
        assert "redacted" in json.dumps(golden.exchange(one["exchange"]))


def test_a_damaged_capture_answers_with_what_is_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:100_000])
    for answer in (answers(path).summary(), answers(path).exchanges(limit=200), answers(path).stats()):
        assert "ends inside a packet" in answer["capture_errors"][0]
    assert answers(path).findings("info")["findings"]
    assert answers(path).exchanges(limit=5)["exchanges"]


async def test_over_standard_input_and_output() -> None:
    started = StdioServerParameters(command=sys.executable, args=[*COMMAND, str(CAPTURE)], env={**os.environ})
    async with Client(started) as client:
        assert (await call(client, "summary"))["exchanges"] == 176


@pytest.fixture
def over_http() -> Iterator[tuple[str, str]]:
    """(URL, token) of a server."""
    command = [sys.executable, "-u", *COMMAND, str(CAPTURE), "--http", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.stdout.readline().strip().removeprefix("token: ")
        process.terminate()


async def test_over_http_with_a_token(over_http: tuple[str, str]) -> None:
    url, token = over_http
    async with httpx2.AsyncClient() as anybody:
        assert (await anybody.post(url, json={})).status_code == 401
        assert (await anybody.post(url, json={}, headers={"Authorization": "Bearer wrong"})).status_code == 401
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as ours,
        Client(streamable_http_client(url, http_client=ours)) as client,
    ):
        assert (await call(client, "summary"))["exchanges"] == 176


@pytest.mark.parametrize("arguments", [[], ["-"], [str(CAPTURE), "--attach", "nobody"]])
def test_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["mcp", *arguments]).exit_code == Exit.USAGE


def test_captures_that_cannot_be_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["mcp", str(tmp_path / "no.pcap")])
    assert result.exit_code == Exit.INPUT
    assert "No such file" in result.stderr
