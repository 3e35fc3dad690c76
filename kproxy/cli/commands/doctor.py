"""`kproxy doctor`: checks of machine, installation and terminal, one line each."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit
from kproxy.cli.tables import size
from kproxy.decoders.extras import installing

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (Linux's shared memory; only its free space is read)
RING_BYTES = 256 << 20
FEW_FILES = 4096
CAP_NET_RAW = 13
PATIENCE = 60
"""Deadline in seconds for a program to print its version."""
NARROW, LOW = 60, 15


@dataclass(frozen=True, slots=True)
class Fact:
    """The result of a check. `state` is "ok", "note" (something optional is missing) or "bad" (something fails)."""

    name: str
    state: str
    detail: str


Check = Callable[[], Iterator[Fact]]


@click.command()
@click.pass_context
def command(ctx: click.Context) -> None:
    """Check what this machine and terminal support, and what is missing.

    It checks Python and packages (with the extras that install them), compiled modules, Java, the rights and programs
    that capturing and transparent mode need, the terminal, and kproxy's directories. The exit code is 1 if something
    does not work; an optional part that is absent is a note.

    \b
    kproxy doctor
    kproxy doctor --json | jq 'select(.state != "ok")'
    """  # noqa: D301 (\b keeps click from joining the lines)
    facts = [fact for check in CHECKS for fact in _facts(check)]
    if settings.current().json:
        import json

        for fact in facts:
            click.echo(json.dumps(asdict(fact)))
    else:
        colours = {"ok": "green", "note": "yellow", "bad": "red"}
        for fact in facts:
            click.echo(f"{click.style(f'{fact.state:4}', fg=colours[fact.state])} {fact.name:16} {fact.detail}")
    if any(fact.state == "bad" for fact in facts):
        ctx.exit(Exit.CONDITION)


def _facts(check: Check) -> Iterator[Fact]:
    try:
        yield from check()
    except (OSError, ImportError, ValueError, subprocess.SubprocessError) as error:
        yield Fact(check.__name__.replace("_", " "), "note", f"unknown: {error}")


def python() -> Iterator[Fact]:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    yield Fact("python", "ok" if good else "bad", f"{version} at {sys.executable}" + ("" if good else "; needs 3.11"))


def packages() -> Iterator[Fact]:
    from importlib.metadata import PackageNotFoundError, requires, version

    from kproxy.cli.requirements import needed

    try:
        yield Fact("kproxy", "ok", version("kafka-kproxy"))
        wanted = needed(requires("kafka-kproxy") or [])
    except PackageNotFoundError:
        yield Fact("kproxy", "bad", "runs without being installed: pip install kafka-kproxy")
        return
    for name, extra in wanted:
        try:
            yield Fact(name, "ok", version(name))
        except PackageNotFoundError:
            if extra:
                if not getattr(sys, "frozen", False):  # nothing can be installed into the program without Python
                    yield Fact(name, "note", f"not installed; {installing(extra)}")
            else:
                yield Fact(name, "bad", "not installed")


def event_loop() -> Iterator[Fact]:
    try:
        import uvloop  # noqa: F401 (imported only to see whether that works)
    except ImportError as error:
        yield Fact("event loop", "note", f"asyncio's own, slower than uvloop ({error})")
    else:
        yield Fact("event loop", "ok", "uvloop")


def loops() -> Iterator[Fact]:
    from kproxy.decoders.batches.compiled import COMPILED
    from kproxy.decoders.conversation.compiled import COMPILED as FRAMES

    yield _compiled("frame loop", "about half as fast", compiled=FRAMES)
    yield _compiled("record loop", "several times slower", compiled=COMPILED)


def message_path() -> Iterator[Fact]:
    from kproxy.captures.formats.compiled import COMPILED as RECORDING
    from kproxy.core.compiled import COMPILED

    yield _compiled("relay's path", "slower by some microseconds per message", compiled=COMPILED and RECORDING)


def _compiled(name: str, otherwise: str, *, compiled: bool) -> Fact:
    if compiled:
        return Fact(name, "ok", "compiled")
    return Fact(name, "note", f"plain Python, {otherwise}; install again with a C compiler")


def spark() -> Iterator[Fact]:
    from kproxy.captures.spark.session import java
    from kproxy.cli.spark_session import NO_JAVA, NO_SPARK, lacking

    taken = False
    for one in java.candidates(os.environ):
        words = f"{one.version or 'unknown version'} at {one.program}, from {one.origin}"
        yield Fact("java", "note" if one.unfit else "ok", f"{words}{f': {one.unfit}' if one.unfit else ''}")
        taken = taken or one.unfit is None
    if lacking():
        yield Fact("spark", "note", NO_SPARK)
    elif not taken:
        yield Fact("spark", "note", NO_JAVA)
    else:
        yield Fact("spark", "ok", "can run here")


def libpcap() -> Iterator[Fact]:
    from ctypes.util import find_library

    name = find_library("pcap")
    if name is None:
        yield Fact("libpcap", "note", "not found; only capturing needs it, reading captures does not")
    else:
        yield Fact("libpcap", "ok", name)


def capture_rights() -> Iterator[Fact]:
    status = Path("/proc/self/status")
    if not status.exists():
        readable = os.access("/dev/bpf0", os.R_OK)
        yield Fact("capture rights", "ok" if readable else "note", f"/dev/bpf0 is{'' if readable else ' not'} readable")
        return
    held = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("CapEff:"))
    if int(held, 16) >> CAP_NET_RAW & 1:
        yield Fact("capture rights", "ok", "CAP_NET_RAW")
    else:
        yield Fact("capture rights", "note", "no CAP_NET_RAW: `kproxy sniff` needs root")


def tshark() -> Iterator[Fact]:
    import shutil

    program = shutil.which("tshark")
    if program is None:
        yield Fact("tshark", "note", "not found; kproxy does not need it")
        return
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=PATIENCE).stdout
    yield Fact("tshark", "ok", f"{said.partition(chr(10))[0].strip(' .') or 'of unknown version'} at {program}")


def transparent_mode() -> Iterator[Fact]:
    from kproxy.transparent import netfilter

    why = netfilter.lacking("tproxy")
    if why is None:
        _, version, _ = netfilter.run(("iptables", "--version"))
        yield Fact("transparent mode", "ok", version.strip())
    else:
        yield Fact("transparent mode", "note", why)


def shared_memory() -> Iterator[Fact]:
    try:
        room = os.statvfs(SHARED_MEMORY)
    except OSError:
        yield Fact("shared memory", "note", "none; recordings without -w go to the cache directory")
        return
    free = room.f_bavail * room.f_frsize
    if free >= RING_BYTES:
        yield Fact("shared memory", "ok", f"{free >> 20} MiB free")
    else:
        yield Fact("shared memory", "note", f"{free >> 20} MiB free; recordings without -w go to the cache directory")


def open_files() -> Iterator[Fact]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    limit = "unlimited" if unlimited else str(hard)
    state = "ok" if unlimited or hard >= FEW_FILES else "note"
    yield Fact("open files", state, f"{soft}, raised to {limit} while forwarding (two per connection)")


def terminal() -> Iterator[Fact]:
    import shutil

    if not sys.stdout.isatty():
        yield Fact("terminal", "note", "standard output is not a terminal: one line per exchange instead of the UI")
    else:
        size = shutil.get_terminal_size()
        small = size.columns < NARROW or size.lines < LOW
        yield Fact(
            "terminal", "note" if small else "ok",
            f"{os.environ.get('TERM', 'unknown')} {size.columns}x{size.lines}" + (" (needs 60x15)" if small else ""),
        )  # fmt: skip
    encoding = (sys.stdout.encoding or "").lower()
    utf8 = encoding.replace("-", "") == "utf8"
    yield Fact("encoding", "ok" if utf8 else "note", encoding + ("" if utf8 else "; plain ASCII is drawn"))
    variables = [name for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TMUX", "SSH_TTY") if os.environ.get(name)]
    if variables:
        yield Fact("environment", "ok", " ".join(variables))


def places() -> Iterator[Fact]:
    path = settings.config_path()
    yield Fact("configuration", "ok", f"{path}" + ("" if path.exists() else " (none)"))
    import platformdirs

    cache = Path(platformdirs.user_cache_dir("kproxy", appauthor=False))
    home = next(parent for parent in (cache, *cache.parents) if parent.exists())
    writable = os.access(home, os.W_OK)
    yield Fact("cache", "ok" if writable else "bad", f"{cache}" + ("" if writable else " cannot be written"))
    for directory in sorted(path for path in cache.glob("*") if path.is_dir()):
        yield Fact(f"cache/{directory.name}", "ok", f"{size(_bytes_in(directory))}B")


def _bytes_in(directory: Path) -> int:
    """Size in bytes of all files below a directory; links and files deleted meanwhile count as 0."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                found = Path(folder, name).lstat()
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


CHECKS: tuple[Check, ...] = (
    python, packages, event_loop, loops, message_path, spark, libpcap, capture_rights, tshark,
    transparent_mode, shared_memory, open_files, terminal, places,
)  # fmt: skip
