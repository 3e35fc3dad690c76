"""Intercepted frames of a run, for a script (JSON lines) and for the terminal UI.

A frame is a "kproxy.held/1" (`kproxy.faults.decisions`). A decision names it by its number: {"held": 3, "do": "drop"}.
A decision that is refused is answered by a "kproxy.refused/1", and the frame waits on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kproxy.decoders.escaping import json_text
from kproxy.runs.registry import LONGEST_COMMAND, ask

POLL_SECONDS: Final = 0.05
REFUSED: Final = "kproxy.refused/1"


class Interception:
    """The interception of the run in `run_dir`: `say` prints a line, and decisions are read from descriptor `given`.

    At the end of `given`, nobody decides any more: the rules named `rules` are paused, and held frames are sent.
    """

    def __init__(self, run_dir: Path, rules: tuple[str, ...], given: int, say: Callable[[str], None]) -> None:
        self._run_dir = run_dir
        self._rules = rules
        self._given = given
        self._say = say
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._show, self._take)]

    def start(self) -> None:
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        self._stop.set()
        for one in self._threads:
            one.join(2)

    def _show(self) -> None:
        last = 0
        while not self._stop.wait(POLL_SECONDS):
            with contextlib.suppress(OSError, ValueError):
                for frame in ask(self._run_dir, "faults", op="intercepted", number=last)["intercepted"]:
                    last = max(last, frame["held"])
                    self._print(frame)

    def _take(self) -> None:
        waiting = b""
        while not self._stop.is_set():
            if not select.select([self._given], [], [], POLL_SECONDS)[0]:
                continue
            piece = os.read(self._given, 1 << 16)
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    self._decide(line)
            if len(waiting) > LONGEST_COMMAND:
                self._refuse(None, f"a decision is longer than {LONGEST_COMMAND} bytes")
                waiting = b""
            if not piece:
                if waiting.strip():
                    self._decide(waiting)
                self._let_all_go()
                return

    def _decide(self, line: bytes) -> None:
        try:
            decision = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(None, f"a decision is a line of JSON: {error}")
            return
        number = decision.get("held") if isinstance(decision, dict) else None
        if not isinstance(number, int):
            self._refuse(None, 'a decision is an object with "held", the number of a frame, and "do"')
            return
        try:
            answer = ask(self._run_dir, "faults", op="decide", number=number, decision=decision)
        except (OSError, ValueError) as error:
            self._refuse(number, f"the proxy does not answer: {error}")
            return
        if "error" in answer:
            self._refuse(number, answer["error"])

    def _let_all_go(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for name in self._rules:
                ask(self._run_dir, "faults", op="pause", name=name)
                ask(self._run_dir, "faults", op="release", name=name)

    def _refuse(self, number: int | None, why: str) -> None:
        self._print({"schema": REFUSED, "held": number, "error": why})

    def _print(self, line: dict[str, Any]) -> None:
        self._say(json_text(line))


RULE: Final = "intercept"
"""The name of the rule that the terminal UI adds and replaces; --intercept gives its rule the same name."""
LOOK_SECONDS: Final = 0.2


class HeldFrames:
    """The intercepted frames of the run in `run_dir`; a thread updates them once `look` was called.

    Each is (frame in the form "kproxy.held/1", time.monotonic() at which it is sent without a decision). `expression`
    is the filter of the requests that are intercepted, "" for none. `decide` and `intercept` return the text of an
    error, "" if there is none.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._known: dict[int, tuple[dict[str, Any], float]] = {}
        self._thread: threading.Thread | None = None
        self.expression = ""

    @property
    def frames(self) -> list[tuple[dict[str, Any], float]]:
        return list(self._known.values())

    def look(self) -> None:
        """Start the thread that updates the frames, unless it runs already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True, name="intercepted")
            self._thread.start()

    def _watch(self) -> None:
        while True:
            try:
                self._take()
            except (OSError, ValueError, KeyError):
                self._known = {}
            time.sleep(LOOK_SECONDS)

    def _take(self) -> None:
        answer = ask(self._run_dir, "faults", op="intercepted", number=max(self._known, default=0))
        found = {**self._known}
        for frame in answer["intercepted"]:
            found[frame["held"]] = frame, time.monotonic() + frame["left_ms"] / 1000
        waiting = set(answer["waiting"])
        self._known = {number: one for number, one in found.items() if number in waiting}
        rules = ask(self._run_dir, "faults", op="list")["rules"]
        self.expression = next((rule["match"] for rule in rules if rule["name"] == RULE and not rule["paused"]), "")

    def decide(self, number: int, decision: dict[str, Any]) -> str:
        return self._asked("decide", number=number, decision=decision)

    def intercept(self, expression: str) -> str:
        """Intercept requests that match from now on, or none for "". Frames that the previous rule holds are sent."""
        if expression:
            wrong = self._asked("check", rule=f"{RULE}: {expression} => intercept")
            if wrong:
                return wrong
        if self.expression:
            self._asked("remove", name=RULE)
        self.expression = expression
        return self._asked("add", rule=f"{RULE}: {expression} => intercept") if expression else ""

    def _asked(self, op: str, **more: Any) -> str:
        try:
            return str(ask(self._run_dir, "faults", op=op, **more).get("error", ""))
        except (OSError, ValueError) as error:
            return f"the proxy does not answer: {error}"
