"""Tells clients to slow down: kproxy run --upstream kafka:9092 --addon docs/examples/throttle.py"""

from kproxy.addons import Actor, Frame

MILLISECONDS = 250


class Throttle(Actor):
    apis = ("Produce", "FindCoordinator", "InitProducerId")

    def response(self, frame: Frame) -> bytes | None:
        if "throttleTimeMs" not in frame.body:  # early versions have no such field
            return None
        return frame.written(body={**frame.body, "throttleTimeMs": MILLISECONDS})
