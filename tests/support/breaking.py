"""Runs kproxy with an error injected at a place that a test names.

python -m tests.support.breaking PLACE ERROR FLAG ARGUMENT...

PLACE is module:function, module:Class.method, or a module whose import fails. It raises ERROR, a built-in exception, as
soon as the file FLAG exists, or at once if FLAG is "".
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from pathlib import Path
from typing import Any, cast

from kproxy.cli.main import main


def break_at(place: str, error: str, flag: str) -> None:
    module, _, path = place.partition(":")
    if not path:
        cast("dict[str, Any]", sys.modules)[module] = None  # importing it raises ImportError
        return
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    whole = getattr(owner, name)

    @functools.wraps(whole)
    def broken(*arguments: Any, **named: Any) -> Any:
        if not flag or Path(flag).exists():
            raise getattr(builtins, error)(f"broken at {place}")
        return whole(*arguments, **named)

    setattr(owner, name, broken)


if __name__ == "__main__":
    break_at(*sys.argv[1:4])
    main(sys.argv[4:], prog_name="kproxy")
