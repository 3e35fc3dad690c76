"""Definitions of the user from files: messages of API keys that Kafka lacks, and dialects.

They are passed between processes as the user gave them: paths of files and folders, and names of dialects that come
with kproxy. Each process that decodes reads the files again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.decoders import schema
from kproxy.decoders.schema import Definitions
from kproxy.decoders.schema.jsontext import DefinitionError

if TYPE_CHECKING:
    from kproxy.decoders.schema.additions import Additions

SUFFIX = ".json"


def read(user_definitions: Sequence[str]) -> Additions:
    """The definitions in these files, folders (their *.json) and dialects.

    Raises DefinitionError with file, line and reason; the line is 0 if the file itself cannot be read.
    """
    from kproxy.decoders.definition_files import read as read_additions

    return read_additions(text for one in dict.fromkeys(user_definitions) for text in _texts(one))


def definitions(release: str | None = None, user_definitions: Sequence[str] = ()) -> Definitions:
    """All definitions as of a Kafka release (None: the newest), with the user's; filters then know the user's names.

    Raises the errors of `read`, and ValueError for an unknown release.
    """
    return (
        _definitions(schema.resolve(release), tuple(user_definitions))
        if user_definitions
        else schema.definitions(release)
    )


@lru_cache(maxsize=8)
def _definitions(release: str, user_definitions: tuple[str, ...]) -> Definitions:
    from kproxy.decoders.filters.bodies import add_fields
    from kproxy.decoders.filters.values import add_api_names

    additions = read(user_definitions)
    add_api_names(additions.names)
    add_fields(additions.bodies)
    return Definitions(release, additions)


def _texts(given: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each file that `given` means: a file, all *.json in a folder, or a dialect that comes with
    kproxy.
    """
    from kproxy.decoders import dialects
    from kproxy.decoders.definition_files import LARGEST

    path = Path(given)
    if given in dialects.shipped() and not path.exists():
        yield given, dialects.text_of(given)
        return
    paths = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not paths:
        raise DefinitionError(f"the folder has no {SUFFIX} file", 0, given)
    for one in paths:
        try:
            if one.stat().st_size > LARGEST:
                raise DefinitionError(f"larger than {LARGEST >> 20} MiB, the limit of a definition file", 0, str(one))
            yield str(one), one.read_text("utf-8")
        except OSError as error:
            near = "" if path.exists() else f"; kproxy comes with the dialects {', '.join(dialects.shipped())}"
            raise DefinitionError(f"{error.strerror}{near}", 0, str(one)) from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise DefinitionError(f"not UTF-8: {error.reason}", line, str(one)) from None
