"""Viewers of payloads: they decode the keys, values and header values of records."""
