"""Opens captures and decrypts TLS in them with the secrets that are available."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kproxy.captures.joining import JoinedSource
from kproxy.captures.opening import open_source
from kproxy.captures.source import FileSource, RingSource, SpoolSource
from kproxy.captures.spool import Spooling
from kproxy.captures.tls import keylog
from kproxy.captures.tls.keylog import Secrets


def open_capture(
    paths: Path | str | Iterable[Path | str],
    *,
    log: Path | str | None = None,
    secrets: Secrets | None = None,
    live: bool = False,
    spooling: Spooling | None = None,
    names: Mapping[Path, str] | None = None,
) -> FileSource:
    """The source of captures (see captures.opening.open_source), decrypted if there are TLS secrets and it is not
    `live`.

    Secrets come from `secrets`, from the key log at path `log`, and from captures that are files. Raises CaptureError
    if a capture or the key log cannot be opened.
    """
    secrets = {**(secrets or {}), **({} if log is None else keylog.read(Path(log)))}
    source = open_source(paths, live=live, spooling=spooling, names=names)
    if isinstance(source, JoinedSource):
        secrets |= source.secrets
    elif not isinstance(source, RingSource | SpoolSource):
        while not keylog.settled(source.view(source.parts[0])) and source.grow(wait=True):
            pass
        secrets |= keylog.embedded([source.view(source.parts[0])])
    if not secrets or live:
        return source
    from kproxy.captures.tls.decrypting import DecryptedSource

    return DecryptedSource(source, secrets)
