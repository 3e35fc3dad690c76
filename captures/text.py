"""Short texts for attributes of exchanges: sizes, latencies, results, APIs, times."""

from __future__ import annotations

from datetime import datetime

from kproxy.decoders.exchange import Status
from kproxy.decoders.schema import Definitions


def size_text(size: int) -> str:
    """A number of bytes in at most five characters: 92, 4.1k, 19k, 3.1M."""
    if size < 1000:
        return str(size)
    value = float(size)
    for unit in "kMGT":
        value /= 1000
        if value < 999.5:
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{value:.0f}P"


def latency_text(nanoseconds: int) -> str:
    """A duration as text: below a second in milliseconds without a unit (0.3, 62.4), else in seconds with one (2.4s,
    312s).
    """
    milliseconds = nanoseconds / 1e6
    if abs(milliseconds) < 999.95:
        return f"{milliseconds:.1f}"
    seconds = milliseconds / 1000
    return f"{seconds:.1f}s" if abs(seconds) < 99.95 else f"{seconds:.0f}s"


RESULTS: dict[Status, str] = {
    Status.WAITING: "waiting",
    Status.OK: "ok",
    Status.NO_REPLY_EXPECTED: "no reply due",
    Status.NO_RESPONSE: "no response",
    Status.ORPHAN_RESPONSE: "no request",
    Status.UNDECODABLE: "undecoded",
    Status.CUT: "cut",
    Status.TLS: "TLS",
}
"""By status of an exchange, its text in one to three words."""


def delay_text(*, long_poll: bool, throttled: bool) -> str:
    """The words after a result that say why it came late; "" if nothing is known of it.

    `long_poll`: the broker held a Fetch until its max wait was over; `throttled`: the broker throttled the client.
    """
    return " long poll" if long_poll else " throttled" if throttled else ""


def api_text(
    definitions: Definitions,
    key: int | None,
    version: int | None,
    *,
    token: bool = False,
    protocol: str | None = None,
) -> str:
    """API and version of an exchange, such as "Produce v11" or "Key 32001 v0".

    "SaslToken" for a `token` without Kafka's framing, "(unmatched)" if the capture lacks the request.
    """
    if token:
        return "SaslToken"
    if key is None:
        return "(unmatched)"
    name = definitions.shown_api_name(key, protocol)
    return name if version is None else f"{name} v{version}"


def utc(time: str | None) -> str:
    return "" if time is None else time[11:23]


def local(time: str | None) -> str:
    """An RFC 3339 time converted to this machine's time zone; in UTC if the zone cannot represent it."""
    if time is None:
        return ""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{utc(time)}Z"
    return f"{moment:%H:%M:%S}{time[19:23]}"
