"""Splits SASL tokens in bytes fields into their parts; secret parts are withheld one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kproxy.decoders import secrets
from kproxy.decoders.embedded.inside import Inside, ToJson, content_start
from kproxy.decoders.embedded.jsonnodes import json_node
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.sasl.tokens import Part, Token, read
from kproxy.decoders.tree import Node


class SaslToken(Inside):
    """A decoded SASL token."""

    def __init__(self, token: Token) -> None:
        self.token = token
        self.label = f"{token.mechanism} {token.step}"

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        """A dict of "mechanism", "step" and the token's parts by name; if the token holds a JWT, also "claims"."""
        del to_json
        token = self.token
        whole: dict[str, Any] = {"mechanism": token.mechanism, "step": token.step}
        for part in token.parts:
            whole[part.name] = _shown(part, scope)
        if token.claims is not None:
            whole["claims"] = dict(token.claims)
        return whole

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        del buffer, scope
        start = content_start(node)
        for part in self.token.parts:
            child = Node(part.name, "string", start + part.start, node)
            child.end = start + part.end
            child.value = _text(part)
            child.secret = part.secret
            if part.secret and self.token.claims is not None:
                child.label = "JWT"
                child.later(self._claims)
            yield child

    def _claims(self, node: Node) -> Iterable[Node]:
        return [json_node(name, value, node) for name, value in (self.token.claims or {}).items()]


def _shown(part: Part, scope: Scope) -> Any:
    if part.secret and not scope.view.show_secrets:
        return secrets.redacted(part.value)
    return _text(part) if part.secret else part.value


def _text(part: Part) -> Any:
    return part.value.decode() if isinstance(part.value, bytes) else part.value


def token(data: Buffer, scope: Scope) -> SaslToken | None:
    """Decodes a SASL token; None if its mechanism is unknown."""
    del scope
    found = read(data)
    return None if found is None else SaslToken(found)
