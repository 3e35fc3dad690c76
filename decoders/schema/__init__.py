"""Kafka's message definitions as data: APIs, versions, fields and error codes with their names and types."""

from __future__ import annotations

from kproxy.decoders.schema.apis import Api
from kproxy.decoders.schema.lookup import Definitions, definitions, resolve
from kproxy.decoders.schema.model import Field, Message, Struct, Versions

__all__ = ["Api", "Definitions", "Field", "Message", "Struct", "Versions", "definitions", "resolve"]
