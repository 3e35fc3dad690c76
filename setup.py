"""Compiles three loops over records; where that cannot be, they stay plain Python. All else is in pyproject.toml."""

from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = Path("build", "cython")
PLACE = Path("decoders", "records")
MODULES = ("loop", "shown", "text")


def copied(name: str) -> Extension:
    """The extension `_NAME`, made of NAME.py, which stays importable beside it; its `SOURCE` tells of which NAME.py.

    Imports marked `# not in C` are left out: NAME.pxd has what they name.
    """
    files = [Path(PLACE, name).with_suffix(suffix) for suffix in (".py", ".pxd")]
    for old in PLACE.glob(f"_{name}.*"):
        if old.stat().st_mtime < max(file.stat().st_mtime for file in files):
            old.unlink()  # where nothing can be compiled any more, it would be in the way
    source, types = (file.read_bytes() for file in files)
    copy = Path(BUILD, PLACE, f"_{name}.py")
    copy.parent.mkdir(parents=True, exist_ok=True)
    for package in (copy.parent, copy.parent.parent):
        Path(package, "__init__.py").touch()
    lines = [line for line in source.splitlines(keepends=True) if not line.endswith(b"  # not in C\n")]
    copy.write_bytes(b"".join(lines) + b'\nSOURCE = "%s"\n' % sha256(source + types).hexdigest().encode())
    copy.with_suffix(".pxd").write_bytes(types)
    return Extension(".".join((*PLACE.parts, copy.stem)), [str(copy)])


def extensions() -> list[Extension]:
    made: list[Extension] = cythonize(
        [copied(name) for name in MODULES],
        include_path=[str(BUILD)],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,  # the types are those of the .pxd files alone
            "boundscheck": False,  # the loops check
            "wraparound": False,
        },
    )
    for one in made:
        one.optional = True
    return made


setup(ext_modules=extensions())
