"""The pytest plugin: a relay between a test's client and a cluster, with rules that act on the traffic.

See docs/testing.md. `plugin` has what pytest calls; it is imported whenever pytest starts, so it imports the rest late.
"""
