"""Rules about responses that lack or repeat partitions of the request."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="response.incomplete",
        number=81,
        title="Response lacks requested topics or partitions",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The response to a request lacks partitions or topics that the request names, or has them twice. "
        "Brokers answer each of them, with an error if need be; clients wait for the rest, or fail.",
        text="{api} v{version} of {broker}: of {asked} in the request the response {what}, {example} among them",
        cause="A proxy, or a broker that is not Apache Kafka, changes responses.",
        guards=(
            "A Fetch within a session may leave out partitions: only a Fetch that asks for all of them counts.",
            "A throttled Fetch does not count: its response has no partitions.",
            "Produce with acks=0 has no response, and a response with a top-level error has no parts: neither counts.",
            "The response must have some of the request's parts, or none at all.",
            "Requests for partitions that cannot exist, such as negative ones, do not count.",
            "Only whole frames with the layout of their version count.",
        ),
        thresholds=(
            Threshold("times", 1, "responses", "of one API of a broker to this client"),
            Threshold("empty", 3, "responses", "of one API on a connection, for empty responses"),
        ),
        fixes=(
            Fix("broker", None, None, "look at what is between client and broker, proxies and their rules first"),
            Fix("client", "the latest version", "the latest version", "newer clients report such responses"),
        ),
        verify="Responses have each partition and topic of their request once.",
        unknown=("Who changed the response: a capture on the broker's side tells.",
                 "Responses that lack as many partitions as they have twice: only the numbers are compared."),
        under=("proto.desync",),
    ),
)  # fmt: skip
