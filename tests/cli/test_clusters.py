"""[clusters.NAME] of a configuration, and what the options about addresses make of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli import settings as cli
from kproxy.cli.clusters import clusters, unfit
from kproxy.cli.commands.config import command as config
from kproxy.cli.commands.run import command as run
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.addresses import Addresses
from kproxy.runs.settings import Cluster, Settings, upstream

FILE = """
[clusters.east]
upstream = "east-1:9092,east-2"
listen = "127.0.0.1:19092"
[clusters.west]
upstream = "west:9092"
listen = "*:29092"
port-base = 30000
advertise = "{broker}.west.example:{port}"
controllers = 31000
[profile.lab.clusters.only]
upstream = "lab:9092"
listen = 39092
"""
EAST = Cluster("east", (("east-1", 9092), ("east-2", 9092)), "127.0.0.1", 19092)
WEST = Cluster("west", (("west", 9092),), "*", 29092, 30000, "{broker}.west.example:{port}", 31000)


@pytest.fixture(autouse=True)
def config_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KPROXY_PROFILE", raising=False)
    (tmp_path / "kproxy").mkdir()
    path = tmp_path / "kproxy" / "config.toml"
    path.write_text(FILE)
    cli.reset()
    yield path
    cli.reset()


def test_all_of_them_or_those_named() -> None:
    assert clusters(()) == (EAST, WEST)
    assert clusters(("west",)) == (WEST,)
    assert clusters(("east",), "proxy.example")[0].advertise == "proxy.example"


def test_a_profiles_own_are_meant_where_there_are_any() -> None:
    cli.current().profile = "lab"
    assert [one.name for one in clusters(())] == ["only"]


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(Failure, match=r"no \[clusters.wets\] in .*; did you mean west\?") as raised:
        clusters(("wets",))
    assert raised.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('listen = "1"', r"\[clusters.x\]: upstream is missing"),
        ('upstream = "a"', r"\[clusters.x\]: listen is missing"),
        ('upstream = "a"\nlisten = "1"\nport-bose = 1', r"unknown key 'port-bose'; did you mean port-base\?"),
        ('upstream = "a"\nlisten = "1"\nport-base = 70000', r"\[clusters.x\]: port-base: not a port: '70000'"),
        ('upstream = "a:b"\nlisten = "1"', r"\[clusters.x\]: upstream: no port: b"),
        ('upstream = "a"\nlisten = "1"\nadvertise = "{nobody}"', r"advertise: no host or template"),
    ],
)
def test_what_is_wrong_with_a_table_is_named(config_file: Path, table: str, said: str) -> None:
    config_file.write_text(f"[clusters.x]\n{table}\n")
    with pytest.raises(Failure, match=said):
        clusters(())
    assert len(list(unfit())) == 1
    checked = CliRunner().invoke(config, ["check"])
    assert checked.exit_code == Exit.USAGE


def test_what_is_no_table_is_named(config_file: Path) -> None:
    config_file.write_text("[clusters]\nx = 1\n")
    with pytest.raises(Failure, match="'x' is not a table"):
        clusters(())


def test_a_good_configuration_checks() -> None:
    assert CliRunner().invoke(config, ["check"]).exit_code == 0


def test_options_make_settings() -> None:
    without = Settings(upstream=())
    several = Addresses().applied(without)
    assert [one.name for one in several.clusters()] == ["east", "west"]
    assert [one.listen_port for one in several.clusters()] == [19092, 29092]
    assert several.clusters()[1].controllers == 31000
    one = Addresses(clusters=("west",)).applied(without)
    assert (one.name, one.more, one.port_base) == ("", (), 30000)
    given = Addresses(controllers=5, strict_ports=True, upstream_proxy="http://p:1").applied(Settings(upstream("a")))
    assert (given.controllers, given.strict_ports, given.upstream_proxy, given.more) == (5, True, "http://p:1", ())


def test_options_that_exclude_each_other(config_file: Path) -> None:
    with pytest.raises(Failure, match="exclude each other"):
        Addresses(clusters=("east",)).applied(Settings(upstream("a")))
    with pytest.raises(Failure, match="--controllers needs --upstream"):
        Addresses(controllers=1).applied(Settings(upstream=()))
    config_file.unlink()
    cli.reset()
    with pytest.raises(Failure, match="no cluster: --upstream"):
        Addresses().applied(Settings(upstream=()))


def test_credentials_on_the_command_line_are_refused() -> None:
    ran = CliRunner().invoke(run, ["--upstream", "a", "--upstream-proxy", "http://me:secret@p:1"])
    assert ran.exit_code == Exit.USAGE
    assert "KPROXY_UPSTREAM_PROXY_PASSWORD" in ran.output
    assert "secret" not in ran.output
