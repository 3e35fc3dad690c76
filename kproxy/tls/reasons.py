"""Explains TLS failures and what to do; each text completes "client 10.0.0.7 …" or "upstream kafka:9093 …".

Sources: RFC 8446 section 6.2 (alerts); OpenSSL (names of reasons).
"""

from __future__ import annotations

import ssl

from kproxy.core.protocols import is_request, other_protocol
from kproxy.tls.layer import HANDSHAKE_SECONDS, HandshakeError

_NOT_TRUSTED = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")
"""Names of the alerts with which a side refuses the other's certificate."""
_NOTHING_SHARED = (
    "UNSUPPORTED_PROTOCOL",
    "PROTOCOL_VERSION",
    "NO_SHARED_CIPHER",
    "HANDSHAKE_FAILURE",
    "VERSION_TOO_LOW",
)

_NAME_MISMATCH = (62, 64)
"""OpenSSL's error codes for a certificate with another host name or IP address."""
_EXPIRED = 10


def of_client(failure: HandshakeError, *, minted: bool) -> str:
    """Explains a client's failed handshake.

    `minted` says that kproxy's own CA issued the certificate the client was sent.
    """
    error, first = failure.error, failure.first
    protocol = other_protocol(first)
    if protocol == "HTTP":
        return "sends HTTP to a TLS port, not Kafka"
    if protocol is None and is_request(first):
        return "sends plaintext Kafka to a TLS port: set its security.protocol to SSL, or leave out --tls-in"
    if protocol is None and first:
        return f"sends bytes that are neither TLS nor Kafka ({first[:8]!r})"
    if error is None:
        return _silent(failure) or "closed the connection during the TLS handshake"
    reason = error.reason or str(error)
    if "ALERT" in reason and any(alert in reason for alert in _NOT_TRUSTED):
        advice = "the CA that `kproxy ca` exports" if minted else "the CA of --tls-in's certificate"
        return (
            f"refuses kproxy's certificate ({_alert(reason)}): the client needs {advice}, "
            "and the certificate must name the host that the client connects to"
        )
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "presents no certificate, but --tls-in-ca requires one"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"presents a certificate that does not verify: {error.verify_message} (--tls-in-ca names the CAs to trust)"
        )
    if any(word in reason for word in _NOTHING_SHARED):
        return f"and kproxy share no TLS version or cipher ({_alert(reason)})"
    return f"has a TLS error: {_alert(reason)}"


def of_broker(failure: HandshakeError) -> str:
    """Explains why the TLS handshake with a broker failed, or the meaning of an alert that came after it."""
    error, first = failure.error, failure.first
    protocol = other_protocol(first)
    if protocol == "HTTP":
        return "speaks HTTP, neither TLS nor Kafka"
    if protocol is None and first:
        return f"does not speak TLS, it sends {first[:8]!r}: leave out --tls-out if it is plaintext"
    if error is None:
        return _silent(failure) or (
            "closed the connection during the TLS handshake: the broker may speak plaintext (leave out --tls-out) "
            "or require a client certificate (--tls-out-cert)"
        )
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message
        if error.verify_code in _NAME_MISMATCH:
            return f"has a certificate for another name ({said}): --tls-out-name says which name to expect"
        if error.verify_code == _EXPIRED:
            return f"has a certificate that does not verify: {said}"
        return f"has a certificate that does not verify ({said}): --tls-out-ca takes the CA to trust"
    if "CERTIFICATE_REQUIRED" in reason:
        return "requires a client certificate: give --tls-out-cert"
    if "ALERT" in reason and any(alert in reason for alert in _NOT_TRUSTED):
        return f"refuses kproxy's certificate, or requires one: --tls-out-cert ({_alert(reason)})"
    if any(word in reason for word in _NOTHING_SHARED):
        return (
            "and kproxy share no TLS version or cipher, "
            f"or the broker requires a client certificate: --tls-out-cert ({_alert(reason)})"
        )
    return f"has a TLS error: {_alert(reason)}"


def _silent(failure: HandshakeError) -> str | None:
    return f"did not finish the TLS handshake within {HANDSHAKE_SECONDS:g} seconds" if failure.late else None


def _alert(reason: str) -> str:
    """OpenSSL's name of a reason in words: "TLSV1_ALERT_UNKNOWN_CA" becomes "alert unknown ca"."""
    at = reason.find("ALERT_")
    return (reason if at < 0 else reason[at:]).replace("_", " ").lower()
