"""Authentication on a client's behalf: carries out the decisions of `kproxy.core.gate` on a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from kproxy.core.commands import ToBroker
from kproxy.core.gate import Act, Began, ClientEnded, FromBroker, Gate, Own, Refused
from kproxy.core.login import LoginError, Steps, login
from kproxy.decoders.schema import definitions
from kproxy.relay import credentials
from kproxy.runs.settings import SaslSettings

PATIENCE_SECONDS = 30.0


class Ends(Protocol):
    """The methods of a link that authentication needs (`kproxy.relay.link.Link`)."""

    def send(self, command: ToBroker) -> None:
        """Sends bytes to the broker and records them."""

    def deliver(self, data: bytes) -> None:
        """Passes bytes from the broker to the connection's state, the client and the recording."""

    def exchange_own(self, own: Own) -> None:
        """Records a frame of kproxy's authentication, and sends it to the broker if it is a request."""

    def hold_client(self, held: bool) -> None:
        """Pauses reading from the client, or resumes it."""

    def end_broker(self) -> None:
        """Sends FIN to the broker: the client sends no more, and all its bytes have passed."""

    def refuse(self, refused: Refused) -> None:
        """Warns the user and ends the connection."""


class OnBehalf:
    """Authenticates kproxy on one link and holds back the client's bytes meanwhile. Call `begin` first."""

    def __init__(self, settings: SaslSettings, ends: Ends) -> None:
        self._settings = settings
        self._ends = ends
        self._loop = asyncio.get_running_loop()
        self._gate = Gate(definitions(), self._steps)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether an authentication is under way, so that bytes from the client must wait."""
        return self._gate.busy

    def _steps(self, version: int | None) -> Steps:
        try:
            found = credentials.load(self._settings)
        except credentials.CredentialsError as error:
            raise LoginError(f"cannot authenticate kproxy: {error}") from None
        return login(self._settings.mechanism, found, version)

    def begin(self) -> None:
        self._carry_out(self._gate.begin(self._loop.time()))

    def to_broker(self, command: ToBroker) -> None:
        self._carry_out(self._gate.to_broker(command, self._loop.time()))

    def from_broker(self, data: bytes) -> None:
        self._carry_out(self._gate.from_broker(data, self._loop.time()))

    def client_ended(self) -> None:
        """Called when the client has sent FIN."""
        self._carry_out(self._gate.client_ended())

    def broken_off(self) -> None:
        """Called when the broker's connection has ended."""
        self._stop_timer()
        if self._gate.busy:
            self._carry_out([self._gate.refuse("closes the connection while kproxy authenticates")])

    def close(self) -> None:
        """Called when the link has ended; stops the timer."""
        self._stop_timer()

    def _carry_out(self, acts: Sequence[Act]) -> None:
        ends = self._ends
        for act in acts:
            if isinstance(act, ToBroker):
                ends.send(act)
            elif isinstance(act, FromBroker):
                ends.deliver(act.data)
            elif isinstance(act, Own):
                ends.exchange_own(act)
            elif isinstance(act, Refused):
                self._stop_timer()
                ends.refuse(act)
            elif isinstance(act, Began):
                self._stop_timer()
                self._timer = self._loop.call_later(PATIENCE_SECONDS, self._too_late)
                ends.hold_client(True)
            elif isinstance(act, ClientEnded):
                ends.end_broker()
            else:
                self._stop_timer()
                ends.hold_client(False)

    def _too_late(self) -> None:
        self._carry_out([self._gate.refuse(f"does not answer within {PATIENCE_SECONDS:g} seconds")])

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
