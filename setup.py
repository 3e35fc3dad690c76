"""Compiles the loop over records; where that cannot be, the loop stays plain Python. All else is in pyproject.toml."""

from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = Path("build", "loop")
SOURCE = Path("decoders", "records", "loop.py")
TYPES = SOURCE.with_suffix(".pxd")


def extension() -> Extension:
    """`_loop`, made of loop.py, which stays importable beside it; `_loop.SOURCE` tells of which loop.py."""
    source, types = SOURCE.read_bytes(), TYPES.read_bytes()
    copy = Path(BUILD, SOURCE).with_name("_loop.py")
    copy.parent.mkdir(parents=True, exist_ok=True)
    for package in (copy.parent, copy.parent.parent):
        Path(package, "__init__.py").touch()
    copy.write_bytes(source + b'\nSOURCE = "%s"\n' % sha256(source + types).hexdigest().encode())
    copy.with_suffix(".pxd").write_bytes(types)
    return Extension("decoders.records._loop", [str(copy)], optional=True)


setup(
    ext_modules=cythonize(
        [extension()],
        include_path=[str(BUILD)],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,  # the types are those of loop.pxd alone
            "boundscheck": False,  # loop.py checks
            "wraparound": False,
        },
    )
)
