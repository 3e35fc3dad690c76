"""Runs the commands of `rules`, finds leftover rules of dead relays, and checks the machine's prerequisites."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from kproxy.transparent.rules import FAMILIES, LISTINGS, Command, Rules, present, text

SECONDS = 30.0
"""Deadline of one command in seconds; iptables may wait for its lock."""
REMOVALS = 5
CAP_NET_ADMIN = 12

_PATH = ":".join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


class RulesError(Exception):
    """The rules cannot be installed or removed; the text says why and what to do."""


Run = Callable[[Command], tuple[int, str, str]]


def run(command: Command) -> tuple[int, str, str]:
    """Runs a command; returns (exit code, standard output, standard error).

    The code is 127 if the program is missing, 126 if it cannot be run.
    """
    program = shutil.which(command[0], path=_PATH)
    if program is None:
        return 127, "", f"{command[0]} is not installed"
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 126, "", str(error)
    return done.returncode, done.stdout, done.stderr


# --- prerequisites of the machine ------------------------------------------------------------------------------------


def families() -> tuple[int, ...]:
    """The IP versions that this machine supports: 4, 6 or both."""
    return (4, 6) if Path("/proc/net/if_inet6").exists() else (4,)


def net_admin() -> bool:
    """Whether this process has CAP_NET_ADMIN."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> CAP_NET_ADMIN & 1)
    return False


def lacking(mode: str) -> str | None:
    """The reason why rules cannot be installed on this machine, with advice; None if they can."""
    if not Path("/proc/self/status").exists():
        return "transparent mode needs Linux"
    needed = [FAMILIES[family][0] for family in families()] + (["ip"] if mode == "tproxy" else [])
    missing = [name for name in needed if shutil.which(name, path=_PATH) is None]
    if missing:
        packages = " and ".join(dict.fromkeys("iproute2" if name == "ip" else "iptables" for name in missing))
        return (
            f"{' and '.join(missing)} not found: install {packages} (nft alone is not used), or see --print-rules and "
            "install the rules another way"
        )
    if not net_admin():
        return (
            "installing rules needs CAP_NET_ADMIN: run as root, or have somebody install what --print-rules prints and "
            "leave --setup out"
        )
    return None


# --- responsibility for rules ----------------------------------------------------------------------------------------


def claim(port: int) -> socket.socket | None:
    """Claims responsibility for the rules of a port, for this process and all that inherit the returned socket.

    Returns None if another process has the claim. The claim is an abstract Unix socket: it belongs to the same network
    namespace as the rules and ends with the last process that holds it.
    """
    claimed = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claimed.bind(f"\0kproxy-rules-{port}")
    except OSError:
        claimed.close()
        return None
    return claimed


# --- installing and removing -----------------------------------------------------------------------------------------


def installed(run: Run = run) -> dict[int, list[Command]]:
    """The commands that remove kproxy's rules from the kernel, by the port of the relay that they belong to."""
    outputs = {}
    for listing in LISTINGS:
        code, output, _ = run(listing)
        if code == 0:
            outputs[listing] = output
    return present(outputs)


def install(rules: Rules, run: Run = run) -> None:
    """Installs rules. On an error, removes those installed so far and raises RulesError."""
    for command in rules.install():
        code, _, complaint = run(command)
        if code:
            remove(rules.listen_port, run)
            said = " ".join(complaint.split()) or f"exit code {code}"
            raise RulesError(f"cannot install the rules: {' '.join(command)}: {said}")


def release(rules: Rules, run: Run = run) -> None:
    """Stops redirecting new connections; connections that were redirected go on."""
    for command in rules.release():
        run(command)


def remove(port: int, run: Run = run, pause: float = 0.5) -> None:
    """Removes all rules of the relay at `port`, even partly installed ones. Raises RulesError if some remain.

    Tries again after `pause` seconds, then after longer pauses.
    """
    for attempt in range(REMOVALS):
        left = installed(run).get(port)
        if not left:
            return
        if attempt:
            time.sleep(pause * attempt)
        for command in left:
            run(command)
    if left := installed(run).get(port):
        raise RulesError(f"rules of port {port} cannot be removed; try these commands: {text(left)}")


def remove_leftovers(run: Run = run) -> list[int]:
    """Removes the rules that no process has claimed; returns the ports of the relays that they belonged to."""
    removed = []
    for port in installed(run):
        claimed = claim(port)
        if claimed is not None:
            with claimed:
                remove(port, run)
            removed.append(port)
    return removed
