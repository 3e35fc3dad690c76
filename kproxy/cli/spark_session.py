"""Spark for the commands that use it: what has to be installed, a quiet start, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from captures.spark.session import SparkSession

NEEDED = ("pyspark", "pyarrow", "pandas")
NO_SPARK = "Spark is not installed: pip install 'kafka-kproxy[spark]'"
NO_JAVA = "Spark needs Java 17 or newer: pip install 'kafka-kproxy[spark,java]'"
LOG = "spark.log"


def cache_directory() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("kproxy", appauthor=False))


master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL. Without it here, on all cores, or where "
    "spark-submit was told.",
)


def lacking() -> bool:
    """Whether a package that Spark takes is not installed."""
    return any(find_spec(package) is None for package in NEEDED)


@contextmanager
def opened(name: str, master: str | None) -> Iterator[SparkSession]:
    """A session, ended afterwards; what Java has to say goes to a file in the cache unless -v is given.

    Raises Failure: exit 2 where Spark or Java is missing, 4 where the master is not reached, 3 where a query fails.
    """
    if lacking():
        raise Failure(NO_SPARK, Exit.USAGE)
    from captures.spark.java import NoJava
    from captures.spark.session import FAILURES, session, standard_error_to

    log = cache_directory() / LOG
    try:
        with nullcontext() if settings.current().verbose else standard_error_to(log):
            spark = session(name, cache_directory(), master)
    except NoJava as error:
        raise Failure(f"{NO_JAVA}{''.join(f'; {one}' for one in error.seen)}", Exit.USAGE) from None
    except FAILURES as error:
        raise Failure(f"Spark does not start: {_line(error)} (more in {log})", Exit.CONNECT) from None
    try:
        yield spark
    except FAILURES as error:
        raise Failure(f"{_line(error)} (more in {log})", Exit.INPUT) from None
    finally:
        spark.stop()


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
