"""Makes `ssl` contexts and sessions for both sides from the TLS settings: certificates and verification."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures import private
from kproxy.decoders.extras import installing
from kproxy.runs.settings import TlsSettings
from kproxy.tls.errors import AuthorityError, TlsError

if TYPE_CHECKING:
    from kproxy.tls.authority import Authority

NEEDED = f"certificates of kproxy's own CA need cryptography: {installing('security')}"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_HOSTS = 256
"""Maximum number of hosts for which contexts are kept: clients choose the names, so the number must be limited."""
_KEYLOG_LINE = 1024
_SECRET = re.compile(rb"[A-Z][A-Z0-9_]* [0-9a-fA-F]{16,}")
"""The start of a line in a key log: a label and the client random."""


class Session(ssl.SSLObject):
    """The TLS session of one connection; `asked` is the server name (SNI) that a client has sent."""

    asked: str | None = None

    @property
    def described(self) -> str:
        """The session in words: "TLSv1.3, TLS_AES_256_GCM_SHA384, server name broker.example"."""
        cipher = self.cipher()
        facts = [self.version() or "TLS", cipher[0] if cipher else "no cipher"]
        name = self.asked if self.server_side else self.server_hostname
        if name:
            facts.append(f"server name {name}")
        certificate: dict[str, Any] = self.getpeercert() or {}
        if certificate:
            facts.append(f"{'client' if self.server_side else 'server'} certificate {subject(certificate)}")
        elif not self.server_side:
            facts.append("certificate not verified")
        return ", ".join(facts)


def subject(certificate: dict[str, Any]) -> str:
    """The subject of a certificate from `getpeercert`, as "commonName=a, organizationName=b"."""
    parts = [f"{name}={value}" for group in certificate.get("subject", ()) for name, value in group]
    return ", ".join(parts) or "without a subject"


class ClientSide:
    """TLS towards clients: with one certificate from files, or with one for each host from kproxy's own CA.

    `hosts` are names of the relay, which each issued certificate holds besides the host that the client asks for.
    """

    def __init__(self, settings: TlsSettings, hosts: Sequence[str], authority: Authority | None) -> None:
        """Loads the certificates. Raises TlsError, AuthorityError."""
        self._settings = settings
        self._hosts = tuple(hosts)
        self._authority = authority
        self._minted: dict[str, tuple[ssl.SSLContext, float]] = {}
        self._fixed = None
        if authority is None:
            self._fixed = self._context(*certificate_files(settings.in_certificate))
        else:
            self._for_host("")  # reports errors when kproxy starts, not at the first client

    @property
    def minted(self) -> bool:
        return self._fixed is None

    def session(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, host: str) -> Session:
        """A TLS session for a client that has connected to `host`. Raises AuthorityError if the CA has expired."""
        context = self._fixed or self._for_host(host)
        session = context.wrap_bio(incoming, outgoing, server_side=True)
        assert isinstance(session, Session)  # noqa: S101 (asked for in `_context`)
        return session

    def _for_host(self, host: str) -> ssl.SSLContext:
        host = host.lower()
        known = self._minted.pop(host, None)
        if known is None or known[1] < time.monotonic():
            assert self._authority is not None  # noqa: S101 (callers ask for minted certificates only)
            from kproxy.tls.authority import LEAF_LIFE

            pem = self._authority.mint([host, *self._hosts, *LOOPBACK])
            with _temporary(pem) as path:
                known = self._context(path, None), time.monotonic() + LEAF_LIFE.total_seconds() / 2
        self._minted[host] = known
        if len(self._minted) > MOST_HOSTS:
            del self._minted[next(iter(self._minted))]
        return known[0]

    def _context(self, certificate: str, key: str | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, certificate, key, self._settings)
        if self._settings.in_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            _trust(context, self._settings.in_ca)
        context.sni_callback = self._asked
        return _finished(context, self._settings)

    def _asked(self, session: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """SNI callback: switches to the certificate for `name`, the server name that the client asks for."""
        if isinstance(session, Session) and name:
            session.asked = name
            if self._authority is not None:
                with suppress(Exception):  # the session then keeps its first certificate
                    session.context = self._for_host(name)


class BrokerSide:
    """TLS towards brokers. Brokers are verified against the system's or given CAs, unless the settings disable it."""

    def __init__(self, settings: TlsSettings) -> None:
        """Loads certificates and CAs. Raises TlsError."""
        self._name = settings.out_name
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if settings.out_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif settings.out_ca is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            _trust(context, settings.out_ca)
        if settings.out_certificate:
            _load(context, *certificate_files(settings.out_certificate), settings)
        self.context = _finished(context, settings)
        try:
            self.session(ssl.MemoryBIO(), ssl.MemoryBIO(), "localhost")
        except ValueError as error:
            raise TlsError(f"--tls-out-name {settings.out_name!r} cannot be a server name: {error}") from None

    def server_name(self, host: str) -> str:
        """The server name that is sent to a broker and that its certificate must contain."""
        return self._name or host.partition("%")[0]

    def session(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, host: str) -> Session:
        session = self.context.wrap_bio(incoming, outgoing, server_hostname=self.server_name(host))
        assert isinstance(session, Session)  # noqa: S101 (asked for in `_finished`)
        return session


def client_side(settings: TlsSettings, hosts: Sequence[str]) -> ClientSide | None:
    """TLS towards clients; None if the settings do not enable it. Raises TlsError, AuthorityError."""
    if not settings.in_certificate:
        return None
    if settings.in_certificate != TlsSettings.AUTO:
        return ClientSide(settings, hosts, None)
    try:
        from kproxy.tls.authority import Authority, default_directory
    except ImportError as error:
        raise AuthorityError(f"{NEEDED} ({error.name} is missing)") from None

    return ClientSide(settings, hosts, Authority.open(default_directory()))


def broker_side(settings: TlsSettings) -> BrokerSide | None:
    """TLS towards brokers; None if the settings do not enable it. Raises TlsError."""
    return BrokerSide(settings) if settings.out else None


def certificate_files(text: str) -> tuple[str, str | None]:
    """Splits "CERT[,KEY]" into (certificate, key); key None means that the certificate's file holds the key too."""
    certificate, comma, key = text.rpartition(",")
    return (certificate, key) if comma else (text, None)


def _finished(context: ssl.SSLContext, settings: TlsSettings) -> ssl.SSLContext:
    context.sslobject_class = Session
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.keylog is not None:
        if not _may_append(settings.keylog):
            raise TlsError(f"{settings.keylog} exists and is not a key log: name another file")
        try:
            with private.log(Path(settings.keylog)) as file:
                private.restrict(file.fileno())
            context.keylog_filename = settings.keylog
        except OSError as error:
            raise TlsError(f"cannot write the key log {settings.keylog}: {error.strerror or error}") from None
    return context


def _may_append(path: str) -> bool:
    """Whether a key log may be appended to this file: it is missing, empty or already a key log."""
    try:
        if not Path(path).is_file():
            return True
        with Path(path).open("rb") as file:
            line = file.readline(_KEYLOG_LINE)
    except OSError:
        return True  # the later open for writing reports the error
    return not line.strip() or line.startswith(b"#") or _SECRET.match(line) is not None


def _load(context: ssl.SSLContext, certificate: str, key: str | None, settings: TlsSettings) -> None:
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        variable = settings.password_env
        if variable is None:
            raise TlsError(f"the key in {key or certificate} is encrypted: give --tls-password-env VARIABLE")
        value = os.environ.get(variable)
        if value is None:
            raise TlsError(f"--tls-password-env: there is no variable {variable} in the environment")
        return value

    _readable(certificate, *(() if key is None else (key,)))
    try:
        context.load_cert_chain(certificate, key, password)
    except (ssl.SSLError, ValueError) as error:
        where = certificate if key is None else f"{certificate} and {key}"
        reason = getattr(error, "reason", None) or str(error)
        if reason == "KEY_VALUES_MISMATCH":
            why = "the key belongs to another certificate"
        elif asked:
            why = "the key's password is wrong"
        else:
            why = f"no certificate and key as PEM ({reason})"
        raise TlsError(f"cannot use {where}: {why}") from None


def _trust(context: ssl.SSLContext, path: str) -> None:
    _readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsError(f"cannot use {path}: no CA certificates as PEM ({error.reason or error})") from None


def _readable(*paths: str) -> None:
    for path in paths:
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise TlsError(f"cannot read {path}: {error.strerror or error}") from None


@contextmanager
def _temporary(data: bytes) -> Iterator[str]:
    """Path of a temporary file (0600) with this data, for functions of `ssl` that take only files. Raises TlsError."""
    try:
        file = tempfile.NamedTemporaryFile(prefix="kproxy-")  # noqa: SIM115 (closed below)
        file.write(data)
        file.flush()
    except OSError as error:
        raise TlsError(f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}") from None
    with file:
        yield file.name
