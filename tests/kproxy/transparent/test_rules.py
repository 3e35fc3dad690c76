"""What the kernel is told, word for word, and what is read from what it shows."""

from __future__ import annotations

import pytest

from kproxy.transparent.rules import LISTINGS, Rules, present, text

REDIRECT = """\
iptables -w -t nat -N KPROXY_19092
iptables -w -t nat -A KPROXY_19092 -m mark --mark 0x6b70 -j RETURN
iptables -w -t nat -A KPROXY_19092 -p tcp --syn -m multiport --dports 9092,9093 -j REDIRECT --to-ports 19092
iptables -w -t nat -A PREROUTING -p tcp -j KPROXY_19092
iptables -w -t nat -A OUTPUT -p tcp -j KPROXY_19092
ip6tables -w -t nat -N KPROXY_19092
ip6tables -w -t nat -A KPROXY_19092 -m mark --mark 0x6b70 -j RETURN
ip6tables -w -t nat -A KPROXY_19092 -p tcp --syn -m multiport --dports 9092,9093 -j REDIRECT --to-ports 19092
ip6tables -w -t nat -A PREROUTING -p tcp -j KPROXY_19092
ip6tables -w -t nat -A OUTPUT -p tcp -j KPROXY_19092
"""

TPROXY = """\
ip -4 rule add fwmark 0x6b704a94 lookup 1802521236
ip -4 route add local default dev lo table 1802521236
iptables -w -t mangle -N KPROXY_19092
iptables -w -t mangle -A KPROXY_19092 -m mark --mark 0x6b70 -j RETURN
iptables -w -t mangle -A KPROXY_19092 -p tcp -m multiport --dports 9092 -m socket --transparent -j MARK --set-mark 0x6b704a94
iptables -w -t mangle -A KPROXY_19092 -p tcp --syn -m multiport --dports 9092 -j TPROXY --on-port 19092 --tproxy-mark 0x6b704a94
iptables -w -t mangle -A PREROUTING -p tcp -j KPROXY_19092
"""  # noqa: E501 (commands are one line)

TPROXY_REMOVED = """\
iptables -w -t mangle -D PREROUTING -p tcp -j KPROXY_19092
iptables -w -t mangle -D KPROXY_19092 -p tcp --syn -m multiport --dports 9092 -j TPROXY --on-port 19092 --tproxy-mark 0x6b704a94
iptables -w -t mangle -D KPROXY_19092 -p tcp -m multiport --dports 9092 -m socket --transparent -j MARK --set-mark 0x6b704a94
iptables -w -t mangle -D KPROXY_19092 -m mark --mark 0x6b70 -j RETURN
iptables -w -t mangle -F KPROXY_19092
iptables -w -t mangle -X KPROXY_19092
ip -4 route flush table 1802521236
ip -4 rule del fwmark 0x6b704a94 lookup 1802521236
"""  # noqa: E501

SHOWN = {
    ("iptables", "-w", "-t", "nat", "-S"): """\
-P PREROUTING ACCEPT
-N DOCKER
-N KPROXY_19092
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -p tcp -j KPROXY_19092
-A OUTPUT -s 10.0.0.0/8 -p tcp -j KPROXY_19092
-A KPROXY_19092 -m mark --mark 0x6b70 -j RETURN
-A KPROXY_19092 -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m multiport --dports 9092 -j REDIRECT --to-ports 19092
""",
    ("ip6tables", "-w", "-t", "mangle", "-S"): "-P OUTPUT ACCEPT\n-N KPROXY_7\n",
    ("ip", "-6", "rule", "show"): """\
0:\tfrom all lookup local
32764:\tfrom all fwmark 0x6b700007 lookup 1802502151
32765:\tfrom all fwmark 0x1 lookup 100
32766:\tfrom all lookup main
""",
}


def test_redirect() -> None:
    assert text(Rules("redirect", 19092, (9092, 9093)).install()) == REDIRECT


def test_tproxy() -> None:
    rules = Rules("tproxy", 19092, families=(4,), clients="remote")
    assert text(rules.install()) == TPROXY
    assert text(rules.remove()) == TPROXY_REMOVED


@pytest.mark.parametrize(
    ("mode", "clients", "hooks"),
    [
        ("redirect", "all", ("PREROUTING", "OUTPUT")),
        ("redirect", "local", ("OUTPUT",)),
        ("redirect", "remote", ("PREROUTING",)),
        ("tproxy", "all", ("PREROUTING",)),
        ("tproxy", "remote", ("PREROUTING",)),
    ],
)
def test_whose_connections_are_taken(mode: str, clients: str, hooks: tuple[str, ...]) -> None:
    rules = Rules(mode, 1, clients=clients, families=(4,))
    jumps = tuple(command[5] for command in rules.install() if command[-2:] == ("-j", "KPROXY_1"))
    assert jumps == hooks


def test_release_takes_away_what_takes_and_nothing_else() -> None:
    for mode in ("redirect", "tproxy"):
        rules = Rules(mode, 19092)
        released = [tuple("-A" if word == "-D" else word for word in command) for command in rules.release()]
        assert len(released) == 2
        assert all(command in rules.install() for command in released)
        assert all({"REDIRECT", "TPROXY"} & set(command) for command in released)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"mode": "tproxy", "clients": "local"}, "use redirect"),
        ({"ports": (19092,)}, "the relay's own"),
        ({"ports": ()}, "0 ports"),
        ({"ports": tuple(range(1, 17))}, "16 ports"),
    ],
)
def test_what_cannot_be(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Rules(**{"mode": "redirect", "listen_port": 19092, **fields})  # type: ignore[arg-type]  # of a table


def test_what_is_there_is_found_whoever_installed_it() -> None:
    assert set(SHOWN) <= set(LISTINGS)
    found = {port: text(commands) for port, commands in present(SHOWN).items()}
    assert found == {
        19092: (
            "iptables -w -t nat -D OUTPUT -s 10.0.0.0/8 -p tcp -j KPROXY_19092\n"
            "iptables -w -t nat -D PREROUTING -p tcp -j KPROXY_19092\n"
            "iptables -w -t nat -F KPROXY_19092\n"
            "iptables -w -t nat -X KPROXY_19092\n"
        ),
        7: (
            "ip6tables -w -t mangle -F KPROXY_7\n"
            "ip6tables -w -t mangle -X KPROXY_7\n"
            "ip -6 route flush table 1802502151\n"
            "ip -6 rule del fwmark 0x6b700007 lookup 1802502151\n"
        ),
    }


def test_nothing_is_found_where_nothing_is() -> None:
    assert present(dict.fromkeys(LISTINGS, "")) == {}
    assert present({}) == {}
