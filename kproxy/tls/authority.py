"""kproxy's own certificate authority, made on first use; it issues a certificate for each host.

Its files are readable by their owner only. `ca-key.pem` holds the authority's key and certificate; `ca.pem` is a copy
of the certificate for clients to trust. Sources: RFC 5280 (certificates), RFC 7292 (PKCS#12).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kproxy.captures import private
from kproxy.tls.errors import AuthorityError

KEY_FILE, CERTIFICATE_FILE = "ca-key.pem", "ca.pem"
LIFE = timedelta(days=5 * 365)
LEAF_LIFE = timedelta(days=7)
SKEW = timedelta(hours=1)
"""How far a client's clock may be behind kproxy's: certificates are valid from this long before they are made."""
ALIAS = b"kproxy"
"""Name of the certificate's entry in a truststore."""

_LONGEST_NAME = 64
"""Maximum length of a common name in characters."""


def default_directory() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("kproxy", appauthor=False)) / "ca"


class Authority:
    """A certificate authority with its key; made by `open` or `renew`."""

    def __init__(self, directory: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.path = directory / CERTIFICATE_FILE
        self.certificate = certificate
        self._key = key
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        """The key of all certificates issued by this process; never stored."""

    @classmethod
    def open(cls, directory: Path) -> Authority:
        """The authority stored in `directory`; makes one if there is none. Raises AuthorityError."""
        with _explained(directory):
            path = private.folder(directory) / KEY_FILE
            if not path.exists():
                _put(path, _new())
            return cls._read(directory)

    @classmethod
    def renew(cls, directory: Path) -> Authority:
        """Makes a new authority in `directory`, which replaces an existing one. Raises AuthorityError."""
        with _explained(directory):
            private.replace(private.folder(directory) / KEY_FILE, _new())
            return cls._read(directory)

    @classmethod
    def _read(cls, directory: Path) -> Authority:
        path = directory / KEY_FILE
        path.chmod(0o600)
        data = path.read_bytes()
        key = serialization.load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError(f"key and certificate in {path} do not belong together")
        made = cls(directory, key, certificate)
        if not made.path.exists() or made.path.read_bytes() != made.pem:
            private.replace(made.path, made.pem)
        return made

    @property
    def pem(self) -> bytes:
        """The certificate as PEM, which OpenSSL and Kafka clients since 2.7 accept as a truststore."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in the format of openssl and keytool."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    @property
    def expires(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def truststore(self, password: bytes) -> bytes:
        """A PKCS#12 truststore that holds the authority's certificate, for Java."""
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, ALIAS)], serialization.BestAvailableEncryption(password)
        )

    def mint(self, hosts: Iterable[str]) -> bytes:
        """Issues a certificate for these host names and IP addresses, valid for LEAF_LIFE.

        Returns key and certificate as PEM.

        Invalid names are left out. Raises AuthorityError if the authority has expired.
        """
        now = datetime.now(UTC)
        if now >= self.expires:
            raise AuthorityError(f"kproxy's CA expired on {self.expires:%Y-%m-%d}: kproxy ca --renew makes a new one")
        names = [name for name in map(_name, dict.fromkeys(hosts)) if name is not None]
        subject = str(names[0].value)[:_LONGEST_NAME] if names else "kproxy"
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(self.certificate.subject)
            .public_key(self._leaf_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(now - SKEW, self.certificate.not_valid_before_utc))
            .not_valid_after(min(now + LEAF_LIFE, self.expires))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._leaf_key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )  # fmt: skip
        return _key_pem(self._leaf_key) + certificate.public_bytes(serialization.Encoding.PEM)


def _new() -> bytes:
    """Makes a new authority; returns its key and certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kproxy"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"kproxy CA made on {now:%Y-%m-%d %H:%M:%S}"),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName | None:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    with contextlib.suppress(ValueError):
        encoded = host.encode("idna").decode()
        return x509.DNSName(encoded) if encoded else None
    return None


def _put(path: Path, data: bytes) -> None:
    """Creates a file atomically; does nothing if another thread or process has created it meanwhile."""
    beside = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    private.replace(beside, data)
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(beside)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuthorityError(f"kproxy's CA in {directory}: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise AuthorityError(
            f"kproxy's CA in {directory} cannot be read ({error}): kproxy ca --renew makes a new one"
        ) from None
