"""Transparent mode: the kernel redirects clients' connections to brokers to the relay.

rules.py writes the netfilter rules, netfilter.py installs them, guardian.py removes them however the relay ends,
guard.py is the relay's side of the guardian; original.py reads a connection's original destination, intercept.py dials
it.
"""
