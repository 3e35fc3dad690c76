"""Rules about secrets that are sent without TLS."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule

ROWS = (
    Rule(
        id="sec.cleartext",
        number=37,
        title="Secret is sent without TLS",
        severity=Severity.NOTE,
        confidence=Confidence.INFERRED,
        vantage="this client's traffic, as it was on the network",
        meaning="SASL/PLAIN sends the password as it is, SASL/OAUTHBEARER the token; AlterUserScramCredentials and "
        "CreateDelegationToken carry secrets as well. Without TLS everybody on the path can read them. Findings never "
        "show the secret.",
        text="{client} and {broker} passed {what} without TLS, {count:#time}",
        cause="The listener is PLAINTEXT or SASL_PLAINTEXT.",
        guards=(
            "A secret between a client and a broker on one host is an INFO.",
            "A capture that was decrypted with TLS secrets gives no finding.",
            "The finding is a NOTE, because TLS may have been terminated before, for example by kproxy itself.",
        ),
        thresholds=(),
        fixes=(
            Fix("client", "security.protocol=SASL_SSL", "security.protocol=SASL_SSL", "with a listener that has TLS"),
            Fix("client", "sasl.mechanism=SCRAM-SHA-512", "sasl.mechanism=SCRAM-SHA-512",
                "SCRAM proves the password without sending it; the records are still in clear"),
        ),
        verify="The connection begins with a TLS handshake. Then change the secret.",
        unknown=("Whether TLS was terminated before: kproxy says so in the comment of a connection's first packet.",),
    ),
)  # fmt: skip
