"""The options of transparent mode, as far as they need no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.cli.exits import Exit
from kproxy.transparent import netfilter
from tests.cli.test_main import run


def test_rules_are_printed_and_nothing_else_happens() -> None:
    result = run("run", "--transparent", "redirect", "--ports", "9092,9093", "--listen", ":4000", "--print-rules")
    assert result.exit_code == Exit.OK
    installing, removing = result.stdout.split("\n# To remove them:\n")
    taken = "iptables -w -t nat -A KPROXY_4000 -p tcp --syn -m multiport --dports 9092,9093 -j REDIRECT --to-ports 4000"
    assert taken in installing.splitlines()
    assert all(line.startswith("# ") for line in removing.splitlines())
    assert "# iptables -w -t nat -X KPROXY_4000" in removing


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no cluster: --upstream HOST:PORT, [clusters.NAME] in the configuration, or --transparent"),
        (("--setup", "--upstream", "x"), "--setup and --print-rules belong to --transparent"),
        (("--print-rules",), "--setup and --print-rules belong to --transparent"),
        (("--transparent", "redirect", "--upstream", "x"), "--upstream and --transparent exclude each other"),
        (("--transparent", "redirect", "--check"), "--check and --transparent exclude each other"),
        (("--transparent", "redirect", "--cluster", "x"), "--cluster and --transparent exclude each other"),
        (("--transparent", "redirect", "--upstream-proxy", "http://x:1"), "--upstream-proxy and --transparent exclude"),
        (("--transparent", "redirect", "--listen", "10.0.0.1:1"), "listens on every address"),
        (("--transparent", "redirect", "--ports", "19092"), "port 19092 is the relay's own"),
        (("--transparent", "redirect", "--ports", "a"), "'a' is not a list of ports"),
        (("--transparent", "redirect", "--ports", "0"), "'0' is not a list of ports"),
        (("--transparent", "tproxy", "--clients", "local"), "use redirect for them"),
        (("--transparent", "nat"), "'nat' is not one of"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = run("run", *arguments)
    assert result.exit_code == Exit.USAGE
    assert says in result.stderr


def test_missing_programs_and_privileges_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setup = ("run", "--transparent", "tproxy", "--setup")
    monkeypatch.setattr(netfilter, "_PATH", str(tmp_path))
    monkeypatch.setattr(netfilter, "families", lambda: (4, 6))
    result = run(*setup)
    assert result.exit_code == Exit.PERMISSION
    assert "iptables and ip6tables and ip not found: install iptables and iproute2" in result.stderr
    for name in ("iptables", "ip6tables", "ip"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(netfilter, "net_admin", lambda: False)
    result = run(*setup)
    assert result.exit_code == Exit.PERMISSION
    assert "run as root" in result.stderr
    assert "--print-rules" in result.stderr
