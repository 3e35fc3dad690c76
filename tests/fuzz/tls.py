"""Any damage to a capture of TLS gives parts of what was said and nothing else, and raises nothing but CaptureError.

A session gives whole contents of records, in their order; a decrypted capture is read to its end with a health.
"""

from __future__ import annotations

import ssl
import tempfile
from functools import lru_cache
from pathlib import Path
from random import Random

from kproxy.captures.errors import CaptureError
from kproxy.captures.tls import keylog
from kproxy.captures.tls.decrypting import decrypted
from kproxy.captures.tls.session import Session, TlsError
from tests.captures import files
from tests.captures.memory import MemorySource
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa

TURNS = 30


@lru_cache(maxsize=2)
def _wire(version: ssl.TLSVersion) -> tuple[list[tuple[int, bytes]], list[files.Packet], keylog.Secrets]:
    """What was said by whom, its packets and their secrets."""
    with tempfile.TemporaryDirectory() as directory:
        wire = Wire(Path(directory), TestCa(Path(directory), "ca").leaf("broker"), version=version)
        dice = Random(1)
        said = [(dice.randrange(2), dice.randbytes(dice.choice((1, 30, 3000)))) for _ in range(TURNS)]
        for side, data in said:
            wire.say(side, data)
        return said, wire.end(), keylog.parse(wire.log.read_bytes())


def once(random: Random) -> None:
    said, packets, secrets = _wire(random.choice((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)))
    _session(random, said, packets, secrets)
    data = bytearray(files.pcap(_damaged(random, packets), link=101))
    for _ in range(random.choice((0, 0, 1))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    out = bytearray()
    try:
        for piece in decrypted(MemorySource(bytes(data)), secrets):
            out += piece
    except CaptureError:
        pass
    files.segments(bytes(out))


def _session(
    random: Random, said: list[tuple[int, bytes]], packets: list[files.Packet], secrets: keylog.Secrets
) -> None:
    session = Session(secrets)
    left = [[data for side, data in said if side == each] for each in (0, 1)]
    try:
        for _, frame in _damaged(random, packets):
            side, data = int(frame[15] == 2), frame[40:]
            if random.random() < 0.03:
                session.skip(side, len(data) + random.choice((0, 0, 5)))
                continue
            found = session.feed(side, data)
            while found:
                assert left[side], "more than was said"
                whole = left[side].pop(0)
                found = found.removeprefix(whole)
    except TlsError:
        return


def _damaged(random: Random, packets: list[files.Packet]) -> list[files.Packet]:
    chosen = list(packets)
    for _ in range(random.choice((0, 0, 1, 2, 5))):
        i = random.randrange(len(chosen))
        time, frame = chosen[i]
        action = random.randrange(4)
        if action == 0:
            del chosen[i]
        elif action == 1 and len(frame) > 40:
            at = random.randrange(40, len(frame))
            chosen[i] = time, frame[:at] + bytes((frame[at] ^ (1 << random.randrange(8)),)) + frame[at + 1 :]
        elif action == 2:
            chosen.insert(random.randrange(len(chosen)), chosen[i])
        elif len(frame) > 41:
            chosen[i] = time, frame[: random.randrange(41, len(frame))]
        if not chosen:
            return packets[:1]
    return chosen
