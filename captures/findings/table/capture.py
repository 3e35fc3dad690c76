"""Rules about the capture itself: bytes that it lacks."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="capture.health",
        number=65,
        title="The capture is incomplete",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="any",
        meaning="Bytes of these connections are missing: packets were lost while capturing, cut by a snap length, or "
        "one direction was not captured. Other findings about these connections are less certain.",
        text="bytes are missing on {connections} of {all} connections, in {places} places: {codes}",
        cause="The capturing program or device lost packets, cut them, or saw one direction only.",
        guards=("A connection that was open when the capture began does not count if only its beginning is missing.",),
        thresholds=(
            Threshold("share", 0.1, "of connections", "with missing bytes, for a WARN"),
            Threshold("least", 3, "connections", "with missing bytes, for a WARN"),
        ),
        fixes=(
            Fix(
                "capture",
                None,
                None,
                "a larger buffer (tcpdump -B), whole packets (-s 0), both directions",
            ),
        ),
        verify="The next capture has no gaps: `kproxy stats` prints no warning.",
    ),
)
