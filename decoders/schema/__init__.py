"""Kafka's message definitions as data: what every API, version, field and error code is called and looks like."""

from __future__ import annotations

from kproxy.decoders.schema.apis import Api
from kproxy.decoders.schema.lookup import Definitions, definitions, resolve
from kproxy.decoders.schema.model import Field, Message, Struct, Versions

__all__ = ["Api", "Definitions", "Field", "Message", "Struct", "Versions", "definitions", "resolve"]
