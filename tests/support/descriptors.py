"""Opens so many files that further descriptors have numbers beyond the limit of `select`."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BEYOND = 1024


@contextmanager
def many_open() -> Iterator[None]:
    """Within the block, new descriptors have numbers beyond the limit of `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = BEYOND + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("so many files may not be open here")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    held = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while held[-1] < BEYOND:
            held.append(os.dup(held[-1]))
        yield
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
