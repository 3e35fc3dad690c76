"""TLS on both sides of the relay.

`authority` is kproxy's own CA, `contexts` says with which certificates and rules each side speaks, `layer` speaks it
over a connection, `reasons` puts failures into words, `ends` is what the relay uses of all that.
"""
