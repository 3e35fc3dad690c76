"""Sends requests to brokers: made from JSON, or those of a recording (`kproxy send`)."""
