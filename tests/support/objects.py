"""A small S3 server in this process: objects in memory, and the part of S3's protocol that lists, reads and writes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_DATE = "2026-11-21T05:00:00.000Z"


class Objects(ThreadingHTTPServer):
    """The server. `held` are objects by "bucket/key"; `ranges` are the reads: (name, first byte, last byte)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.held: dict[str, bytes] = {}
        self.ranges: list[tuple[str, int, int]] = []
        self.uploads: dict[str, dict[int, bytes]] = {}

    @property
    def options(self) -> str:
        """The query string of URLs for pyarrow."""
        return f"?endpoint_override=127.0.0.1:{self.server_port}&scheme=http&region=us-east-1"


@contextmanager
def serving() -> Iterator[Objects]:
    with Objects() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def as_somebody() -> Iterator[None]:
    """Put credentials into the environment; the server accepts any."""
    given = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}
    with patch.dict(os.environ, given):
        yield


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer's body waits for the other side's acknowledgement of its headers
    server: Objects

    def log_message(self, *_: object) -> None:
        pass

    def _asked(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        return unquote(url.path).strip("/"), {
            name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()
        }

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, size: int = -1) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": "Sat, 21 Nov 2026 05:00:00 GMT", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size < 0 else size))
        self.end_headers()
        self.wfile.write(body)

    def _xml(self, name: str, body: str) -> None:
        self._answer(200, f'<?xml version="1.0" encoding="UTF-8"?><{name}>{body}</{name}>'.encode())

    def do_HEAD(self) -> None:
        name, _ = self._asked()
        held = self.server.held.get(name)
        if held is not None:
            self._answer(200, size=len(held), headers={"ETag": '"1"'})
        else:
            there = "/" not in name and any(each.startswith(f"{name}/") for each in self.server.held)
            self._answer(200 if there else 404)

    def do_GET(self) -> None:
        name, query = self._asked()
        if "list-type" in query:
            self._list(name, query)
            return
        held = self.server.held.get(name)
        if held is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", f"bytes=0-{len(held)}"))
        assert match is not None
        first, last = int(match[1]), min(int(match[2]), len(held) - 1)
        self.server.ranges.append((name, first, last))
        headers = {"ETag": '"1"', "Content-Range": f"bytes {first}-{last}/{len(held)}"}
        self._answer(206, held[first : last + 1], headers)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found, folders = [], set()
        for name, data in sorted(self.server.held.items()):
            if not name.startswith(f"{bucket}/{prefix}"):
                continue
            key = name.removeprefix(f"{bucket}/")
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{_DATE}</LastModified><ETag>1</ETag>"
                    f"<Size>{len(data)}</Size></Contents>"
                )
        found += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
        self._xml("ListBucketResult", f"{head}<IsTruncated>false</IsTruncated>{''.join(found)}")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = _unchunked(self.rfile)
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _unchunked(BytesIO(data)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

    def do_PUT(self) -> None:
        name, query = self._asked()
        data = self._body()
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            self.server.held[name] = self.server.held[unquote(source).strip("/")]
            self._xml("CopyObjectResult", f"<LastModified>{_DATE}</LastModified><ETag>1</ETag>")
        elif "uploadId" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = data
            self._answer(200, headers={"ETag": '"1"'})
        else:
            self.server.held[name] = data
            self._answer(200, headers={"ETag": '"1"'})

    def do_POST(self) -> None:
        name, query = self._asked()
        data = self._body()
        if "uploads" in query:
            number = str(len(self.server.uploads))
            self.server.uploads[number] = {}
            self._xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")
        elif "uploadId" in query:
            parts = self.server.uploads[query["uploadId"]]
            self.server.held[name] = b"".join(parts[number] for number in sorted(parts))
            self._xml("CompleteMultipartUploadResult", "<ETag>1</ETag>")
        else:
            for key in re.findall(r"<Key>(.*?)</Key>", data.decode()):
                self.server.held.pop(f"{name}/{key}", None)
            self._xml("DeleteResult", "")

    def do_DELETE(self) -> None:
        self.server.held.pop(self._asked()[0], None)
        self._answer(204)


def _unchunked(stream: BufferedIOBase) -> bytes:
    """The body of a chunked upload; reads trailers as well."""
    out = b""
    while count := int(stream.readline().partition(b";")[0], 16):
        out += stream.read(count)
        stream.readline()
    while stream.readline().strip():
        pass
    return out
