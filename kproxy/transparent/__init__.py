"""Transparent mode: the kernel hands us connections that clients open to brokers, and says where each was going.

rules.py says what the kernel must be told, netfilter.py tells it, guardian.py takes it back however the relay ends,
guard.py is the relay's side of that; original.py reads a connection's destination, intercept.py opens the other half.
"""
