"""What the process of the terminal interface must not load: it paints, and is to stay small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FORBIDDEN = ("numpy", "scapy", "pyarrow", "pandas", "matplotlib", "plotext")
SCRIPT = """
import asyncio, sys
from pathlib import Path
from kproxy.tui.app import KproxyApp

async def main():
    app = KproxyApp(Path(sys.argv[1]), filter_text="latency > 1ms", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "enter", "j", "tab", "l", "left_curly_bracket", "question_mark")

asyncio.run(main())
print(" ".join(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_nothing_heavy_is_imported_by_use(index: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(index), *FORBIDDEN], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_the_package_itself_loads_no_toolkit() -> None:
    code = "import kproxy.tui, sys; print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
