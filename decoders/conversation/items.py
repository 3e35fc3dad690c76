"""What framing finds, in the form in which both directions' findings are merged."""

from __future__ import annotations

from typing import Any, Final

REQUEST: Final = 0
NO_REPLY: Final = 1
"""A request that says that it wants no reply."""
TOKEN: Final = 2
IN_ORDER: Final = 3
"""A dialect's request whose answer has no correlation id."""
ONE_WAY: Final = 4
"""A dialect's request that is never answered."""
RESPONSE: Final = 5
PROBLEM: Final = 6
END: Final = 7
WHOLE: Final = 8
"""An exchange that needs no pairing (TLS)."""
BROKEN: Final = 9
"""A response that the connection's end left half sent."""
FRAME: Final = 10
"""A frame of a direction of which it is not told yet whether it asks or answers."""

Item = tuple[int, int, Any, "int | None"]
"""(key, kind, item, correlation id), in order of key: the address at which the stream up to that point was captured."""
