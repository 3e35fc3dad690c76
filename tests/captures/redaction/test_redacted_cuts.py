"""Marked messages cut at every length, and captures cut at every snap length: nothing marked is in what is exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures import files, traffic
from tests.captures.redaction import marking
from tests.captures.redaction.test_cuts import leaks, search
from tests.captures.redaction.test_exports import FORMS, export

pytestmark = pytest.mark.system

HEADERS = 54
"""Bytes of Ethernet, IPv4 and TCP headers before a payload."""


def test_no_mark_is_left_of_any_frame_cut_at_any_length() -> None:
    assert not leaks(1)


@pytest.mark.parametrize("payload", [20, 28, 44, 60, 100, 180, 300, 600, 1000])
def test_no_form_shows_a_mark_at_any_snap_length(payload: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(marking.marked())
    cut = tmp_path / "HoSt.pcap"
    cut.write_bytes(files.pcap(traffic.packets(whole), snap=HEADERS + payload))
    for form in FORMS:
        export(cut, form, tmp_path / form, "--redact", "hosts")
        assert not search(tmp_path / form, form)
