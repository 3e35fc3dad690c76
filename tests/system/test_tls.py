"""TLS between real clients, kproxy, and real brokers that want a certificate; openssl and tshark as judges."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import Cluster
from tests.support.java import oracle_classpath
from tests.support.proxy import KPROXY, Proxy, environment, export, kproxy
from tests.support.require import require
from tests.support.tcpdump import captured
from tests.system.test_run_real_brokers import CLIENT_SECONDS, Client, check_recording

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

PASSWORD = "changeit"


def out_options(brokers: Cluster) -> list[str]:
    assert brokers.ca is not None
    certificate, key = brokers.ca.leaf("kproxy")
    return ["--tls-out", "--tls-out-ca", str(brokers.ca.path), "--tls-out-cert", f"{certificate},{key}"]


@contextlib.contextmanager
def proxied(brokers: Cluster, directory: Path, *options: str) -> Iterator[tuple[Proxy, Path]]:
    """A proxy with TLS on both sides, and the CA that its clients are to trust."""
    with Proxy(brokers.bootstrap, directory, "--tls-in", "auto", *out_options(brokers), *options) as proxy:
        ca = directory / "exported.pem"
        assert kproxy(directory, "ca", "--export", ca).returncode == 0
        yield proxy, ca


def java(settings: dict[str, object], bootstrap: str, name: str, directory: Path) -> list[str]:
    file = directory / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    program = ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Dkproxy.settings={file}"]
    return [*program, "-cp", oracle_classpath("4.4.0"), "kproxy.oracle.Client", bootstrap, name, "2", "modern"]


def truststore(kind: str, ca: Path, directory: Path) -> dict[str, object]:
    """What a Java client needs to trust kproxy: its PEM file, or a PKCS#12 truststore."""
    if kind == "PEM":
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    path = directory / "trust.p12"
    run = subprocess.run(
        [KPROXY, "ca", "--truststore", path, "--password-env", "TRUST"],
        env={**environment(directory), "TRUST": PASSWORD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": path,
        "ssl.truststore.password": PASSWORD,
    }


@pytest.mark.parametrize("client", ["librdkafka", "aio", "pure", "java-PEM", "java-PKCS12"])
def test_real_clients_and_brokers_speak_tls(secured: Cluster, client: str, tmp_path: Path) -> None:
    directory = tmp_path / "proxy"
    topic = f"tls-{client}"
    with proxied(secured, directory) as (proxy, ca):
        if client.startswith("java"):
            store = truststore(client.removeprefix("java-"), ca, directory)
            arguments = java({"security.protocol": "SSL", **store}, proxy.bootstrap, topic, tmp_path)
        else:
            module = "tests.system.clients.secure"
            arguments = [sys.executable, "-m", module, client, proxy.bootstrap, topic, str(ca)]
        program = Client(arguments, tmp_path)
        program.run(CLIENT_SECONDS)
        assert program.remote <= {("127.0.0.1", port) for port in proxy.listeners()}
        assert program.remote - {("127.0.0.1", proxy.port)}
        assert proxy.stop() in {0, 130}, proxy.said()
        warnings = [line for line in proxy.err.read_text().splitlines() if "warning" in line]
        assert [line for line in warnings if "--controllers serves them" not in line] == [], proxy.said()
    lines = export(proxy.recording, tmp_path)
    check_recording(lines, secured.bootstrap.split(","))
    assert {"Produce", "Fetch", "Metadata"} <= {line.get("api") for line in lines}
    assert b"TLS terminated here by kproxy: client side TLSv1." in proxy.recording.read_bytes()


def test_tshark_reads_the_encrypted_side_with_the_key_log(secured: Cluster, tmp_path: Path) -> None:
    require("tshark")
    log, capture = tmp_path / "keys.log", tmp_path / "encrypted.pcap"
    with (
        proxied(secured, tmp_path / "proxy", "--tls-keylog", str(log)) as (proxy, ca),
        captured(capture, "tcp and portrange 19000-33000"),
    ):
        arguments = [
            sys.executable,
            "-m",
            "tests.system.clients.secure",
            "librdkafka",
            proxy.bootstrap,
            "seen",
            str(ca),
        ]
        Client(arguments, tmp_path).run(CLIENT_SECONDS)
        listeners = proxy.listeners()
        proxy.stop()
    assert log.stat().st_mode & 0o077 == 0
    for ports in (listeners, set(secured.ports)):
        decode = [part for port in ports for part in ("-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},kafka")]
        run = subprocess.run(
            ["tshark", "-r", capture, "-o", f"tls.keylog_file:{log}", *decode, "-Y", "kafka.api_key == 0",
             "-T", "fields", "-e", "tcp.dstport", "-e", "kafka.client_id"],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        seen = [line.split("\t") for line in run.stdout.splitlines()]
        produced = {int(port) for port, client in seen if client.startswith("rdkafka")}
        assert produced & ports, (ports, run.stdout[:2000], run.stderr[-2000:])


def test_openssl_is_content_with_what_it_is_shown(secured: Cluster, tmp_path: Path) -> None:
    with proxied(secured, tmp_path / "proxy") as (proxy, ca):
        for flags, version in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            for name in ("broker.kafka.example", "localhost"):
                run = subprocess.run(
                    ["openssl", "s_client", "-connect", proxy.bootstrap, "-servername", name, "-verify_hostname", name,
                     "-CAfile", ca, "-verify_return_error", "-strict", "-x509_strict", flags],
                    input="", capture_output=True, text=True, check=False, timeout=30,
                )  # fmt: skip
                assert "Verify return code: 0 (ok)" in run.stdout, run.stdout + run.stderr
                assert f"{version}, Cipher is" in run.stdout
        run = subprocess.run(
            ["openssl", "verify", "-x509_strict", "-CAfile", ca, ca], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr


def test_keytool_reads_the_truststore(tmp_path: Path) -> None:
    store = truststore("PKCS12", tmp_path, tmp_path)
    run = subprocess.run(
        ["keytool", "-list", "-keystore", str(store["ssl.truststore.location"]), "-storepass", PASSWORD],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "trustedCertEntry" in run.stdout
    facts = kproxy(tmp_path, "ca").stdout
    fingerprint = next(line.split()[1] for line in facts.splitlines() if line.startswith("fingerprint"))
    assert fingerprint in run.stdout


@pytest.mark.parametrize("options", [[], ["--tls-out"]], ids=["plaintext", "no certificate"])
def test_a_wrong_upstream_is_named(secured: Cluster, options: list[str], tmp_path: Path) -> None:
    assert secured.ca is not None
    more = [*options, *(["--tls-out-ca", str(secured.ca.path)] if options else [])]
    run = kproxy(
        tmp_path, "run", "--check", "--listen", "0", "--headless", "--upstream", f"127.0.0.1:{secured.ports[0]}", *more
    )
    assert run.returncode == 4, run.stderr
    assert ("speaks TLS: --tls-out" if not options else "--tls-out-cert") in run.stderr
