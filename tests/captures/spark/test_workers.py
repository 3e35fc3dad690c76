"""What Spark's Python workers do once."""

from __future__ import annotations

import subprocess
import sys

SECOND_TASK = """
import gc
from types import SimpleNamespace
import pyarrow as pa
from kproxy.captures.spark.session.workers import mapped

def stage(batches):
    yield gc.get_threshold()

run = mapped(SimpleNamespace(mapInArrow=lambda stage, schema: stage), stage, pa.schema([]))
usual, before = gc.get_threshold(), len(gc.get_objects())
for _ in range(2):
    [threshold] = run(())
    assert threshold[0] > 100 * usual[0], threshold
    gc.collect()
    left = len(gc.get_objects())
    assert left < before / 20, (left, before)
assert gc.get_threshold() == usual
"""


def test_what_jobs_import_is_not_looked_at_after_each_task() -> None:
    subprocess.run([sys.executable, "-c", SECOND_TASK], check=True, timeout=60)
