"""kproxy's own CA on disk, and the command that shows it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

from kproxy.cli.main import main
from kproxy.runs.settings import TlsSettings
from kproxy.tls import authority
from kproxy.tls.authority import LEAF_LIFE, Authority
from kproxy.tls.contexts import MOST_HOSTS, ClientSide
from kproxy.tls.errors import AuthorityError
from tests.kproxy.support import places


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "ca"
    first = Authority.open(directory)
    assert Authority.open(directory).fingerprint == first.fingerprint
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {
        "ca-key.pem": 0o600,
        "ca.pem": 0o600,
    }
    assert b"PRIVATE" not in first.path.read_bytes()


def test_two_that_make_it_at_once_have_the_same(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(Authority.open(tmp_path).fingerprint)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_renewed_one_is_another(tmp_path: Path) -> None:
    first = Authority.open(tmp_path)
    second = Authority.renew(tmp_path)
    assert first.fingerprint != second.fingerprint
    assert Authority.open(tmp_path).fingerprint == second.fingerprint
    assert second.path.read_bytes() == second.pem


def test_loose_permissions_are_tightened(tmp_path: Path) -> None:
    Authority.open(tmp_path)
    key = tmp_path / "ca-key.pem"
    key.chmod(0o644)
    Authority.open(tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"nothing", b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"])
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ca-key.pem").write_bytes(content)
    with pytest.raises(AuthorityError, match="kproxy ca --renew"):
        Authority.open(tmp_path)


def test_key_and_certificate_must_belong_together(tmp_path: Path) -> None:
    other = Authority.open(tmp_path / "other")
    Authority.open(tmp_path)
    key = tmp_path / "ca-key.pem"
    key.write_bytes(key.read_bytes().partition(b"-----BEGIN CERT")[0] + other.pem)
    with pytest.raises(AuthorityError, match="do not belong together"):
        Authority.open(tmp_path)


def test_a_directory_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuthorityError, match="file/ca"):
        Authority.open(tmp_path / "file" / "ca")


def test_leaves_are_short_lived_and_for_servers_only(tmp_path: Path) -> None:
    made = Authority.open(tmp_path)
    certificate = x509.load_pem_x509_certificate(made.mint(["broker.example"]))
    certificate.verify_directly_issued_by(made.certificate)
    assert certificate.not_valid_after_utc - datetime.now(UTC) <= LEAF_LIFE
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_an_expired_one_mints_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "LIFE", timedelta(seconds=-1))
    monkeypatch.setattr(authority, "SKEW", timedelta(hours=1))
    made = Authority.open(tmp_path)
    with pytest.raises(AuthorityError, match="expired on"):
        made.mint(["broker.example"])


def test_clients_cannot_fill_the_memory_with_names(tmp_path: Path) -> None:
    side = ClientSide(TlsSettings(in_certificate="auto"), [], Authority.open(tmp_path))
    for number in range(MOST_HOSTS + 50):
        side._for_host(f"{number}.example")
    assert len(side._minted) == MOST_HOSTS
    assert side._for_host("300.EXAMPLE") is side._for_host("300.example")


# --- kproxy ca -------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["ca", *arguments])


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places(monkeypatch, tmp_path)


def test_the_command_shows_and_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUST", "changeit")
    pem, store = tmp_path / "out.pem", tmp_path / "out.p12"
    done = run("--export", str(pem), "--truststore", str(store), "--password-env", "TRUST")
    assert done.exit_code == 0, done.output
    made = Authority.open(authority.default_directory())
    assert made.fingerprint in done.output
    assert str(made.path) in done.output
    assert pem.read_bytes() == made.pem
    read = pkcs12.load_pkcs12(store.read_bytes(), b"changeit")
    assert [one.certificate for one in read.additional_certs] == [made.certificate]
    assert b"PRIVATE" not in pem.read_bytes()
    assert run("--export", "-").stdout.encode() == made.pem
    assert made.fingerprint not in run("--renew").output


def test_the_truststore_s_password_is_never_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(tmp_path / "out.p12")
    assert run("--truststore", store).exit_code != 0
    monkeypatch.setenv("TRUST", "short")
    assert run("--truststore", store, "--password-env", "TRUST").exit_code != 0
    assert run("--truststore", store, "--password-env", "UNSET").exit_code != 0
    assert not Path(store).exists()


def test_as_json() -> None:
    script = "from kproxy.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "--json", "ca"], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"certificate", "fingerprint", "expires"}
