"""The state of a connection's SASL authentication: who the client is, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Progress of a connection's authentication.

    REFUSED: the broker does not accept the mechanism. FAILED: it does not accept the credentials.
    """

    CHOOSING = "choosing"
    AUTHENTICATING = "authenticating"
    AUTHENTICATED = "authenticated"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Session:
    """The state of a connection after one of its SASL exchanges.

    `since` is the time of the last successful authentication (ns since the epoch), `lifetime_ms` how long it is valid
    (0: no end). `offered` are the mechanisms that the listener offers. The `principal` is the name that the client
    gives; a broker's rules may map it to another. `authentications` counts successful ones: the first, and
    re-authentications (KIP-368). `error` is the name of an error code or the mechanism's own text, `message` the
    broker's error message.
    """

    state: State = State.CHOOSING
    mechanism: str | None = None
    offered: tuple[str, ...] = ()
    principal: str | None = None
    authentications: int = 0
    since: int | None = None
    lifetime_ms: int | None = None
    error: str | None = None
    message: str | None = None

    @property
    def ends(self) -> int | None:
        """When the session ends, in nanoseconds since the epoch; None if it has no end."""
        return None if self.since is None or not self.lifetime_ms else self.since + self.lifetime_ms * 1_000_000

    def in_words(self) -> str:
        """The session in one line: "alice by SCRAM-SHA-256, authenticated 2 times, for 60 s"."""
        who = self.principal or "somebody"
        words = f"{who} by {self.mechanism or 'a mechanism that was not seen'}, {self.state.value}"
        if self.authentications > 1:
            words += f" {self.authentications} times"
        if self.state is State.AUTHENTICATED and self.lifetime_ms:
            words += f", for {self.lifetime_ms / 1000:g} s"
        return words + "".join(f": {text}" for text in (self.error, self.message) if text)

    def to_json(self) -> dict[str, Any]:
        """The values that are known, for `from_json`; `since` is in nanoseconds since the epoch."""
        values = {name: getattr(self, name) for name in self.__slots__}
        known = {name: value for name, value in values.items() if value not in {None, ()}}
        return {**known, "state": self.state.value, **({"offered": list(self.offered)} if self.offered else {})}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Session:
        """The session from the result of `to_json`. Raises KeyError, TypeError or ValueError if `values` is not one."""
        read = {**values, "state": State(values["state"]), "offered": tuple(values.get("offered", ()))}
        return cls(**read)
