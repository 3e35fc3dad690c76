"""Makes the packages that need no Python on the machine where they run: a folder, one file, and a .deb.

python -m tools.packages [onefile] [deb] [--output DIRECTORY]

Runs with the Python of an environment that has kproxy (not editable) and PyInstaller. What is made runs where glibc is
at least as new as on the machine that made it; packages/README.md says which one to choose. Exits with 1 if a program
that it calls fails.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import kproxy

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ROOT / "packages"
OF_THE_BUILD: Final = frozenset(
    {"altgraph", "kafka-kproxy", "packaging", "pip", "pyinstaller", "pyinstaller-hooks-contrib", "setuptools"}
)
"""Distributions whose licences are not listed: those that only make the packages, and kproxy itself."""
DEBIAN: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's names of machines."""
COMPLETIONS: Final = {
    "kproxy.bash": "usr/share/bash-completion/completions/kproxy",
    "_kproxy": "usr/share/zsh/vendor-completions/_kproxy",
    "kproxy.fish": "usr/share/fish/vendor_completions.d/kproxy.fish",
}
"""Where Debian's shells look for the files of packages/completions."""
CONTROL: Final = """\
Package: kproxy
Version: {version}
Section: net
Priority: optional
Architecture: {machine}
Depends: libc6 (>= {libc})
Installed-Size: {kibibytes}
Maintainer: The kproxy developers
Homepage: https://github.com/kafka-kproxy/kproxy
Description: protocol debugging proxy and packet inspector for Apache Kafka
 kproxy stands between Kafka's clients and brokers, or reads captures. It
 decodes every version of every request, shows them in the terminal, explains
 what is wrong, and makes faults on purpose.
"""


def folder(output: Path) -> Path:
    """The folder `kproxy` in `output`: the program `kproxy`, all that it needs, and the licences of what is in it."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(
            [sys.executable, "-P", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN", "--distpath", str(output),
             "--workpath", work, str(SOURCES / "onefile" / "kproxy.spec")],
            check=True,
        )  # fmt: skip
    made = output / "kproxy"
    _strip(made)
    (made / "LICENCES.txt").write_text("\n".join(_licences()), encoding="utf-8")
    return made


def _strip(made: Path) -> None:
    """Remove the symbols that only debuggers read, a third of the size, from the libraries of the folder `made`.

    Leaves libraries in NAME.libs unchanged: the repair of wheels has moved parts of them, which `strip` would destroy.
    """
    libraries = [
        str(path)
        for path in made.rglob("*.so*")
        if path.is_file() and not path.is_symlink() and not path.parent.name.endswith(".libs")
    ]
    subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)


def _licences() -> Iterator[str]:
    """The licence of each distribution of the environment that is in the folder, with its texts."""
    yield f"kproxy {kproxy.__version__} is Apache-2.0. This folder also holds Python, whose licence is the PSF's, and:"
    left_out = OF_THE_BUILD | (set() if os.environ.get("KPROXY_WITH_SCAPY") == "1" else {"scapy"})
    for one in sorted(metadata.distributions(), key=lambda one: one.name.lower()):
        if one.name in left_out:
            continue
        said = [text for key in ("License-Expression", "License") for text in one.metadata.get_all(key, [])]
        kinds = [text for text in one.metadata.get_all("Classifier", []) if text.startswith("License ::")]
        licence = next(iter(said + kinds), "see below").partition("\n")[0].rpartition(" :: ")[2]
        yield f"\n==== {one.name} {one.version}: {licence}\n"
        for file in one.files or ():
            if re.search(r"(?i)(licen[cs]e|copying|notice)[^/]*$", str(file)) and not str(file).endswith(".py"):
                text = Path(str(one.locate_file(file)))
                if text.is_file():
                    yield text.read_text(encoding="utf-8", errors="replace")


def onefile(made: Path) -> Path:
    """One executable file beside the folder: a shell script that unpacks itself once, and an archive of the folder."""
    machine, packed = platform.machine(), io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        archive.add(made, arcname=".", filter=_plain)
    data = packed.getvalue()
    script = (SOURCES / "onefile" / "unpack.sh").read_text(encoding="utf-8")
    filled = {"@VERSION@": kproxy.__version__, "@MACHINE@": machine, "@DIGEST@": hashlib.sha256(data).hexdigest()}
    for place, value in filled.items():
        script = script.replace(place, value)
    # The number of digits of the script's own size is fixed, so that it does not change the size.
    size = len(script.replace("@SKIP@", "0" * 8).encode())
    script = script.replace("@SKIP@", f"{size + 1:08d}")
    one = made.parent / f"kproxy-{kproxy.__version__}-linux-{machine}"
    one.write_bytes(script.encode() + data)
    one.chmod(0o755)
    return one


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member without facts about the machine that makes the archive: owned by root, time 0."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def deb(made: Path) -> Path:
    """A .deb beside the folder: it installs the folder as /usr/lib/kproxy, the man page, and shell completions."""
    machine = DEBIAN[platform.machine()]
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "tree")
        shutil.copytree(made, tree / "usr/lib/kproxy", symlinks=True)
        (tree / "usr/bin").mkdir()
        (tree / "usr/bin/kproxy").symlink_to("../lib/kproxy/kproxy")
        man = tree / "usr/share/man/man1/kproxy.1.gz"
        man.parent.mkdir(parents=True)
        man.write_bytes(gzip.compress((SOURCES / "man/kproxy.1").read_bytes(), mtime=0))
        for name, target in COMPLETIONS.items():
            (tree / target).parent.mkdir(parents=True)
            shutil.copy(SOURCES / "completions" / name, tree / target)
        documents = tree / "usr/share/doc/kproxy"
        documents.mkdir(parents=True)
        shutil.copy(ROOT / "LICENSE", documents / "copyright")
        (documents / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
        kibibytes = sum(path.lstat().st_size for path in tree.rglob("*")) // 1024
        control = tree / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            CONTROL.format(
                version=kproxy.__version__, machine=machine, libc=platform.libc_ver()[1], kibibytes=kibibytes
            ),
            encoding="utf-8",
        )
        for path in (tree, *tree.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        package = made.parent / f"kproxy_{kproxy.__version__}_{machine}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", "-Zxz", str(tree), str(package)], check=True)
    return package


KINDS: Final = {"onefile": onefile, "deb": deb}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="onefile|deb", help="default: the folder alone")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"no such package: {', '.join(sorted(unknown))}")
    given.output.mkdir(parents=True, exist_ok=True)
    try:
        made = folder(given.output)
        for path in (made, *(KINDS[kind](made) for kind in given.kinds)):
            print(path)
    except subprocess.CalledProcessError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
