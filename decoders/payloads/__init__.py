"""Viewers of payloads: the keys, values and header values of records."""
