"""Runs a client's program under faults, and reports lost or duplicated records and hangs (`kproxy torture`)."""
