"""What framing finds, in the form in which both directions' findings are merged."""

from __future__ import annotations

from typing import Any, Final

REQUEST: Final = 0
NO_REPLY: Final = 1
"""A request that says that it wants no reply."""
TOKEN: Final = 2
RESPONSE: Final = 3
PROBLEM: Final = 4
END: Final = 5
WHOLE: Final = 6
"""An exchange that needs no pairing (TLS)."""
BROKEN: Final = 7
"""A response that the connection's end left half sent."""

Item = tuple[int, int, Any, "int | None"]
"""(key, kind, item, correlation id), in order of key: the address at which the stream up to that point was captured."""
