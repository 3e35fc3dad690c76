"""Decodes the content of bytes fields: group protocols, enclosed messages, metrics, SASL tokens.

`table` lists the fields; `form` adds their decoded content to JSON, `nodes` adds it to a tree.
"""

from __future__ import annotations

from kproxy.decoders.embedded.form import form, show
from kproxy.decoders.embedded.group import Kind, inside
from kproxy.decoders.embedded.nodes import attach, hang, problems
from kproxy.decoders.embedded.sasl import token
from kproxy.decoders.embedded.scope import Found, Scope
from kproxy.decoders.embedded.table import Place, places

__all__ = ["Found", "Kind", "Place", "Scope", "attach", "form", "hang", "inside", "places", "problems", "show", "token"]
