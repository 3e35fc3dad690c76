"""TLS on both sides of the relay.

`authority` is kproxy's own CA, `contexts` makes `ssl` contexts from the settings, `layer` runs TLS over a connection,
`reasons` explains failures, and `ends` is the interface that the relay calls.
"""
