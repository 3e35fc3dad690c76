"""The guardian: python -m kproxy.transparent.guardian. Installs a relay's rules and removes them when the relay ends.

Its standard input is a pipe from the relay. The first line is JSON, {"rules": {fields of Rules}, "install": true}; a
line "release" may follow, which stops redirecting new connections. When the pipe ends, however the relay ended, the
guardian removes the rules and exits. It answers with lines of JSON: {"installed": [ports of leftover rules that it
removed]}, {"released": true}, {"removed": true}, or {"failed": reason}. It has a session of its own and ignores all
signals but SIGKILL. If it is killed, its claim on the rules (`netfilter.claim`) ends with the relay, and the next
`--setup` removes leftover rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any

from kproxy.captures.processes import name_process
from kproxy.transparent import netfilter
from kproxy.transparent.rules import Rules


def _say(answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # not by sys.stdout, which Python would flush once more at exit
        os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    asked = json.loads(sys.stdin.readline())
    fields = asked["rules"]
    rules = Rules(**{**fields, "ports": tuple(fields["ports"]), "families": tuple(fields["families"])})
    try:
        leftovers: list[int] = []
        if asked["install"]:
            netfilter.remove(rules.listen_port)
            leftovers = netfilter.remove_leftovers()
            netfilter.install(rules)
        _say({"installed": leftovers})
        for line in sys.stdin:
            if line == "release\n":
                netfilter.release(rules)
                _say({"released": True})
        netfilter.remove(rules.listen_port)
        _say({"removed": True})
    except netfilter.RulesError as error:
        _say({"failed": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    name_process("guard")
    sys.exit(main())
