"""Errors of TLS settings and of kproxy's certificate authority."""

from __future__ import annotations


class TlsError(Exception):
    """A file or setting that TLS cannot use; the text says which and why."""


class AuthorityError(Exception):
    """kproxy's CA cannot be read, made or used; the text says why and where."""
