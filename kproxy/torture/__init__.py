"""Runs a client's own program through faults, and says whether it lost, doubled or hung (`kproxy torture`)."""
