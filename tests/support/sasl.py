"""Brokers with SASL listeners, the user that may log in, and credentials."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.brokers import Cluster, free_ports
from tests.support.certificates import TestCa

USER: Final = "alice"
PASSWORD: Final = "alice-secret"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")
OPEN, ENCRYPTED, BRIEF = "sasl_plaintext", "sasl_ssl", "brief"
"""The listeners: without TLS, with TLS, and without TLS but with sessions that last REAUTHENTICATION_MS."""
REAUTHENTICATION_MS: Final = 3000

_SECURITY: Final = "org.apache.kafka.common.security"
_PROTOCOLS: Final = {OPEN: "SASL_PLAINTEXT", ENCRYPTED: "SASL_SSL", BRIEF: "SASL_PLAINTEXT"}
_MODULES: Final = {
    "PLAIN": f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    **dict.fromkeys(SCRAM, f"{_SECURITY}.scram.ScramLoginModule required;"),
    "OAUTHBEARER": f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";',
}
_VALIDATOR: Final = f"{_SECURITY}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


class SaslCluster(Cluster):
    """Brokers of Kafka 4.4.0 with the listeners above and a plaintext one. USER may log in at all of them; tokens need
    no signature."""

    def __init__(self, nodes: int, directory: Path, host: str = "127.0.0.1") -> None:
        super().__init__("4.4.0", nodes, directory, self._listeners, host=host)
        self.own_ca = TestCa(directory, "sasl-ca")
        self._ports = {name: free_ports(nodes, host) for name in _PROTOCOLS}

    def bootstrap_of(self, listener: str) -> str:
        return ",".join(f"{self.host}:{port}" for port in self._ports[listener])

    def _listeners(self, node: int) -> dict[str, object]:
        clients = {
            "PLAINTEXT": self.ports[node - 1],
            **{name.upper(): all_[node - 1] for name, all_ in self._ports.items()},
        }
        shown = [f"{name}://{self.host}:{port}" for name, port in clients.items()]
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        protocols |= {name.upper(): protocol for name, protocol in _PROTOCOLS.items()}
        certificate, key = self.own_ca.leaf(f"broker-{node}", "localhost", self.host)
        both = self.directory / f"sasl-{node}.pem"
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        found: dict[str, object] = {
            "listeners": ",".join([*shown, f"CONTROLLER://127.0.0.1:{self.controllers[node - 1]}"]),
            "advertised.listeners": ",".join(shown),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": both,
        }
        for listener in _PROTOCOLS:
            prefix = f"listener.name.{listener}"
            for mechanism, module in _MODULES.items():
                found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
                if listener == BRIEF:
                    found[f"{prefix}.{mechanism.lower()}.connections.max.reauth.ms"] = REAUTHENTICATION_MS
            found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _VALIDATOR
        return found

    def add_users(self) -> None:
        """Add USER with PASSWORD for SCRAM; for PLAIN and tokens the brokers' configuration suffices."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([wanted]).values():
                done.result(30)


def token(subject: str = USER, seconds: int = 3600) -> str:
    """An unsecured JWS (RFC 7515, A.5) that is valid for `seconds`."""
    now = int(time.time())
    parts: tuple[Mapping[str, object], ...] = (
        {"alg": "none"},
        {"sub": subject, "iat": now, "exp": now + seconds, "scope": "kafka"},
    )
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


EXTENSIONS: Final = {"traceId": "4711", "logicalCluster": "lkc=1, second"}


def credentials(directory: Path, mechanism: str, password: str = PASSWORD) -> Path:
    """Write a file for --sasl-credentials; OAUTHBEARER's has a token and EXTENSIONS."""
    path = directory / f"{mechanism}.login"
    bearer = "\n".join([token(), *(f"{name}={value}" for name, value in EXTENSIONS.items())])
    path.write_text(bearer if mechanism == "OAUTHBEARER" else f"username={USER}\npassword={password}\n")
    path.chmod(0o600)
    return path
