"""Items: results of framing, which are merged from both directions by key."""

from __future__ import annotations

from typing import Any, Final

REQUEST: Final = 0
NO_REPLY: Final = 1
"""A request that wants no reply."""
TOKEN: Final = 2
IN_ORDER: Final = 3
"""A dialect's request whose response has no correlation id."""
ONE_WAY: Final = 4
"""A dialect's request that is never answered."""
RESPONSE: Final = 5
PROBLEM: Final = 6
END: Final = 7
WHOLE: Final = 8
"""An exchange that needs no pairing (TLS)."""
BROKEN: Final = 9
"""A response that was incomplete when the connection ended."""
FRAME: Final = 10
"""A frame of a direction that is not known yet to be the asking or the answering one."""

Item = tuple[int, int, Any, "int | None"]
"""(key, kind, item, correlation id), ordered by key: the address by which the stream up to the item was captured."""
