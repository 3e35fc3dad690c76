"""Spark sessions for commands: checks the installation, starts quietly, and reports errors in one line."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from kproxy.captures import private
from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.decoders.extras import installing

NEEDED = ("pyspark", "pyarrow", "pandas")
NO_SPARK = f"Spark is not installed: {installing('spark')}"
NO_JAVA = f"Spark needs Java 17 or newer: {installing('spark,java')}"
LOG = "spark.log"
_RAISED = re.compile(r"^ *Traceback .*\n(?: .*\n)*(?:\w+\.)*(\w.*)", re.MULTILINE)
"""Finds the exception in a worker's traceback: the text after the frames."""


def cache_directory() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("kproxy", appauthor=False))


master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL (default: as spark-submit is "
    "configured, else here on all cores).",
)


def lacking() -> bool:
    """Whether a package that Spark needs is not installed."""
    return any(find_spec(package) is None for package in NEEDED)


@contextmanager
def opened(master: str | None, *, queries: bool = False) -> Iterator[Any]:
    """A SparkSession, ended with the block; Java's messages go to a file in the cache unless -v is given.

    `queries` has the meaning that it has in captures.spark.session.start. Raises Failure: exit 2 if Spark or Java is
    missing, 4 if Spark does not start (for example because the master cannot be reached), 3 if a query fails.
    """
    if lacking():
        raise Failure(NO_SPARK, Exit.USAGE)
    from kproxy.captures.spark.session import java
    from kproxy.captures.spark.session.failures import FAILURES
    from kproxy.captures.spark.session.start import session

    log = cache_directory() / LOG
    try:
        java.prepare(cache_directory())
        with nullcontext() if settings.current().verbose else _standard_error_to(log):
            spark = session(master, queries=queries)
    except java.NoJava as error:
        raise Failure(f"{NO_JAVA}{''.join(f'; {one}' for one in error.seen)}", Exit.USAGE) from None
    except FAILURES as error:
        raise Failure(f"Spark does not start: {_line(error)} (more in {log})", Exit.CONNECT) from None
    try:
        with _warnings_as_lines():
            yield spark
    except FAILURES as error:
        raise Failure(f"{_line(error)} (more in {log})", Exit.INPUT) from None
    finally:
        spark.stop()


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Prints warnings of our own as kproxy prints its others."""
    from kproxy.captures.spark.session.uncompiled import Uncompiled

    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, Uncompiled):
                settings.warn(str(message))
            else:
                before(message, category, *place, **more)

        warnings.showwarning = show
        yield


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirects standard error to a file for processes started in the block; Java keeps it while it runs."""
    private.folder(path.parent)
    sys.stderr.flush()
    kept = os.dup(2)
    with private.output(path) as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _line(error: Exception) -> str:
    # py4j's text for a Java exception only names the method that raised it
    java: Any = getattr(error, "java_exception", None)
    text = str(error if java is None else java.toString()).strip()
    raised = _RAISED.findall(text)
    return raised[-1] if raised else text.partition("\n")[0]
