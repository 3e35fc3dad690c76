"""The relay of a test session: a process that is started once, and receives rules through its control socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kproxy.captures.errors import CaptureError
from kproxy.runs.launcher import RelayProcess
from kproxy.runs.registry import Refused, ask, ask_rules
from kproxy.runs.settings import Settings, upstream

SCRATCH_BYTES = 64 << 20
"""Bytes of traffic that the recording keeps: the latest of the session."""


class Proxy:
    """A relay in front of the cluster with these bootstrap servers, on a free port; `state` is a directory for it.

    It is a process, as with `kproxy run`: a test that blocks the interpreter does not delay its traffic.
    """

    def __init__(self, bootstrap: str, state: Path) -> None:
        """Raises ValueError, StartError, OSError."""
        rules = state / "rules.yaml"
        rules.touch()  # without a rule file, the first rule would not act on connections that are already open
        self._process = RelayProcess(
            Settings(
                upstream(bootstrap),
                listen_port=0,
                scratch=SCRATCH_BYTES,
                faults_file=str(rules),
                attached=True,
                probe=False,
            ),
            spool=state,
        )
        self.bootstrap = self._process.bootstrap
        assert self._process.recording is not None  # noqa: S101 (the settings ask for one)
        self.recording = self._process.recording

    def add(self, text: str) -> str:
        """Adds a rule; returns its name. Raises RuleError, or ValueError if the name is taken."""
        try:
            return str(ask_rules(self._process.run_dir, "add", rule=text)["rules"][0]["name"])
        except Refused as error:
            refused = str(error)
        from kproxy.faults.parsing import parse

        parse(text)  # raises the same error with the positions in the text
        raise ValueError(refused)

    def rules(self) -> dict[str, dict[str, Any]]:
        """The rules with their counters, by name."""
        return {rule["name"]: rule for rule in ask_rules(self._process.run_dir, "list")["rules"]}

    def remove(self, name: str) -> None:
        """Removes a rule; the frames that it holds are forwarded. Raises ValueError if there is no such rule."""
        ask_rules(self._process.run_dir, "remove", name=name)

    def release(self, name: str) -> int:
        """Forwards the frames that a rule holds; returns their number. Raises ValueError if there is no such rule."""
        return int(ask_rules(self._process.run_dir, "release", name=name)["released"])

    def flush(self) -> int:
        """Writes all traffic so far to the recording.

        Returns how many packets have been written since the recording began.
        Raises CaptureError if recording has failed.
        """
        recorder = ask(self._process.run_dir, "flush")["recorder"]
        if recorder["failed"]:
            raise CaptureError(f"recording has stopped: {recorder['failed']}", str(self.recording))
        return int(recorder["packets"])

    def stop(self) -> None:
        self._process.stop()
        self._process.clean_up()
