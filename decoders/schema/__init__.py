"""Kafka's message definitions as data: what every API, version, field and error code is called and looks like."""

from __future__ import annotations

from decoders.schema.apis import Api
from decoders.schema.lookup import Definitions, definitions, resolve
from decoders.schema.model import Field, Message, Struct, Versions

__all__ = ["Api", "Definitions", "Field", "Message", "Struct", "Versions", "definitions", "resolve"]
