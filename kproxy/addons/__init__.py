"""Addons: code, by users and by kproxy itself, that sees or changes traffic. See docs/addons.md.

    from kproxy.addons import Actor, Observer

An *observer* sees complete exchanges in the process that reads the recording; an *actor* changes frames in the relay.
"""

from kproxy.addons.api import Actor, Frame, Observed, Observer, Progress

__all__ = ["Actor", "Frame", "Observed", "Observer", "Progress"]
