"""Compiles the loop over records; where that cannot be, the loop stays plain Python. All else is in pyproject.toml."""

from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = Path("build", "loop")
SOURCE = Path("decoders", "records", "loop.py")
TYPES = SOURCE.with_suffix(".pxd")


def extensions() -> list[Extension]:
    """`_loop`, made of loop.py, which stays importable beside it; `_loop.SOURCE` tells of which loop.py."""
    source, types = SOURCE.read_bytes(), TYPES.read_bytes()
    copy = Path(BUILD, SOURCE).with_name("_loop.py")
    for old in SOURCE.parent.glob("_loop.*"):
        if old.stat().st_mtime < max(SOURCE.stat().st_mtime, TYPES.stat().st_mtime):
            old.unlink()  # where nothing can be compiled any more, it would be in the way
    copy.parent.mkdir(parents=True, exist_ok=True)
    for package in (copy.parent, copy.parent.parent):
        Path(package, "__init__.py").touch()
    copy.write_bytes(source + b'\nSOURCE = "%s"\n' % sha256(source + types).hexdigest().encode())
    copy.with_suffix(".pxd").write_bytes(types)
    made: list[Extension] = cythonize(
        [Extension("decoders.records._loop", [str(copy)])],
        include_path=[str(BUILD)],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,  # the types are those of loop.pxd alone
            "boundscheck": False,  # loop.py checks
            "wraparound": False,
        },
    )
    for one in made:
        one.optional = True
    return made


setup(ext_modules=extensions())
