"""Prints the exchanges of a recording while it grows: `kproxy run` and `kproxy demo` without the interface."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self

from kproxy.decoders.exchange import Exchange, Health
from kproxy.decoders.view import View

if TYPE_CHECKING:
    from kproxy.captures.findings.live import News
    from kproxy.captures.findings.model import Finding
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Reader
    from kproxy.decoders.filters import Expression

IDLE_SECONDS = 0.05
AGAIN_SECONDS = 3.0


class Followed(Protocol):
    """A process whose recording is followed; `stop` is called when following ends."""

    @property
    def recording(self) -> Path | None: ...

    @property
    def alive(self) -> bool: ...

    def stop(self) -> None: ...


class Lines(Protocol):
    """Where lines of text go."""

    def write(self, text: str, /) -> object: ...

    def writelines(self, lines: Iterable[str], /) -> None: ...

    def flush(self) -> None: ...


class Flag:
    """A flag that a signal handler may set. `threading.Event.set` could deadlock with the `wait` that it interrupts."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float) -> bool:
        """Returns True at once if the flag is set; else sleeps `seconds` and returns whether it is set then."""
        if not self._set:
            time.sleep(seconds)
        return self._set


class Stopping:
    """A context manager in which SIGINT and SIGTERM set the flag `event`; it restores the old handlers at its end.

    With `twice`, the first SIGINT only prints that text, and another SIGINT within AGAIN_SECONDS sets the flag.
    """

    def __init__(self, twice: str | None = None) -> None:
        self.event = Flag()
        self._twice = twice
        self._asked = -AGAIN_SECONDS
        self._old: dict[int, Any] = {}

    def _set(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if number == signal.SIGINT and self._twice is not None and now - self._asked > AGAIN_SECONDS:
            self._asked = now
            with contextlib.suppress(OSError):  # not by sys.stderr, in whose write the signal may have arrived
                os.write(2, self._twice.encode() + b"\n")
            return
        self.event.set()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, self._set)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def leaving_on(*signals: signal.Signals) -> Iterator[None]:
    """A context in which these signals exit the program with code 0, so that `with` blocks release their resources."""
    before = {number: signal.signal(number, lambda *_: sys.exit(0)) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Follower:
    """Follows a recording until it is stopped and prints every selected item to `out`."""

    def __init__(
        self,
        relay: Followed,
        out: Lines,
        *,
        as_json: bool = False,
        expression: Expression | None = None,
        release: str | None = None,
        user_definitions: Sequence[str] = (),
        view: View | None = None,
        ports: Ports | None = None,
        observe: Callable[[Exchange, Reader], None] | None = None,
        least: str = "off",
    ) -> None:
        """`ports` selects connections with one of these ports; `observe` is called with every selected exchange.

        Findings of severity `least` and worse are printed as well ("info", "note", "warn", "error", or "off" for none).
        Rules see all exchanges, not only the selected ones.
        """
        from kproxy.captures.reader import read
        from kproxy.decoders.filters import Matcher

        assert relay.recording is not None  # noqa: S101 (callers record)
        self._relay = relay
        self._out = out
        self._observe = observe
        self._as_json = as_json
        self.reader = read(
            relay.recording, ports=ports, release=release, user_definitions=user_definitions, follow=True
        )
        self._view = view or View()
        self._text = self._printer(as_json=as_json)
        self._findings = None if least == "off" else _Findings(self.reader, least, as_json=as_json)
        self._matcher = None if expression is None else Matcher(expression, self.reader.source, self.reader.definitions)

    def _printer(self, *, as_json: bool) -> Callable[[Any], str]:
        if as_json:
            from kproxy.captures.export.jsonl import JsonLines

            lines = JsonLines(self.reader, self._view)
            return lambda item: lines.lines([item]).decode()
        from kproxy.captures.export.oneline import OneLine

        one = OneLine(self.reader, self._view.knowledge)
        return lambda item: one.line(item) + "\n"

    def run(self, stopping: Flag) -> None:
        """Prints until `stopping` is set or the relay ends; then stops the relay and prints the remaining items.

        Raises BrokenPipeError if nobody reads the output any more, CaptureError if the recording cannot be read.
        """
        from kproxy.captures.errors import CaptureError

        while not stopping.is_set() and self._relay.alive and not self.reader.finished:
            self._print(self.reader.poll())
            self._out.flush()
            if self.reader.idle:
                stopping.wait(IDLE_SECONDS)
        self._relay.stop()
        if self._relay.alive:
            self._print(self.reader.finish())
        while not self.reader.finished:
            self._print(self.reader.poll())
            if self.reader.idle:
                self._print(self.reader.finish())
        if self._findings is not None:
            self._out.writelines(self._findings.finish())
        if self._as_json:
            self._out.write(self._text(self.reader.health))
        self._out.flush()
        error = self.reader.error
        if isinstance(error, CaptureError):
            raise error

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, of any severity; empty if `least` is "off"."""
        return [] if self._findings is None else self._findings.result()

    @property
    def health(self) -> Health:
        return self.reader.health

    @property
    def left_out(self) -> str | None:
        """A sentence with the number of exchanges for which the filter could not decide; None if there are none."""
        from kproxy.decoders.filters import left_out

        return None if self._matcher is None else left_out(self._matcher.unknown)

    def _print(self, items: list[Any]) -> None:
        for item in self._selected(items):
            if self._observe is not None and isinstance(item, Exchange):
                self._observe(item, self.reader)
            self._out.write(self._text(item))
        if self._findings is not None:
            self._out.writelines(self._findings.after(items))

    def _selected(self, items: list[Any]) -> Iterator[Any]:
        from kproxy.decoders.learning import learn

        for item in items:
            if isinstance(item, Exchange) and self._matcher is not None:
                selected = self._matcher.matches(item)
                if not selected:
                    learn(item, self.reader.source, self.reader.definitions, self._view.knowledge)
                    continue
            yield item


class _Findings:
    """Turns the findings of a followed recording, of severity `least` and worse, into lines of text."""

    def __init__(self, reader: Reader, least: str, *, as_json: bool) -> None:
        from kproxy.captures.findings.live import LiveFindings
        from kproxy.captures.findings.model import Severity

        self._reader = reader
        self._live = LiveFindings(reader.source, reader.definitions)
        self._least = Severity[least.upper()]
        self._as_json = as_json

    def after(self, items: Sequence[Any]) -> Iterator[str]:
        """A line for each finding that changed because of the reader's latest items."""
        return self._lines(self._live.add(items, self._reader.closings))

    def finish(self) -> Iterator[str]:
        """A line for each finding that changed because the recording has ended."""
        return self._lines(self._live.finish())

    def result(self) -> list[Finding]:
        return self._live.result()

    def _lines(self, news: Sequence[News]) -> Iterator[str]:
        from kproxy.captures.findings.text import news_line

        for one in news:
            if one.finding.severity >= self._least:
                yield news_line(one, as_json=self._as_json) + "\n"
