"""States of flows are treated as data: damaged or foreign ones, and forbidden classes, are refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.follow import state
from kproxy.captures.spark.follow.carry import Carry
from kproxy.captures.spark.follow.flow_states import load
from kproxy.captures.spark.follow.state import StateError, pack, unpack
from kproxy.captures.spark.plan.order import Order
from tests.captures import traffic
from tests.captures.spark.test_carrying import OPTIONS, rotated, streamed

Told = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Order]:
    """The state of a flow that goes on, with its order."""
    taken = traffic.packets(traffic.LIBRDKAFKA)
    batches: list[local.Batch] = []
    paths = rotated(taken, [len(taken) // 2], tmp_path_factory.mktemp("captures"))
    streamed([[path] for path in paths], kept=batches)
    return max(batches[0].states.values(), key=len), Order(
        batches[0].carry.capture or "", tuple(batches[0].carry.summaries)
    )


def changed(data: bytes, change: Callable[[Told], object]) -> bytes:
    """The state with changed JSON and a correct digest."""
    told, held = unpack(data)
    told.pop("spans", None)
    change(told)
    return pack(told, held)


def attack(told: Told) -> None:
    told["classes"][0] = ["subprocess", "Popen", ["args"]]


def imported(told: Told) -> None:
    """Name a class that an allowed module imports from elsewhere."""
    told["classes"][0] = ["kproxy.decoders.conversation.conversation", "partial", []]


def dunder(told: Told) -> None:
    told["classes"][0][2] = ["__class__", *told["classes"][0][2][1:]]


def function(told: Told) -> None:
    told["objects"][0] = ["partial", "system", "true"]


def method(told: Told) -> None:
    told["objects"][0] = ["method", [1], "__init__"]


def endless(told: Told) -> None:
    told["objects"][0] = ["tuple", [0]]


def nothing(told: Told) -> None:
    told["objects"] = []


def another(told: Told) -> None:
    told["objects"][0] = ["list"]


def unknown(told: Told) -> None:
    told["objects"][0] = ["pickle", "gASVAA=="]


def odd(told: Told) -> None:
    told["objects"][0] = 7


def mistyped(told: Told) -> None:
    """Make the client of a connection a number."""
    at = next(i for i, (_, name, _) in enumerate(told["classes"]) if name == "Connection")
    field = told["classes"][at][2].index("client")
    next(one for one in told["objects"] if one[0] == at and type(one[0]) is int)[1 + field] = 7


@pytest.mark.parametrize(
    "change",
    [attack, imported, dunder, function, method, endless, nothing, another, unknown, odd, mistyped],
    ids=lambda change: change.__name__,
)
def test_what_a_state_may_not_say_is_refused(whole: tuple[bytes, Order], change: Callable[[Told], object]) -> None:
    data, order = whole
    with pytest.raises(StateError, match=r"remove the folder \.follow"):
        load(changed(data, change), OPTIONS, order, {})


def test_the_state_itself_is_taken(whole: tuple[bytes, Order]) -> None:
    data, order = whole
    assert load(changed(data, lambda _: None), OPTIONS, order, {}).number


@pytest.mark.parametrize("damage", ["empty", "cut", "a byte", "another version", "pickle", "longer than it says"])
def test_damaged_and_foreign_files_are_refused(whole: tuple[bytes, Order], damage: str, tmp_path: Path) -> None:
    data, order = whole
    middle = len(data) // 2
    ran = tmp_path / "ran"
    foreign = {
        "empty": b"",
        "cut": data[:middle],
        "a byte": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "another version": data.replace(b"/1\n", b"/2\n", 1),
        "pickle": pickle.dumps(_Attack(ran)),
        "longer than it says": data + b"x",
    }[damage]
    with pytest.raises(StateError):
        load(foreign, OPTIONS, order, {})
    assert not ran.exists()


def test_memory_for_a_state_is_bounded(whole: tuple[bytes, Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST", 1000)
    with pytest.raises(StateError):
        load(whole[0], OPTIONS, whole[1], {})


def test_only_what_has_a_form_is_written() -> None:
    with pytest.raises(TypeError, match="cannot store"):
        state.Writer(lambda _: None, lambda _: None).objects([json.JSONDecoder()])


class _Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"schema": "kproxy.carry/2"}', '{"schema": "kproxy.carry/1"}'])
def test_what_is_no_carry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a kproxy\.carry/3"):
        Carry.of(text)
