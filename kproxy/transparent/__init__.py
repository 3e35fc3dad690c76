"""Transparent mode: the kernel redirects clients' connections to brokers to the relay.

rules.py writes the netfilter rules, netfilter.py installs them, guardian.py removes them however the relay ends,
guard.py starts the guardian and sends it commands. original.py reads a connection's original destination, and
intercept.py dials that.
"""
