"""Run fuzz targets for some CPU time: `python -m tests.fuzz --target conversation --seconds 60 --seed 1`.

Input n of a run is made of the seed and n alone, so `--seed S --start n --runs 1` repeats it.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import traceback

from tests.fuzz.targets import TARGETS, load

HANGS = 60
"""Seconds that one input may take."""


def spent() -> float:
    """CPU seconds of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def run(name: str, seconds: float, seed: int, start: int, runs: int | None) -> bool:
    """Fuzz one target; True where nothing was found."""
    target = load(name)
    number = start
    began = spent()
    while (spent() - began < seconds) if runs is None else (number < start + runs):
        faulthandler.dump_traceback_later(HANGS, exit=True)
        try:
            target(random.Random(f"{name} {seed} {number}"))
        except Exception:  # noqa: BLE001  # that is what we look for
            traceback.print_exc()
            print(f"{name}: FAILED; repeat with --target {name} --seed {seed} --start {number} --runs 1", flush=True)
            return False
        finally:
            faulthandler.cancel_dump_traceback_later()
        number += 1
    print(
        f"{name}: seed {seed}, {number - start} inputs in {spent() - began:.0f} CPU seconds, nothing found", flush=True
    )
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="default: all")
    parser.add_argument("--seconds", type=float, default=60, help="CPU time for each target (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--start", type=int, default=0, help="first input")
    parser.add_argument("--runs", type=int, default=None, help="inputs, in place of --seconds")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    names = options.target or sorted(TARGETS)
    results = [run(name, options.seconds, seed, options.start, options.runs) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
