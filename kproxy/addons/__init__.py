"""Addons: code of users or of kproxy itself that observes or changes traffic. See docs/addons.md.

    from kproxy.addons import Actor, Observer

An *observer* receives complete exchanges in the process that reads the recording; an *actor* changes frames in the
relay.
"""

from kproxy.addons.api import Act, Actor, Frame, Observed, Observer, Progress

__all__ = ["Act", "Actor", "Frame", "Observed", "Observer", "Progress"]
