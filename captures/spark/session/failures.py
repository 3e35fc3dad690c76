"""The exceptions that Spark raises."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

FAILURES: Final = (PySparkException, Py4JError)
