"""Compiles the modules that run for every record or read, where there is a C compiler, and writes the package's readme.

KPROXY_PURE=1 compiles nothing: the wheel is then for every machine, and slower. Everything else is in pyproject.toml.
"""

import os
import re
import tomllib
from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = Path("build", "cython")
PACKAGE = Path("kproxy")
CONVERSATION = PACKAGE / "decoders" / "conversation"
BATCHES = PACKAGE / "decoders" / "batches"
SHARED = PACKAGE / "decoders" / "exchange.pxd"
"""C types of a module that is not compiled."""
MODULES = (
    CONVERSATION / "loop",
    CONVERSATION / "pairing",
    BATCHES / "loop",
    BATCHES / "shown",
    BATCHES / "text",
    PACKAGE / "captures" / "formats" / "block",
    PACKAGE / "captures" / "formats" / "starts",
    PACKAGE / "core" / "passing",
)


def copied(module: Path) -> Extension:
    """The extension `_NAME`, made of NAME.py, which stays importable beside it; its `SOURCE` tells of which NAME.py.

    Imports marked `# not in C` are left out: NAME.pxd has what they name.
    """
    place, name = module.parent, module.name
    files = [module.with_suffix(suffix) for suffix in (".py", ".pxd")]
    for old in place.glob(f"_{name}.*"):
        if old.stat().st_mtime < max(file.stat().st_mtime for file in (*files, SHARED)):
            old.unlink()  # where nothing can be compiled any more, it would be in the way
    source, types = (file.read_bytes() for file in files)
    copy = Path(BUILD, place, f"_{name}.py")
    copy.parent.mkdir(parents=True, exist_ok=True)
    for package in (folder for folder in copy.parents if folder.is_relative_to(BUILD / PACKAGE)):
        Path(package, "__init__.py").touch()
    lines = [line for line in source.splitlines(keepends=True) if not line.endswith(b"  # not in C\n")]
    copy.write_bytes(b"".join(lines) + b'\nSOURCE = "%s"\n' % sha256(source + types).hexdigest().encode())
    copy.with_suffix(".pxd").write_bytes(types)
    # Without what debuggers read, which is twice the size of the rest.
    return Extension(".".join((*place.parts, copy.stem)), [str(copy)], extra_compile_args=["-g0"])


def extensions() -> list[Extension]:
    copies = [copied(module) for module in MODULES]
    Path(BUILD, SHARED).write_bytes(SHARED.read_bytes())
    made: list[Extension] = cythonize(
        copies,
        include_path=[str(BUILD)],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,  # the types are those of the .pxd files alone
            "boundscheck": False,  # what is compiled checks
            "wraparound": False,
            "nonecheck": True,
        },
    )
    for one in made:
        one.optional = True
    return made


def readme() -> str:
    """README.md with absolute links: package indexes show it outside the repository."""
    source = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)([^)]+\))", rf"\1{source}/raw/main/\2", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:)([^)]+\))", rf"\1{source}/blob/main/\2", text)


PURE = os.environ.get("KPROXY_PURE") == "1"
setup(
    ext_modules=[] if PURE else extensions(), long_description=readme(), long_description_content_type="text/markdown"
)
