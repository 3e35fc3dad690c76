"""Errors of TLS settings and of kproxy's certificate authority."""

from __future__ import annotations


class TlsError(Exception):
    """TLS cannot use a file or a setting; the text says which one and why."""


class AuthorityError(Exception):
    """kproxy's CA cannot be read, made or used; the text says why and where."""
