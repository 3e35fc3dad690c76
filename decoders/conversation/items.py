"""The results of framing; the items of both directions are merged by key."""

from __future__ import annotations

from typing import Any, Final

REQUEST: Final = 0
NO_REPLY: Final = 1
"""Kind of item: a request that wants no reply."""
TOKEN: Final = 2
IN_ORDER: Final = 3
"""Kind of item: a dialect's request whose response has no correlation id."""
ONE_WAY: Final = 4
"""Kind of item: a dialect's request that is never answered."""
RESPONSE: Final = 5
PROBLEM: Final = 6
END: Final = 7
WHOLE: Final = 8
"""Kind of item: an exchange that is complete without pairing (TLS)."""
BROKEN: Final = 9
"""Kind of item: a response that was incomplete when the connection ended."""
FRAME: Final = 10
"""Kind of item: a frame that may be a request or a response; the sides' roles are not known yet."""

Item = tuple[int, int, Any, "int | None"]
"""(key, kind, content, correlation id). Items are ordered by key.

The key is the address at which the capture completes the stream's bytes up to the item (see Stretch).
"""
