"""--sasl: what is taken for credentials and what is refused, and what the settings become."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli import settings as cli
from kproxy.cli.clusters import clusters
from kproxy.cli.commands.run import command as run
from kproxy.cli.exits import Failure
from kproxy.cli.options.sasl import checked
from kproxy.cli.options.sasl import settings as sasl_settings
from kproxy.core.login import Credentials
from kproxy.relay import credentials
from kproxy.relay.credentials import CredentialsError
from kproxy.runs.settings import Cluster, SaslSettings, Settings, TlsSettings, upstream
from tests.support.sasl import token

VARIABLES = ("KPROXY_SASL_USERNAME", "KPROXY_SASL_PASSWORD", "KPROXY_SASL_TOKEN", "KPROXY_SASL_EXTENSIONS")


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    cli.reset()
    yield
    cli.reset()


def written(directory: Path, text: str, mode: int = 0o600) -> SaslSettings:
    path = directory / "login"
    path.write_text(text)
    path.chmod(mode)
    return SaslSettings("PLAIN", str(path))


def test_a_file_with_name_and_password(tmp_path: Path) -> None:
    told = written(tmp_path, "# ours\nusername=alice\n\npassword= a=b \n")
    assert credentials.load(told) == Credentials("alice", " a=b ")
    assert "a=b" not in repr(credentials.load(told))


def bearer(directory: Path, text: str) -> SaslSettings:
    return SaslSettings("OAUTHBEARER", written(directory, text).credentials)


def test_a_file_with_a_token(tmp_path: Path) -> None:
    found = credentials.load(bearer(tmp_path, token() + "\n"))
    assert found.token.count(".") == 2
    assert found.extensions == {}


def test_a_file_with_a_token_and_extensions(tmp_path: Path) -> None:
    text = "\na.b.c\r\n# ours\n\ntraceId=4711\nlogicalCluster= lkc=1, second\n"
    found = credentials.load(bearer(tmp_path, text))
    assert found == Credentials(token="a.b.c", extensions={"traceId": "4711", "logicalCluster": " lkc=1, second"})


@pytest.mark.parametrize(
    "line", ["auth=x", "AUTH=x", "x-y=1", "x1=1", "x", "x=", "=1", "x=é", "x=\1y", "traceId=2", "secret token"]
)
def test_what_is_no_extension(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CredentialsError, match="line 3: not an extension") as raised:
        credentials.load(bearer(tmp_path, f"a.b.c\ntraceId=1\n{line}\n"))
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("KPROXY_SASL_TOKEN", "a.b.c")
    monkeypatch.setenv("KPROXY_SASL_EXTENSIONS", f"traceId=1,{line}")
    with pytest.raises(CredentialsError, match="KPROXY_SASL_EXTENSIONS: not an extension"):
        credentials.load(SaslSettings("OAUTHBEARER"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no username and no password"),
        ("username=alice", "has no password"),
        ("username=alice\npasword=secret", "line 2"),
        ("alice:secret", "line 1"),
        ("x" * (credentials.LARGEST + 1), "longer"),
        ("\udcff", "UTF-8"),
    ],
)
def test_what_is_no_file_of_credentials(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_bytes(text.encode(errors="surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(CredentialsError, match=why) as raised:
        credentials.load(SaslSettings("PLAIN", str(path)))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("text", ["username=alice\npassword=secret", "a b", "\1", "é", "=="])
def test_what_is_no_token(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What names its parts is for other mechanisms: the password must not be taken for an extension."""
    with pytest.raises(CredentialsError, match="does not begin with a token"):
        credentials.load(bearer(tmp_path, text))
    monkeypatch.setenv("KPROXY_SASL_TOKEN", text)
    with pytest.raises(CredentialsError, match="KPROXY_SASL_TOKEN is not a token"):
        credentials.load(SaslSettings("OAUTHBEARER"))


@pytest.mark.parametrize(("mode", "taken"), [(0o600, True), (0o640, True), (0o644, False), (0o604, False)])
def test_a_file_that_everybody_can_read_is_refused(mode: int, taken: bool, tmp_path: Path) -> None:
    told = written(tmp_path, "username=alice\npassword=secret\n", mode)
    if taken:
        assert credentials.load(told).username == "alice"
        return
    with pytest.raises(CredentialsError, match="chmod 600"):
        credentials.load(told)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="cannot read"):
        credentials.load(SaslSettings("PLAIN", str(tmp_path / "none")))


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CredentialsError, match="FILE, or set KPROXY_SASL_USERNAME and KPROXY_SASL_PASSWORD"):
        credentials.load(SaslSettings("PLAIN"))
    monkeypatch.setenv("KPROXY_SASL_USERNAME", "alice")
    monkeypatch.setenv("KPROXY_SASL_PASSWORD", "secret")
    monkeypatch.setenv("KPROXY_SASL_TOKEN", "token")
    assert credentials.load(SaslSettings("PLAIN")) == Credentials("alice", "secret")
    assert credentials.load(SaslSettings("OAUTHBEARER")) == Credentials(token="token")
    monkeypatch.setenv("KPROXY_SASL_EXTENSIONS", "traceId=4711, zone=east 1,")
    extensions = {"traceId": "4711", "zone": "east 1"}
    assert credentials.load(SaslSettings("OAUTHBEARER")) == Credentials(token="token", extensions=extensions)


def test_options(tmp_path: Path) -> None:
    assert sasl_settings(None, None) == SaslSettings()
    assert sasl_settings("scram-sha-256", tmp_path / "x") == SaslSettings("SCRAM-SHA-256", str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--sasl", "plain"], "KPROXY_SASL_USERNAME"),
        (["--sasl", "gssapi"], "'gssapi' is not one of"),
        (["--sasl-credentials", "x"], "--sasl-credentials needs --sasl"),
        (["--sasl", "plain", "--sasl-password", "secret"], "No such option"),
    ],
)
def test_what_is_refused(arguments: list[str], why: str) -> None:
    result = CliRunner().invoke(run, ["--upstream", "kafka:9092", *arguments])
    assert result.exit_code != 0
    assert why in result.output + str(result.exception)


@pytest.mark.parametrize(
    ("tls", "listen", "mechanism", "said"),
    [
        (False, {}, "PLAIN", ["unencrypted"]),
        (True, {}, "PLAIN", []),
        (False, {}, "SCRAM-SHA-256", []),
        (True, {"listen_host": "*"}, "SCRAM-SHA-256", ["every client that reaches * acts on the cluster"]),
        (
            True,
            {"listen_host": "*", "transparent": "redirect"},
            "SCRAM-SHA-256",
            ["every client whose connections are redirected acts on the cluster"],
        ),
    ],
)
def test_warnings(
    tls: bool,
    listen: dict[str, Any],
    mechanism: str,
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = SaslSettings(mechanism, written(tmp_path, "username=a\npassword=b").credentials)
    checked(Settings(upstream("kafka:9092"), sasl=told, tls=TlsSettings(out=tls), **listen))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_clusters_have_their_own(tmp_path: Path) -> None:
    (tmp_path / "kproxy").mkdir()
    (tmp_path / "kproxy" / "config.toml").write_text(
        '[clusters.east]\nupstream = "east"\nlisten = "1"\n'
        '[clusters.west]\nupstream = "west"\nlisten = "2"\nsasl = "plain"\nsasl-credentials = "/w"\n'
    )
    east, west = clusters((), "", SaslSettings("SCRAM-SHA-256", "/e"))
    assert (east.sasl, west.sasl) == (SaslSettings("SCRAM-SHA-256", "/e"), SaslSettings("PLAIN", "/w"))
    (tmp_path / "kproxy" / "config.toml").write_text('[clusters.a]\nupstream = "a"\nlisten = "1"\nsasl = "no"\n')
    cli.reset()
    with pytest.raises(Failure, match="unknown mechanism"):
        clusters(())


def test_settings_travel() -> None:
    more = (Cluster("b", (("b", 1),), "127.0.0.1", 2, sasl=SaslSettings("PLAIN", "/b")),)
    told = Settings((("a", 1),), name="a", more=more, sasl=SaslSettings("SCRAM-SHA-512", "/a"))
    again = Settings.from_json(told.to_json())
    assert again == told
    assert [one.sasl.credentials for one in again.clusters()] == ["/a", "/b"]
