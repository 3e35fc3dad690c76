"""What is inside bytes fields whose inside is known."""

from __future__ import annotations

from decoders.schema.lookup import Definitions
from decoders.schema.model import Message
from decoders.tree import Node
from decoders.view import View


def attach(body: Node, message: Message, version: int, definitions: Definitions, view: View) -> None:
    """Hang what is inside the bytes fields of a message below them, to be made when it is asked for."""
    del body, message, version, definitions, view
