"""A link: a client's connection to kproxy and kproxy's connection to the broker.

All decisions are made in `kproxy.core`. This module moves bytes, passes back-pressure and the end of a connection from
one side to the other, and gives the recorder its copy of the bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Protocol

from kproxy.core.brokers import Node
from kproxy.core.commands import Changed, Command, Cut, End, Notice, Record, ToBroker, ToClient
from kproxy.core.connection import Connection
from kproxy.core.gate import Own, Refused
from kproxy.core.leaks import Address
from kproxy.recording.recorder import Flow, Recorder, SelectedFlow
from kproxy.relay import ports, probe
from kproxy.relay.acting import Acting
from kproxy.relay.limits import Room, high_water
from kproxy.relay.on_behalf import OnBehalf
from kproxy.relay.side import LinkSide
from kproxy.relay.upstream import Upstream
from kproxy.relay.warnings import Warnings
from kproxy.runs.settings import Settings, shown
from kproxy.tls import ends

if TYPE_CHECKING:
    from kproxy.core.acting import ActedConnection

DIAL_SECONDS = 30.0


class Owner(Protocol):
    """The part of a relay's interface that its links use (`kproxy.relay.server.Relay`)."""

    settings: Settings
    recorder: Recorder | None
    tls: ends.Ends
    upstream: Upstream
    acting: Acting
    warnings: Warnings
    room: Room
    connections: int
    passed: list[int]

    def admit(self, link: Link) -> bool:
        """Registers a new connection; returns False after a warning if too many are open."""

    def forget(self, link: Link) -> None:
        """Removes a connection that has ended."""

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Starts a task; the relay keeps a reference to the task until it is done."""


class Link:
    """A client's connection to kproxy and kproxy's connection to the broker."""

    __slots__ = (
        "_acted",
        "_alarm",
        "_core",
        "_early",
        "_ended",
        "_flow",
        "_login",
        "_relay",
        "broker",
        "client",
        "node",
        "target",
    )

    def __init__(self, relay: Owner, node: Node | None) -> None:
        self._relay = relay
        self.node = node
        self.client = LinkSide(self, 0, relay.passed)
        self.broker = LinkSide(self, 1, relay.passed)
        self._core: Connection | None = None
        self._acted: ActedConnection | None = None
        """`_core`, if it is offered to actors."""
        self._alarm: asyncio.TimerHandle | None = None
        self._flow: Flow | SelectedFlow | None = None
        self._login: OnBehalf | None = None
        self._ended = [False, False]
        self._early: list[bytes] = []
        """Bytes that the client sent before the broker was connected: at most one read, then reading is paused."""
        self.target: Address = ("", 0)

    @property
    def idle(self) -> bool:
        return self._core is None or (self._core.idle and not self._authenticating)

    @property
    def _vanished(self) -> bool:
        """Whether a rule hides each side from the other."""
        return self._acted is not None and self._acted.vanished

    @property
    def _authenticating(self) -> bool:
        return self._login is not None and self._login.busy

    @property
    def received_of_first(self) -> int | None:
        """A number that grows while the client's first request arrives; None once the request is complete."""
        return None if self._core is None or self._core.begun or self._vanished else self._core.received

    @property
    def waits_for_broker(self) -> bool:
        """Whether kproxy reads nothing from the client, because it still connects or authenticates to the broker.

        Both have a deadline of their own.
        """
        return self._core is None or self._authenticating

    def end_silent(self, seconds: float) -> None:
        """Ends the connection, because the client sent no whole request within `seconds`."""
        self._notice(
            Notice(
                "silent",
                f"sent no complete request within {seconds:g} seconds: kproxy ends its connection",
            ),
            0,
        )
        self.client.reset()
        self.close()

    @property
    def asked(self) -> str | None:
        """The server name (SNI) that the client sent in its TLS handshake; None if there is none."""
        transport = self.client.transport
        name: str | None = None if transport is None else transport.get_extra_info("server_name")
        return name

    @property
    def high_water(self) -> int:
        """How many bytes may wait for a slow reader before kproxy stops reading from the other side."""
        return high_water(self._relay.settings.memory_max, self._relay.room.taken)

    def sides(self, side: int) -> tuple[LinkSide, LinkSide]:
        """(the transport of `side`, the transport of the other side)"""
        return (self.client, self.broker) if side == 0 else (self.broker, self.client)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def connected(self, side: int) -> None:
        if side == 1:
            self._begin()
        elif self._relay.admit(self):
            self._relay.spawn(self._dial())
        else:
            self.client.reset()

    async def _dial(self) -> None:
        upstream = self._relay.upstream
        failures = []
        for host, port in upstream.targets(self):
            self.target = (host, port)
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await upstream.dial(self, host, port)
            except ends.RefusedError as refused:
                failures.append((host, port, str(refused)))
                peer = upstream.recorded(self.target, refused.peer)
                upstream.attempt(self.client.peer, peer, upstream.facts(self, refusal=str(refused)))
            except TimeoutError:
                failures.append((host, port, f"did not accept within {DIAL_SECONDS:g} seconds"))
                await upstream.failed(self, host, port, refused=False)
            except (OSError, UnicodeError) as error:
                failures.append((host, port, probe.reason(error)))
                await upstream.failed(self, host, port, refused=True)
            else:
                break
        for host, port, why in failures:
            upstream.warn(host, port, why)
        if self._core is None:
            self.client.reset()
            self._relay.forget(self)

    def _begin(self) -> None:
        """Begins relaying once both sides are connected; must be called before the broker's first byte can arrive."""
        client, broker = self.client, self.broker
        if client.transport is None or client.transport.is_closing() or broker.transport is None:
            broker.reset()
            self._relay.forget(self)
            return
        upstream, recorder = self._relay.upstream, self._relay.recorder
        own = client.transport.get_extra_info("sockname")
        listen = self._relay.settings.listen_host
        wildcard = listen in ports.ANYWHERE
        peer = upstream.recorded(self.target, broker.peer)
        host = own[0] if wildcard else listen
        self._core = self._relay.acting.connection(host, client.peer, peer, self.node, self._relay.connections)
        if self._core.records:
            self._act(self._core)
        if recorder is not None and client.peer is not None and peer is not None:
            self._flow = recorder.connection(client.peer, peer, facts=upstream.facts(self))
        sasl = self._relay.settings.sasl
        if sasl.mechanism:
            self._login = OnBehalf(sasl, self)
            self._login.begin()
        client.pause(self._authenticating)  # before the writes below, which may pause the client as well
        early, self._early = self._early, []
        for data in early:
            self.received(0, data)
        if self._ended[0]:
            self._ended[0] = False
            self.ended(0)
        if self._login is None:
            for side, other in ((client, broker), (broker, client)):
                side.other, side.passing = other, self._core.passing
                if self._flow is not None and recorder is not None:
                    side.notes, side.record = recorder.notes, self._flow.add_data

    # --- bytes -------------------------------------------------------------------------------------------------------

    def received(self, side: int, data: bytes) -> None:
        core = self._core
        if core is None:
            self._early.append(data)
            self.client.pause(True)
            return
        self._relay.passed[side] += len(data)
        if side == 0:
            self._carry_out(core.from_client(data))
        elif self._login is None:
            self.deliver(data)
        else:
            self._login.from_broker(data)
        if self._acted is not None:
            self._set_alarm(self._acted)

    def deliver(self, data: bytes) -> None:
        """Sends bytes from the broker on to the client, and records them."""
        core, flow = self._core, self._flow
        if core is None:
            return
        changed = self._carry_out(core.from_broker(data))
        if flow is not None and not core.records:
            if changed is None:
                flow.data(1, data)
            else:
                _record_changed(flow, data, changed)

    def _carry_out(self, commands: list[Command]) -> list[Changed] | None:
        """Carries out commands of the connection's state.

        Returns the reports on changed frames, None if there are none.
        """
        changed: list[Changed] | None = None
        for command in commands:
            kind = type(command)
            if kind is ToClient:
                self.client.write(command.data)  # type: ignore[union-attr]  # as its type says
            elif kind is ToBroker:
                if self._login is None:
                    self.send(command)  # type: ignore[arg-type]  # as its type says
                else:
                    self._login.to_broker(command)  # type: ignore[arg-type]  # as its type says
            elif isinstance(command, Record):
                if self._flow is not None:
                    self._flow.data(command.side, command.data, command.comment)
            elif isinstance(command, Cut):
                self._cut(command.reset, command.unclean)
            elif isinstance(command, Changed):
                changed = [*(changed or ()), command]
            elif isinstance(command, Notice):
                self._notice(command, 0 if command.topic.startswith("not-kafka-0") else 1)
            elif isinstance(command, End):
                self._notice(Notice(command.topic, command.text), 1)
                self.close()
        return changed

    def send(self, command: ToBroker) -> None:
        """Sends bytes from the client on to the broker, and records them."""
        self.broker.write(command.data)
        if self._flow is not None:
            self._flow.data(0, command.data, command.comment)

    # --- commands of actors and rules --------------------------------------------------------------------------------

    def _act(self, core: Connection) -> None:
        from kproxy.core.acting import ActedConnection

        if isinstance(core, ActedConnection):
            self._acted = core
            core.wake = self._wake
            self._set_alarm(core)

    def _wake(self) -> None:
        asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Sends the frames whose wait is over."""
        self._alarm = None
        if self._acted is not None:
            self._carry_out(self._acted.tick())
            self._set_alarm(self._acted)

    def _set_alarm(self, acted: ActedConnection) -> None:
        at = acted.due
        if self._alarm is not None:
            if self._alarm.when() == at:
                return
            self._alarm.cancel()
            self._alarm = None
        if at is not None:
            self._alarm = asyncio.get_running_loop().call_at(at, self._tick)

    def _cut(self, reset: bool, unclean: bool) -> None:
        """Ends the connection because an actor or rule demands it; in the recording, the broker ends it."""
        if self._flow is not None:
            if reset:
                self._flow.reset(1)
            else:
                self._flow.end(1)
        self.broker.close()
        if reset:
            asyncio.get_running_loop().call_soon(self.client.reset)  # later, so that the bytes just written are sent
        elif unclean:
            self.client.cut()
        else:
            self.client.close()

    # --- authentication on the client's behalf (`kproxy.relay.on_behalf.Ends`) ----------------------------------------

    def exchange_own(self, own: Own) -> None:
        if own.side == 0:
            self.broker.write(own.data)
        if self._flow is not None:
            self._flow.data(own.side, own.recorded, own.comment)

    def hold_client(self, held: bool) -> None:
        self.client.pause(held)

    def end_broker(self) -> None:
        if self._flow is not None:
            self._flow.end(0)
        self.broker.write_eof()
        if all(self._ended):
            self.close()

    def refuse(self, refused: Refused) -> None:
        if refused.answer:
            self.client.write(refused.answer)
        side = 0 if refused.client else 1
        self._notice(Notice(f"sasl-{side}-{refused.why}", refused.why), side)
        self.close()

    def _notice(self, notice: Notice, side: int) -> None:
        client = "a client" if self.client.peer is None else f"client {self.client.peer[0]}"
        where = client if side == 0 else f"upstream {shown(*self.target)}"
        self._relay.warnings.warn(notice.topic if notice.once else f"{notice.topic}-{where}", f"{where} {notice.text}")

    # --- back-pressure and ends --------------------------------------------------------------------------------------

    def full(self, side: int, full: bool) -> None:
        """Back-pressure: while the write buffer of `side` is full, stops reading from the other side."""
        _, other = self.sides(side)
        other.pause(full or (side == 1 and self._authenticating))

    def ended(self, side: int) -> None:
        """Called when `side` has sent FIN: the other side gets a FIN after all bytes sent before."""
        if self._core is not None and not self._ended[side]:
            self._carry_out(self._core.client_ended() if side == 0 else self._core.broker_ended())
        _, other = self.sides(side)
        self._ended[side] = True
        if self._core is None:
            return
        if self._login is not None:
            if side == 0:
                self._login.client_ended()
                return
            self._login.broken_off()
        if self._flow is not None:
            self._flow.end(side)
        if side == 1 and self._vanished and not self._ended[0]:
            self.broker.close()
            return
        other.write_eof()
        if all(self._ended):
            self.close()

    def lost(self, side: int, error: Exception | None) -> None:
        """Called when the connection of `side` is gone: ends the other connection in the same way (FIN or RST)."""
        _, other = self.sides(side)
        if side == 1 and self._login is not None:
            self._login.broken_off()
        if isinstance(error, ssl.SSLError):
            why = self._relay.tls.broken(side, error)
            self._notice(Notice(f"tls-{side}-{why}", why), side)
        if side == 1 and self._vanished and not self._ended[0]:
            self._ended[1] = True  # The client is not told.
        elif error is not None:
            if self._core is not None and side == 1:
                self._carry_out(self._core.broker_ended())
            if self._flow is not None:
                self._flow.reset(side)
            asyncio.get_running_loop().call_soon(other.reset)  # later, so that the bytes just written are sent first
        elif not self._ended[side] or other.transport is None:
            other.close()
        if self.client.transport is None and self.broker.transport is None:
            self._finished()

    def close(self) -> None:
        """Closes both connections once their write buffers are sent, the broker's first."""
        self.broker.close()
        self.client.close()

    def _finished(self) -> None:
        if self._login is not None:
            self._login.close()
        if self._flow is not None:
            self._flow.end(0)
            self._flow.end(1)
        if self._alarm is not None:
            self._alarm.cancel()
        if self._core is not None:
            self._core.dropped()
        self._relay.forget(self)


def _record_changed(flow: Flow | SelectedFlow, data: bytes, changed: list[Changed]) -> None:
    """Records bytes from a broker; the last bytes of each changed frame become a packet with the frame's comment."""
    view = memoryview(data)
    at = 0
    for one in changed:
        flow.data(1, view[at : one.start])
        flow.data(1, view[one.start : one.end], one.comment)
        at = one.end
    flow.data(1, view[at:])
