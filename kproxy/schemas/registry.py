"""Schemas from a registry, fetched by a thread so that decoding waits for a bounded time only."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from kproxy.decoders.payloads.schemas import IdKind, Missing, Schema, named
from kproxy.schemas.apis import fetch
from kproxy.schemas.cache import DiskCache
from kproxy.schemas.http import Access, Http, RefusedError, UnreachableError

NOT_FOUND_SECONDS: Final = 300.0
"""Seconds until a schema that the registry does not have is requested again."""
REFUSED_SECONDS: Final = 30.0
"""Seconds until a schema is requested again that the registry refused with a status other than 404 (not found)."""
PAUSE_SECONDS: Final = 30.0
"""Seconds until an unreachable registry is tried again; doubles with each failure, up to LONGEST_PAUSE."""
LONGEST_PAUSE: Final = 600.0
MOST_REFUSED: Final = 1000
"""Maximum number of schemas requested without success: random bytes may look like any number of ids."""

Key = tuple[IdKind, int | str]


class Registry:
    """Fetches schemas from a registry. `by_id` waits up to `wait` seconds in total for each schema; 0 does not wait.

    The thread calls `arrived` after each fetch; the next call of `by_id` returns a schema that came too late for the
    first. `warn` is called once if the registry is unreachable. Schemas are cached in memory, and in `cache` for later
    runs.
    """

    def __init__(
        self,
        url: str,
        access: Access,
        *,
        wait: float,
        cache: DiskCache | None = None,
        warn: Callable[[str], None] = lambda _: None,
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        self._url = url
        self._http = Http(access)
        self._wait = wait
        self._cache = cache
        self._warn = warn
        self._arrived = arrived
        self._changed = threading.Condition()
        self._schemas: dict[Key, Schema] = {}
        self._refused: dict[Key, tuple[Missing, float]] = {}
        self._asked: dict[Key, float] = {}
        """The schemas that the thread still has to fetch, with the monotonic time until which callers wait for each."""
        self._queue: queue.SimpleQueue[Key] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._down: Missing | None = None
        self._down_until = 0.0
        self._pause = PAUSE_SECONDS
        self._warned = False

    def by_name(self, topic: str, part: str) -> Missing:
        """Always Missing: the registry's schema for a topic may differ from the one that a payload was written with."""
        del topic, part
        return Missing("the payload holds no schema id")

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        key = kind, value
        with self._changed:
            found = self._found(key)
            if found is not None:
                return found
            if key not in self._asked:
                if len(self._refused) >= MOST_REFUSED:
                    return Missing(f"{named(*key)} is not requested: {MOST_REFUSED} other schemas were not found")
                self._asked[key] = time.monotonic() + self._wait
                self._queue.put(key)
                self._start()
            deadline = self._asked[key]
            while key in self._asked and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            found = self._found(key)
            if found is None and key not in self._asked:
                found = self._down
            return found or Missing(f"{named(*key)} has not arrived from the registry yet", pending=True)

    def _found(self, key: Key) -> Schema | Missing | None:
        schema = self._schemas.get(key)
        if schema is not None:
            return schema
        now = time.monotonic()
        refused = self._refused.get(key)
        if refused is not None and now < refused[1]:
            return refused[0]
        return self._down if now < self._down_until else None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="schema registry", daemon=True)
            self._thread.start()

    # --- in the thread ---

    def _work(self) -> None:
        while True:
            key = self._queue.get()
            answer = self._answer(key)
            with self._changed:
                if isinstance(answer, Schema):
                    self._schemas[key] = answer
                    self._refused.pop(key, None)
                elif answer is not None:
                    self._refused[key] = answer
                self._asked.pop(key, None)
                self._changed.notify_all()
            self._arrived()

    def _answer(self, key: Key) -> Schema | tuple[Missing, float] | None:
        """Fetches a schema; returns it, or (reason why it is missing, monotonic time until which that answer holds).

        None if the registry cannot be reached.
        """
        kept = self._cache.get(*key) if self._cache is not None else None
        if kept is not None:
            return kept
        if time.monotonic() < self._down_until:
            return None
        try:
            schema = fetch(self._http.get, self._url, *key)
        except UnreachableError as error:
            self._not_reachable(str(error))
            return None
        except RefusedError as error:
            seconds = NOT_FOUND_SECONDS if error.status == 404 else REFUSED_SECONDS
            said = str(error)
            text = f"{named(*key)}{' ' if said.startswith('not ') else ': '}{said}"
            return Missing(text), time.monotonic() + seconds
        except Exception as error:  # noqa: BLE001 (whatever it is, the thread goes on)
            return Missing(f"{named(*key)}: {type(error).__name__}: {error}"), time.monotonic() + REFUSED_SECONDS
        self._pause = PAUSE_SECONDS
        if self._cache is not None:
            self._cache.put(*key, schema)
        return schema

    def _not_reachable(self, why: str) -> None:
        text = f"registry not reachable: {why}"
        with self._changed:
            self._down = Missing(text, pending=True)
            self._down_until = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if not self._warned:
            self._warned = True
            self._warn(text)
