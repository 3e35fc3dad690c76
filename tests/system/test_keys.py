"""Any keys in the interface of `kproxy run`, through a terminal: what passes meanwhile is not touched."""

from __future__ import annotations

import random
import string
import time
from pathlib import Path

import pytest
from textual.keys import _character_to_key

from kproxy.runs.demo import start_cluster
from kproxy.tui.actions import registry as actions
from tests.support.brokers import free_ports
from tests.support.checksummed import Traffic
from tests.support.proxy import KPROXY, environment, export
from tests.support.screens import Painted

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

KEYS = 600
RESIZED_AFTER = 20
"""Keys between two sizes."""
BETWEEN_SECONDS = 0.03
ESCAPE_SECONDS = 0.5
"""After which an escape is a key of its own, whatever comes next."""
NAMED = {
    "enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "delete": "\x1b[3~", "shift+tab": "\x1b[Z",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
    "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "ctrl+up": "\x1b[1;5A", "ctrl+down": "\x1b[1;5B",
    "shift+up": "\x1b[1;2A", "shift+down": "\x1b[1;2B",
    "f1": "\x1bOP", "f7": "\x1b[18~", "f8": "\x1b[19~",
    **{_character_to_key(character): character for character in string.printable if character.isprintable()},
    **{f"ctrl+{letter}": chr(ord(letter) - 96) for letter in string.ascii_lowercase},
}  # fmt: skip
"""What a terminal sends, by Textual's names."""
LEAVING = {"q", "Q", "ctrl+c", "colon", "ctrl+p"}
"""Keys that stop the proxy, the last two by an action's name: that this ends the traffic is meant."""
PRESSED = sorted({key for action in actions.ACTIONS for key in action.keys} - LEAVING)
TYPED = "abc 0123=<>\"'/.,"


def some_keys(dice: random.Random) -> str:
    """A key, a few letters, a click or a turn of the wheel, as a terminal sends them."""
    place = f"{dice.randint(1, 200)};{dice.randint(1, 60)}"
    match dice.choices(("key", "typed", "click", "wheel"), (8, 2, 1, 1))[0]:
        case "key":
            return NAMED[dice.choice(PRESSED)]
        case "typed":
            return "".join(dice.choices(TYPED, k=3))
        case "click":
            button = dice.choice((0, 0, 2))
            return f"\x1b[<{button};{place}M\x1b[<{button};{place}m"
        case _:
            return f"\x1b[<{dice.choice((64, 65))};{place}M"


def rest(screen: Painted, seconds: float) -> None:
    """Press nothing for a while."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        assert screen.read(left), f"it ended: {screen.text[-2000:]}"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_key_touches_what_passes(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    keeper, upstream = start_cluster()
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    recording = tmp_path / "recording.pcapng"
    surroundings = {**environment(tmp_path / "places"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    surroundings.pop("TMUX", None)
    # what is exported by chance goes into a directory of the test's own
    command = ["env", "-C", str(tmp_path), str(KPROXY), "run", "--upstream", upstream, "--listen", listen]
    with Painted([*command, "-w", str(recording)], surroundings) as screen:
        screen.wait_for("No client has sent anything yet")
        with Traffic(listen) as traffic:
            screen.wait_for("Produce")
            for number in range(KEYS):
                if number % RESIZED_AFTER == 0:
                    screen.resize(dice.randint(20, 200), dice.randint(5, 60))
                screen.press(some_keys(dice))
                rest(screen, BETWEEN_SECONDS)
            before = traffic.read.total()
        assert before, "nothing passed meanwhile"
        traffic.check()
        # back to the list, and painted whole in a size of its own
        for _ in range(10):
            screen.press("\x1b")
            rest(screen, ESCAPE_SECONDS)
        screen.press("")
        screen.resize(110, 34)
        screen.wait_for("kproxy LIVE")
        screen.press("Q")
        assert screen.end() == 0
    del keeper
    *_, health = export(recording, tmp_path / "places")
    assert not any(health[name] for name in ("recorder_dropped", "lost", "gaps", "undecoded", "cut")), health
