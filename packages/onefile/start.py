"""Where the program without Python begins.

sys.executable is then the program itself. kproxy starts its own processes (relay, indexer, sniffer …) as
`python -P -m MODULE`, so the program takes these options as Python does.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys


def start() -> None:
    multiprocessing.freeze_support()
    match sys.argv[1:]:
        case ["-P", "-m", module, *rest] | ["-m", module, *rest] if module.partition(".")[0] == "kproxy":
            sys.argv = [module, *rest]
        case _:
            module = "kproxy"
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    start()
