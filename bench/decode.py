"""Measures the speed of decoding frames to values, compared with kafka-python and kio in the same run.

Each side decodes a golden frame, its length field included, to the values of header and body, by the call that its
library offers. Look-ups that precede this call are done outside the loop. Only golden messages (Kafka's serialisers,
random values, both releases) that the peer knows, accepts and reads to the last byte are measured. Both sides decode
exactly these, in turn; the best of several rounds counts, by CPU time, because other processes may use the machine.

A second line for kafka-python leaves out headers and calls the functions that it generates for a struct directly: its
upper bound.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as version_of
from typing import Any

from kproxy.decoders.compiler import decoder
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.schema import definitions
from tests.support.golden import Golden, golden

ROUNDS = 7
PASSES = 3

Call = Callable[[], object]


@dataclass(frozen=True)
class Sample:
    """A golden frame, and the offset at which its body begins according to kproxy."""

    one: Golden
    release: str
    body_start: int

    @property
    def ours(self) -> Call:
        rules = definitions(self.release)
        if self.one.kind == "request":
            return partial(decode_request, self.one.frame, rules)
        return partial(decode_response, self.one.frame, self.one.api_key, self.one.api_version, rules)

    @property
    def ours_body(self) -> Call:
        rules = definitions(self.release)
        find = rules.request if self.one.kind == "request" else rules.response
        message = find(self.one.api_key, self.one.api_version)
        assert message is not None
        frame = self.one.frame
        return partial(decoder(message, self.one.api_version), frame, self.body_start, len(frame))


def samples() -> Iterator[Sample]:
    for release in ("4.4.0", "3.9.2"):
        rules = definitions(release)
        for one in golden(release):
            read = (
                decode_request(one.frame, rules)
                if one.kind == "request"
                else decode_response(one.frame, one.api_key, one.api_version, rules)
            )
            assert not read.problems, one
            yield Sample(one, release, read.body_start)


@dataclass(frozen=True)
class Cost:
    """Seconds that one pass over all messages takes."""

    wall: float
    cpu: float


def measure(calls: list[Call]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(PASSES):
        for call in calls:
            call()
    return Cost((time.perf_counter() - wall) / PASSES, (time.process_time() - cpu) / PASSES)


def compare(title: str, pairs: list[tuple[Call, Call]], total: int) -> None:
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    measure(ours), measure(theirs)
    our_costs, their_costs = [], []
    for _ in range(ROUNDS):
        gc.collect()
        our_costs.append(measure(ours))
        gc.collect()
        their_costs.append(measure(theirs))
    our, their = min(our_costs, key=lambda cost: cost.cpu), min(their_costs, key=lambda cost: cost.cpu)
    count = len(pairs)
    print(f"{title}: {count} of {total} golden messages")
    for name, cost in (("kproxy", our), ("peer", their)):
        rate = f"{count / cost.cpu:9,.0f} messages a CPU second"
        print(f"  {name:7} {rate}   wall {cost.wall:.4f} s   CPU {cost.cpu:.4f} s")
    print(f"  ratio   {their.cpu / our.cpu:9.2f}   by wall clock {their.wall / our.wall:.2f}")


def kafka_python_classes() -> dict[str, Any]:
    """kafka-python's message classes, by Kafka's names of the messages."""
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        importlib.import_module(module.name)
    found: dict[str, Any] = {}
    waiting = list(ApiMessage.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls._class_version is None and cls._json is not None:
            found.setdefault(cls.name, cls)
    return found


def kafka_python(sample: Sample, classes: dict[str, Any]) -> tuple[Call, Call] | None:
    """(call that decodes the frame, function that decodes the body) of kafka-python; None if it does not read the whole
    frame.
    """
    one = sample.one
    cls = classes.get(one.name)
    if cls is None or one.api_version > cls.max_version:
        return None
    flexible = cls.flexible_version_q(one.api_version)
    body = memoryview(one.frame)[sample.body_start :]
    whole = partial(cls.decode, one.frame, version=one.api_version, header=True, framed=True)
    try:
        inner = cls._struct.compiled_decode_from(
            one.api_version, compact=flexible, tagged=flexible, data_class=cls[None]
        )
        _, end = inner(body, 0)
        whole()
    except Exception:  # noqa: BLE001 - any error of the peer excludes the message
        return None
    return (whole, partial(inner, body, 0)) if end == len(body) else None


def kio(sample: Sample) -> Call | None:
    """A call that reads length, header and payload by kio's readers; None if these do not read the whole frame."""
    from kio.index import load_request_schema, load_response_schema
    from kio.serial import entity_reader
    from kio.serial.readers import read_int32

    one = sample.one
    load = load_request_schema if one.kind == "request" else load_response_schema
    frame = one.frame
    try:
        schema = load(one.api_key, one.api_version)
        header, payload = entity_reader(schema.__header_schema__), entity_reader(schema)

        def read() -> int:
            _, size = read_int32(frame, 0)
            _, after = header(frame, size)
            _, last = payload(frame, size + after)
            return int(size + after + last)

        end = read()
    except Exception:  # noqa: BLE001 - any error of the peer excludes the message
        return None
    return read if end == len(frame) else None


def main() -> None:
    everything = list(samples())
    classes = kafka_python_classes()
    read = [(sample, calls) for sample in everything if (calls := kafka_python(sample, classes)) is not None]
    peer = f"kafka-python {version_of('kafka-python')}"
    compare(f"{peer}, frames", [(sample.ours, calls[0]) for sample, calls in read], len(everything))
    compare(f"{peer}, bodies", [(sample.ours_body, calls[1]) for sample, calls in read], len(everything))
    native = [(sample.ours, call) for sample in everything if (call := kio(sample)) is not None]
    compare(f"kio {version_of('kio')}, frames", native, len(everything))


if __name__ == "__main__":
    main()
