"""The programs of docs/library.md, with what they print; run as a module, it writes what they print into the page.

python -m tests.kproxy.library.programs
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "library.md"
CAPTURE = ROOT / "tests" / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
PROGRAM = re.compile(r"^## (.+?)$.*?^```python\n(.+?)^```\n\n^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs() -> dict[str, tuple[str, str]]:
    """By heading: a program, and what the page says that it prints."""
    return {title: (program, printed) for title, program, printed in PROGRAM.findall(PAGE.read_text(encoding="utf-8"))}


def printed_by(program: str, folder: Path) -> str:
    """What a program prints in a folder that has capture.pcap. Raises CalledProcessError."""
    shutil.copy(CAPTURE, folder / "capture.pcap")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for program, printed in programs().values():
        with TemporaryDirectory() as folder:
            new = printed_by(program, Path(folder))
        block = f"{program}```\n\n```text\n"
        text = text.replace(f"{block}{printed}```", f"{block}{new}```")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
