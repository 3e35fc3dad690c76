"""Programs called iptables, ip6tables and ip that keep rules in a file, and need no privilege."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

PROGRAM = """#!{python} -IS
import fcntl, json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
place = os.path.join(os.path.dirname(sys.argv[0]), "state.json")
with open(place, "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    state = json.load(file)
    state["log"].append([name, *words])
    code, where = 0, None
    if " ".join([name, *words]) in state["broken"]:
        code = 4
        print("no such", "thing", file=sys.stderr)
    elif name == "ip":
        where = state["rules"].setdefault(" ".join([name, *words[:2]]), [])
        what = " ".join(words[3:])
        if words[2] == "add":
            where.append(what)
        elif words[2] == "del":
            where.remove(what)
        elif words[2] == "flush":
            where[:] = [line for line in where if not line.endswith(what)]
        else:
            print("0:	from all lookup local")
            for line in where:
                print("32765:	from all " + line)
    else:
        where = state["rules"].setdefault(" ".join([name, words[2]]), [])
        verb, *rest = words[3:]
        line = " ".join(rest)
        if verb == "-S":
            print("-P OUTPUT ACCEPT", *where, sep="\\n")
        elif verb in ("-N", "-A"):
            where.append(verb + " " + line)
        elif verb == "-D":
            if "-A " + line in where:
                where.remove("-A " + line)
            else:
                code = 1
        elif verb == "-F":
            where[:] = [one for one in where if not one.startswith("-A " + line + " ")]
        elif verb == "-X":
            used = [one for one in where if one.startswith("-A " + line + " ") or one.endswith("-j " + line)]
            if used or "-N " + line not in where:
                code = 1
            else:
                where.remove("-N " + line)
    file.seek(0)
    file.truncate()
    json.dump(state, file)
sys.exit(code)
"""


class Kernel:
    """The programs in a directory, and what they were told: `rules` by place, `log` of every call."""

    def __init__(self, directory: Path, broken: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self._state = directory / "state.json"
        self.write({"rules": {}, "log": [], "broken": list(broken)})
        for name in ("iptables", "ip6tables", "ip"):
            program = directory / name
            program.write_text(PROGRAM.format(python=sys.executable))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)

    @property
    def path(self) -> str:
        """For PATH."""
        return f"{self.directory}:{os.environ['PATH']}"

    def write(self, state: dict[str, object]) -> None:
        import json

        self._state.write_text(json.dumps(state))

    @property
    def rules(self) -> dict[str, list[str]]:
        """What is there now; no place that has nothing."""
        import fcntl
        import json

        with self._state.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return {place: lines for place, lines in json.load(file)["rules"].items() if lines}
