"""Runs all benchmarks, or the named ones: python -m bench [NAME...]. A benchmark is a module with a function `main`."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

import bench


def main(wanted: list[str]) -> int:
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in wanted or names:
        module = import_module(f"bench.{name}")
        if not hasattr(module, "main"):
            continue
        print(f"== {name}", flush=True)
        module.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
