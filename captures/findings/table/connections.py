"""Rules about connections: other protocols, and responses that do not match requests."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="conn.wrong_protocol",
        number=13,
        title="Protocol other than Kafka's on a Kafka port",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A client spoke TLS, HTTP, SSH or the PROXY protocol to a listener that expects Kafka without TLS, or "
        "spoke without TLS to a listener that expects TLS. The broker closes such a connection without a response.",
        text="{peer} sent {what} to {broker} (connections: {connections}); it closed after {broker_bytes} bytes",
        cause="The client's security.protocol does not fit the listener, or something else connects to its port.",
        guards=(
            "Only the first bytes of connections whose handshake is in the capture count.",
            (
                "An address counts only if other connections speak Kafka without TLS there: other ports may have other "
                "protocols."
            ),
            "A connection that is opened and closed without a byte does not count: health checks do that.",
            "ApiVersions requests without a response count only if no other request at that address was answered.",
            "Connections count only if the capture has both directions.",
        ),
        thresholds=(
            Threshold("silent", 3, "connections", "closed without a byte after an ApiVersions request"),
            Threshold("close_ms", 1000, "ms", "longest time from the first packet to the close"),
        ),
        fixes=(
            Fix(
                "client",
                "security.protocol as the listener at this port has it",
                "security.protocol as the listener at this port has it",
                "PLAINTEXT and SASL_PLAINTEXT listeners take the first byte of TLS for a request's length",
            ),
            Fix("other", None, None, "point health checks of load balancers at another port, or let them only connect"),
        ),
        verify="The client's next connection begins with ApiVersions, and the broker answers it.",
        unknown=("Which listener the port belongs to: the broker's listeners setting tells.",),
    ),
    Rule(
        id="proto.desync",
        number=16,
        title="Requests and responses do not fit each other",
        severity=Severity.ERROR,
        confidence=Confidence.STRONG,
        vantage="this connection, whole",
        meaning="A broker answers the requests of a connection one by one, in their order, and repeats their "
        "correlation ids. Here a response belongs to no request, came out of order, was left out, or had an impossible "
        "length.",
        text="{troubles} responses on connection {connection} do not fit the requests: {first}",
        cause="Something between client and broker lost, repeated or reordered messages, or two threads wrote to one "
        "connection.",
        guards=(
            "Produce with acks=0 does not count: it has no response.",
            "Nothing is reported about a connection whose first packet is missing, or that has gaps or cut packets.",
            "Nothing is reported about a connection if the capture lacks the client's side.",
            "One response without a request at the end of a connection does not count: the request may be lost.",
            "A request that is still unanswered when its connection ends does not count.",
            (
                "A response without a request, on a connection that is open when the capture ends, may answer a lost "
                "request."
            ),
        ),
        thresholds=(),
        fixes=(
            Fix(
                "client",
                "update the client",
                "update librdkafka",
                "some versions mix up requests of threads that share a connection",
            ),
            Fix("other", None, None, "take proxies and load balancers out of the way: does the fault remain?"),
        ),
        verify="Another capture of the same client has no response without a request.",
        unknown=("Which side altered the stream: a capture at the other end tells.",),
    ),
)
