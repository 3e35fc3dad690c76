"""A shell in tmux: tests send keys and read the screen."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.patience import SECONDS

PROMPT = "ready$"


class Terminal:
    """A separate tmux server, whose shell starts in `directory`; it ends with the `with` block."""

    def __init__(
        self, directory: Path, socket: Path, environment: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        self._socket = socket
        self._is_large = size > (80, 24)
        self._environment = {name: value for name, value in environment.items() if name not in {"TMUX", "TMUX_PANE"}}
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(directory), "sh"
        )
        # in two parts, so that the typed text does not look like the prompt
        self.type(f"PS1='{PROMPT[:-1]}''{PROMPT[-1:]} '; clear")
        self.press("Enter")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def press(self, key: str) -> None:
        """Press a key, by tmux's name: Enter, Down, C-g."""
        self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def _shows(self, screen: str, texts: Sequence[str]) -> bool:
        joined, lines = " ".join(screen.split()), screen.splitlines()
        missing = [text for text in texts if text not in joined]
        if self._is_large:
            between = [re.compile(r"\s(?:.*\s)?".join(map(re.escape, text.split()))) for text in missing]
            return all(any(words.search(line) for line in lines) for words in between)
        return not missing

    def wait_until_copied(self) -> None:
        deadline = time.monotonic() + SECONDS
        while not self._tmux("list-buffers"):
            assert time.monotonic() < deadline, "nothing is copied"
            time.sleep(0.05)

    def paste(self) -> None:
        """Paste the text that was copied last."""
        self._tmux("paste-buffer")

    def wait_for(self, *texts: str) -> None:
        """Wait until all texts are on the screen; any white space may separate their words.

        In a terminal that is larger than 80x24, further words of the same line may also separate them.
        """
        deadline = time.monotonic() + SECONDS
        while not self._shows(self.screen(), texts):
            assert time.monotonic() < deadline, f"{texts} is not on the screen:\n{self.screen()}"
            time.sleep(0.05)
