"""Rules of a test, as text (docs/faults.md) or composed by methods, with the counts of their hits.

`Match` selects requests and responses, `Fault` is an active rule.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Self

from kproxy.library.proxy import Proxy

WAIT_SECONDS = 10.0
POLL_SECONDS = 0.005
NAMES = {"client_id": "client.id"}
"""Argument names for fields of filters whose names are no Python identifiers."""

Value = str | int


class Triggered(ABC):
    """Has a method for each trigger; `per` ("client", "partition", "connection") counts frames separately."""

    @abstractmethod
    def _with(self, trigger: str) -> Self:
        """The same rule with a trigger, a text as in docs/faults.md."""

    def _per(self, trigger: str, per: str) -> Self:
        return self._with(f"{trigger} per {per}" if per else trigger)

    def nth(self, n: int, per: str = "") -> Self:
        """The rule acts at the nth match only."""
        return self._per(f"nth {n}", per)

    def first(self, n: int = 1, per: str = "") -> Self:
        """The rule acts at the first n matches."""
        return self._per(f"first {n}", per)

    def every(self, n: int, per: str = "") -> Self:
        """The rule acts at each nth match."""
        return self._per(f"every {n}", per)

    def after(self, n: int, per: str = "") -> Self:
        """The rule acts at all matches except the first n."""
        return self._per(f"after {n}", per)


class Fault(Triggered):
    """A rule of the proxy, which acts as soon as its action is given.

    Methods for a trigger replace the rule by one with this trigger, and reset its counts.
    """

    def __init__(self, proxy: Proxy, rule: str, trigger: str = "") -> None:
        """Adds the rule, a text as in docs/faults.md. Raises RuleError, and ValueError if its name is taken."""
        self._proxy = proxy
        self._rule = rule
        self.must_fire = True
        self._hits: int | None = None
        """The number of hits when the rule was removed; None while it is there."""
        self._add(trigger)

    def _add(self, trigger: str) -> None:
        self.text = f"{self._rule}, {trigger}" if trigger else self._rule
        self.name = self._proxy.add(self.text)

    def _with(self, trigger: str) -> Self:
        self._proxy.remove(self.name)
        self._hits = 0
        self._add(trigger)
        self._hits = None
        return self

    def optional(self) -> Self:
        """The test does not fail if this rule never fires."""
        self.must_fire = False
        return self

    @property
    def hits(self) -> int:
        """How many times the rule has acted."""
        return self._hits if self._hits is not None else int(self._proxy.rules()[self.name]["hits"])

    @property
    def held(self) -> int:
        """How many frames the rule holds now."""
        return 0 if self._hits is not None else int(self._proxy.rules()[self.name]["held"])

    def wait(self, timeout: float = WAIT_SECONDS, hits: int = 1) -> Self:
        """Waits until the rule has acted `hits` times. Raises AssertionError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (found := self.hits) < hits:
            if time.monotonic() > deadline:
                raise AssertionError(f"the rule acted {found} times in {timeout:g} s, not {hits}: {self.text}")
            time.sleep(POLL_SECONDS)
        return self

    def release(self) -> int:
        """Forwards the frames that the rule holds or delays now; returns their number.

        The rule holds later frames as before.
        """
        return self._proxy.release(self.name)

    def remove(self) -> None:
        """Removes the rule; the frames that it holds are forwarded, and `hits` keeps its value."""
        if self._hits is None:
            self._hits = self.hits
            self._proxy.remove(self.name)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.text}>"


class Match(Triggered):
    """Selects the frames on which a rule acts. The methods for actions add the rule and return it.

    Call the methods for triggers before that of the action, so that the rule has its trigger from the beginning.
    """

    def __init__(self, proxy: Proxy, faults: list[Fault], text: str, trigger: str = "") -> None:
        """`faults` receives the rule that an action makes."""
        self._proxy = proxy
        self._faults = faults
        self._text = text
        self._trigger = trigger

    def _with(self, trigger: str) -> Self:
        return type(self)(self._proxy, self._faults, self._text, trigger)

    def act(self, action: str) -> Fault:
        """Any action of docs/faults.md as text, such as "swap". Raises RuleError."""
        fault = Fault(self._proxy, f"{self._text} => {action}", self._trigger)
        self._faults.append(fault)
        return fault

    def error(self, code: str, *, applied: bool | None = None, at: str = "") -> Fault:
        """The response has this error; `applied` says whether the broker carries out the request.

        `applied` may be None for APIs that only read. `at` selects an element: "topic == t and partition == 1".
        """
        where = f" at {at}" if at else ""
        return self.act(f"error {code}{where}{ {None: '', True: ' applied', False: ' not applied'}[applied] }")

    def drop_request(self) -> Fault:
        """Drops the request: the broker never receives it."""
        return self.act("drop request")

    def drop_response(self) -> Fault:
        """The broker carries out the request, but the client never receives the response."""
        return self.act("drop response")

    def delay(self, duration: str) -> Fault:
        """The response is late: "500ms", "500ms ±100ms", or "2s request" for the request."""
        return self.act(f"delay {duration}")

    def hold(self, what: str = "response") -> Fault:
        """The "response", or "request", waits for `Fault.release`, at most 30 seconds."""
        return self.act(f"hold {what}")

    def disconnect(self, how: str = "before") -> Fault:
        """Closes the connection "before" the request is forwarded, "after" the broker's answer, or "mid 20 rst"."""
        return self.act(f"disconnect {how}")

    def set(self, path: str, value: str) -> Fault:
        """Sets the value, as JSON or a word, at a path such as "response.body.throttleTimeMs"."""
        return self.act(f"set {path} = {value}")


def match_text(api: str, where: str, fields: dict[str, Value]) -> str:
    """The text of a filter for an API, with further conditions."""
    from kproxy.decoders.filters.values import quote

    conditions = [f"api == {quote(api)}"]
    conditions += [f"{NAMES.get(name, name)} == {quote(str(value))}" for name, value in fields.items()]
    return " and ".join([*conditions, *([f"({where})"] if where else [])])
