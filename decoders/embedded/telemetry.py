"""Decodes metrics that clients push to brokers (KIP-714): OpenTelemetry's MetricsData in Protobuf, often compressed.

The Protobuf library is loaded when metrics are first decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kproxy.decoders.batches.codecs import CodecError, decompress
from kproxy.decoders.embedded.inside import Inside, ToJson, content_start
from kproxy.decoders.embedded.jsonnodes import json_node
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.tree import Node

COMPRESSION: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the codecs; the index is the number in the field `compressionType`."""
LARGEST: Final = 8 << 20
"""Maximum size in bytes of metrics that are decoded; by default, a broker accepts 1 MiB from a client."""


class Metrics(Inside):
    """Metrics in a bytes field, which are decompressed and decoded on first use."""

    label = "OTLP metrics"

    def __init__(self, data: Buffer, compression: int, limit: int) -> None:
        self.data = data
        self.compression = compression
        self.limit = min(limit, LARGEST)
        self.problem: tuple[Code, str] | None = None
        self._shown: Any = None
        self._opened = False

    def open(self) -> Any:
        """MetricsData in Protobuf's JSON form; None, with `problem` set, if the data cannot be decoded."""
        if not self._opened:
            self._opened = True
            try:
                self._shown = _parse(self._plain())
            except CodecError as error:
                self.problem = (error.code, error.message)
            except ValueError as error:
                self.problem = (Code.BAD_LENGTH, f"not OTLP metrics: {error}")
            self.readable = self.problem is None
            self.wrong = not self.readable
        return self._shown

    def _plain(self) -> bytes:
        known = 0 <= self.compression < len(COMPRESSION)
        codec = COMPRESSION[self.compression] if known else str(self.compression)
        if codec == "none" and len(self.data) > self.limit:
            text = f"{len(self.data)} bytes of metrics, more than {self.limit}: not opened"
            raise CodecError(Code.DECOMPRESSION_LIMIT, text)
        return decompress(codec, self.data, limit=self.limit)

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        del to_json, scope
        return self.open()

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        del buffer, scope
        shown = self.open()
        if self.problem is not None:
            code, text = self.problem
            node.problem = Problem("", content_start(node), node.path, text, code)
            return ()
        return [json_node(name, value, node) for name, value in shown.items()]


def _parse(data: bytes) -> Any:
    """The JSON form of `data`. Raises ValueError if it is not a MetricsData."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        return MessageToDict(MetricsData.FromString(data))
    except (DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def metrics(data: Buffer, scope: Scope) -> Metrics:
    """Decodes the metrics in a PushTelemetry request."""
    compression = scope.around[0].get("compressionType", 0)
    return Metrics(data, compression, scope.view.batch_limit)
