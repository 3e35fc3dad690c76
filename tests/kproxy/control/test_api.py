"""The HTTP interface without HTTP: who may call what, and what a call does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from kproxy.control import bodies
from kproxy.control.actions import RefusedError
from kproxy.control.api import ROUTES, TooLongError
from kproxy.faults.files import MOST, load
from kproxy.faults.parsing import parse
from kproxy.faults.trouble import FaultsError
from kproxy.library.rules import match_text
from tests.kproxy.control.support import TOKEN, Caller

JSON, YAML = "application/json", "application/yaml"
LOST = "lost: api == Produce and topic == orders => drop response, nth 1"
WRONG = "api == Fetch => dorp request"
EVERY = [(route.method, route.path.replace("{name}", "lost")) for route in ROUTES]


@pytest.fixture
async def call() -> Caller:
    return Caller()


def unread() -> None:
    raise AssertionError("the body of a refused call was read")


# --- who may call ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [*EVERY, ("GET", "/nowhere"), ("PUT", "/rules")])
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN,
     "Bearer \udcff", "Bearer Ö"],
)  # fmt: skip
async def test_without_the_token_nothing_is_told_or_done(
    call: Caller, method: str, path: str, authorization: str | None
) -> None:
    await call("POST", "/rules", LOST)
    reply = await call(method, path, "other: api == Fetch => swap", read=unread, authorization=authorization)
    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert TOKEN not in json.dumps(reply.body)
    assert await call.names() == ["lost"]
    assert not call.called


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_s_case_does_not_matter(call: Caller, scheme: str) -> None:
    assert (await call("GET", "/rules", authorization=f"{scheme} {TOKEN}")).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1:8474", 200), ("evil.example", 421), (None, 421), ("", 421),
     ("localhost.evil.example:8474", 421), ("127.0.0.1.evil.example", 421), ("evil.example:localhost", 421)],
)  # fmt: skip
async def test_a_page_with_a_rebound_name_is_refused(call: Caller, host: str | None, status: int) -> None:
    assert (await call("GET", "/rules", host=host)).status == status


# --- routes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "", "/nowhere", "/rules/", "/rules/a/b", "/rules/a/pause/b", "//rules", "/Rules"]
)
async def test_an_unknown_path(call: Caller, path: str) -> None:
    reply = await call("GET", path)
    assert reply.status == 404
    assert "/openapi.json" in reply.body["error"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/rules", "GET, POST"), ("HEAD", "/rules", "GET, POST"), ("POST", "/rules/lost", "GET, DELETE"),
     ("GET", "/rules/lost/pause", "POST"), ("GET", "/reset", "POST"), ("POST", "/openapi.json", "GET"),
     ("OPTIONS", "/rules", "GET, POST")],
)  # fmt: skip
async def test_a_wrong_method(call: Caller, method: str, path: str, allowed: str) -> None:
    reply = await call(method, path)
    assert (reply.status, reply.headers["Allow"]) == (405, allowed)


async def test_a_rule_from_its_addition_to_its_end(call: Caller) -> None:
    added = await call("POST", "/rules", LOST)
    assert added.status == 201
    (rule,) = added.body["rules"]
    assert (rule["name"], rule["trigger"], rule["hits"], rule["held"], rule["paused"]) == ("lost", "nth 1", 0, 0, False)
    assert (await call("GET", "/rules/lost")).body == rule
    assert (await call("POST", "/rules/lost/pause")).body == {**rule, "paused": True}
    assert (await call("POST", "/rules/lost/resume")).body == rule
    assert (await call("POST", "/rules/lost/release")).body == {"released": 0}
    assert (await call("GET", "/rules")).body == {"rules": [rule]}
    assert (await call("DELETE", "/rules/lost")).body == rule
    assert (await call("GET", "/rules")).body == {"rules": []}


@pytest.mark.parametrize(("method", "path"), [pair for pair in EVERY if "lost" in pair[1]])
async def test_a_rule_that_is_not_there(call: Caller, method: str, path: str) -> None:
    assert (await call(method, path)).status == 404
    await call("POST", "/rules", "other: api == Fetch => swap")
    reply = await call(method, path)
    assert (reply.status, reply.body["error"]) == (404, "there is no rule 'lost'; there are other")


async def test_counts_of_one_or_all_rules_are_reset(call: Caller) -> None:
    await call("POST", "/rules", '["a: api == Fetch => swap", "b: api == Fetch => swap"]', JSON)
    assert call.relays.first.acting.engine is not None
    for active in call.relays.first.acting.engine.active:
        active.counter.matches, active.counter.hits = 3, 2
    (one,) = (await call("POST", "/rules/a/reset")).body["rules"]
    assert (one["name"], one["matches"], one["hits"]) == ("a", 0, 0)
    assert [rule["hits"] for rule in (await call("GET", "/rules")).body["rules"]] == [0, 2]
    assert [rule["hits"] for rule in (await call("POST", "/reset")).body["rules"]] == [0, 0]


async def test_clusters_have_the_same_rules_and_their_counts_are_summed() -> None:
    call = Caller(clusters=2)
    await call("POST", "/rules", LOST)
    for number, relay in enumerate(call.relays.all, 1):
        assert relay.acting.engine is not None
        (active,) = relay.acting.engine.active
        active.counter.matches, active.counter.hits = 10 * number, number
    (rule,) = (await call("GET", "/rules")).body["rules"]
    assert (rule["matches"], rule["hits"]) == (30, 3)
    assert (await call("POST", "/rules/lost/pause")).body["paused"]
    await call("DELETE", "/rules/lost")
    assert [relay.acting.engine.active for relay in call.relays.all if relay.acting.engine] == [(), ()]


async def test_clusters_reload_the_same_rules_also_if_the_file_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = Caller(clusters=2)
    await call("POST", "/rules", LOST)
    readings = iter([FaultsError("garbled"), [parse("api == Fetch => delay 1s", "a")], FaultsError("garbled")])

    def load(*_: object) -> object:
        found = next(readings)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("kproxy.faults.files.load", load)
    with pytest.raises(RefusedError, match="garbled"):
        call.rules.reload()
    assert {rule["name"] for rule in call.rules.reload()} == {"a", "lost"}
    held = [
        {active.rule.name for active in relay.acting.engine.active} for relay in call.relays.all if relay.acting.engine
    ]
    assert held == [{"a", "lost"}] * 2


async def test_the_commands_of_the_proxy(call: Caller) -> None:
    assert (await call("GET", "/status")).body["connections"] == 0
    assert (await call("POST", "/flush")).status == 200
    call.recording = {"error": "this proxy records nothing (--no-record)"}
    assert (await call("POST", "/flush")).status == 409
    assert call.called == ["status", "flush", "flush"]


# --- rules in bodies -------------------------------------------------------------------------------------------------

PARTS = {"name": "a", "match": "api == Fetch", "action": "delay 1s", "trigger": "nth 2"}


@pytest.mark.parametrize(
    ("kind", "body", "names"),
    [
        (None, "a: api == Fetch => swap", ["a"]),
        ("text/plain; charset=utf-8", "\n  api == Fetch => delay 10ms ±1ms \n", ["rule-1"]),
        ("application/x-www-form-urlencoded", "api == Fetch and client.id == 'a&b=c' => swap", ["rule-1"]),
        (JSON, '"a: api == Fetch => swap"', ["a"]),
        (JSON, '"api == Fetch => swap"', ["rule-1"]),
        (JSON, json.dumps(PARTS), ["a"]),
        (JSON, '{"match": "api == Fetch", "action": "swap"}', ["rule-1"]),
        (JSON, '["api == Fetch => swap", {"match": "api == Fetch", "action": "swap"}]', ["rule-1", "rule-2"]),
        (JSON, '["api == Fetch => swap", "rule-1: api == Fetch => swap"]', ["rule-2", "rule-1"]),
        ("Application/JSON", json.dumps({"rules": [PARTS]}), ["a"]),
        (JSON, "[]", []),
        (YAML, "- api == Fetch => swap\n- name: a\n  match: api == Fetch\n  action: swap\n", ["rule-1", "a"]),
        ("application/x-yaml", "rules:\n- api == Fetch => swap\n", ["rule-1"]),
        ("text/yaml", "", []),
    ],
)
async def test_one_rule_or_more(call: Caller, kind: str | None, body: str, names: list[str]) -> None:
    explained = await call("POST", "/check", body, kind)
    assert explained.status == 200
    assert len(explained.body["rules"]) == len(names)
    assert await call.names() == [], "a check adds nothing"
    added = await call("POST", "/rules", body, kind)
    assert [rule["name"] for rule in added.body["rules"]] == names
    assert await call.names() == names
    assert [rule["text"] for rule in added.body["rules"]] == [rule["text"] for rule in explained.body["rules"]]


def told(rule: str) -> str:
    """What `kproxy faults check` says of a wrong rule."""
    with pytest.raises(FaultsError) as caught:
        load((rule,))
    return str(caught.value)


WRONG_RULES = [
    WRONG,
    "apu == Fetch => swap",
    "api == Produce => error NOT_LEADER_OR_FOLLOWER",
    "api == Fetch => swap, nth 0",
    "api == Fetch",
    "",
    "=>",
    "status == ok => swap",
    match_text("Fetch", "", {"topic": "x" * 20_000}) + " => swap",
]


@pytest.mark.parametrize("rule", WRONG_RULES)
@pytest.mark.parametrize("path", ["/rules", "/check"])
async def test_a_wrong_rule_is_refused_with_the_text_of_check(call: Caller, path: str, rule: str) -> None:
    for kind, body in ((None, rule), (JSON, json.dumps(rule))):
        reply = await call("POST", path, body, kind)
        assert (reply.status, reply.body["error"]) == (422, told(rule))
    assert await call.names() == []


async def test_one_wrong_rule_among_others_adds_none(call: Caller) -> None:
    reply = await call("POST", "/rules", f"- api == Fetch => swap\n-   {WRONG}\n", YAML)
    assert (reply.status, reply.body["error"]) == (422, f"body:2:5: {told(WRONG)}")
    reply = await call("POST", "/rules", json.dumps(["api == Fetch => swap", WRONG]), JSON)
    assert (reply.status, reply.body["error"]) == (422, f"body, rule 2: {told(WRONG)}")
    assert await call.names() == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (None, b"\xff\xfe"),
        (JSON, b"\xff"),
        (YAML, b"\xc3("),
        (JSON, ""),
        (JSON, "{"),
        (JSON, "null"),
        (JSON, "1"),
        (JSON, "[1]"),
        (JSON, "[null, []]"),
        (JSON, '{"rules": {}}'),
        (JSON, '{"rules": [{}]}'),
        (JSON, '{"match": "api == Fetch"}'),
        (JSON, '{"match": 1, "action": "swap"}'),
        (JSON, '{"match": "api == Fetch", "action": "swap", "nmae": "a"}'),
        (JSON, '{"name": "a b", "match": "api == Fetch", "action": "swap"}'),
        (JSON, '{"name": "", "match": "api == Fetch", "action": "swap"}'),
        (JSON, '{"name": "a", "match": "api == Fetch => swap\\n", "action": "swap"}'),
        (JSON, '"\\ud800 => swap"'),
        (JSON, "[" * 60_000),
        (JSON, '{"a":' * 10_000),
        (JSON, "9" * 60_000),
        (JSON, json.dumps(["api == Fetch => swap"] * (MOST + 1))),
        (YAML, "- [" * 20_000),
        (YAML, "["),
        (YAML, "a: b"),
        (YAML, "- a: &x b\n  c: *x\n"),
        (YAML, "- !!python/object/apply:os.system [true]\n"),
        (YAML, "- api == Fetch => swap\n" * (MOST + 1)),
        (YAML, "\0"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(call: Caller, kind: str | None, body: str | bytes) -> None:
    await call("POST", "/rules", LOST)
    reply = await call("POST", "/rules", body, kind)
    assert reply.status == 422
    assert len(reply.body["error"]) < 25_000
    assert await call.names() == ["lost"]


@pytest.mark.parametrize("kind", ["multipart/form-data", "application/xml", "json", ""])
async def test_a_body_of_an_unknown_type_is_not_read(call: Caller, kind: str) -> None:
    assert (await call("POST", "/rules", LOST, kind, read=unread)).status == 415


@pytest.mark.parametrize(("error", "status"), [(TooLongError(), 413), (TimeoutError(), 408)])
@pytest.mark.parametrize("path", ["/rules", "/check"])
async def test_a_body_that_is_too_long_or_late(call: Caller, path: str, error: Exception, status: int) -> None:
    assert (await call("POST", path, error)).status == status


async def test_a_name_that_is_taken(call: Caller) -> None:
    await call("POST", "/rules", LOST)
    for kind, body in ((None, LOST), (YAML, f"- api == Fetch => swap\n- '{LOST}'\n")):
        reply = await call("POST", "/rules", body, kind)
        assert (reply.status, reply.body["error"]) == (409, "a rule named lost exists already")
    twice = json.dumps(["b: api == Fetch => swap"] * 2)
    assert (await call("POST", "/rules", twice, JSON)).status == 409
    assert await call.names() == ["lost"]


async def test_the_number_of_rules_is_bounded(call: Caller) -> None:
    many = json.dumps(["api == Fetch => swap"] * (MOST - 1))
    assert (await call("POST", "/rules", many, JSON)).status == 201
    assert (await call("POST", "/rules", many, JSON)).status == 409
    assert (await call("POST", "/rules", LOST)).status == 201
    reply = await call("POST", "/rules", "api == Fetch => swap")
    assert (reply.status, reply.body["error"]) == (409, f"a proxy has at most {MOST} rules, and this one has {MOST}")
    assert len(await call.names()) == MOST


async def test_rules_that_come_at_once_get_names_of_their_own(call: Caller) -> None:
    replies = await asyncio.gather(*(call("POST", "/rules", "api == Fetch => swap") for _ in range(20)))
    assert [reply.status for reply in replies] == [201] * 20
    assert sorted(await call.names()) == sorted(f"rule-{number}" for number in range(1, 21))


async def test_bodies_are_read_outside_the_event_loop(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    read: Callable[..., object] = bodies.rules

    def reading(*arguments: object) -> object:
        # The loop has to carry this out while it waits; a body that is read in the loop would wait for ever.
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
        return read(*arguments)

    monkeypatch.setattr(bodies, "rules", reading)
    assert (await call("POST", "/rules", LOST)).status == 201
