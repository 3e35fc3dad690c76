"""The guardian: python -m kproxy.transparent.guardian. It installs a relay's rules and removes them when that is gone.

Its standard input is the relay's hand on its shoulder: one line of JSON, {"rules": {fields of Rules}, "install": true},
then perhaps the line "release" (take no more connections); when it ends, however the relay did, the rules go and then
the guardian. It answers each with a line of JSON: {"installed": [ports of leftovers that it removed]}, {"released":
true}, {"removed": true}, or {"failed": why}. It has a session of its own and heeds no signal but SIGKILL; after one the
claim that it inherited ends with the relay's, and the next `--setup` finds what is left.
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
    with contextlib.suppress(OSError):  # not through sys.stdout, which would try once more at exit
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
