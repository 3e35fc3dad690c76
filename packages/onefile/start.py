"""Where the program without Python begins.

sys.executable is then the program itself. kproxy starts its own processes (relay, indexer, sniffer …) as
`python -P -m MODULE` or `python -P -c PROGRAM`, so the program takes these options as Python does.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys


def start() -> None:
    multiprocessing.freeze_support()
    arguments = sys.argv[1:]
    if arguments[:1] == ["-P"]:
        del arguments[0]
    match arguments:
        case ["-m", module, *rest] if module.startswith("kproxy."):
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", "from kproxy.cli.main import main; main()", *rest]:
            run(rest)
        case _:
            run(sys.argv[1:])


def run(arguments: list[str]) -> None:
    from kproxy.cli.main import main

    sys.argv = ["kproxy", *arguments]
    main()


if __name__ == "__main__":
    start()
