"""Faults of fetching: no sessions, answers that are tiny, cut to a limit, or thrown away."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.recipes.recipe import Recipe, Stage, idle
from tests.support.java import broker_classpath

READERS = """
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

class Readers {
    public static void main(String[] args) {
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(args[2]); number++) {
            var consumer = new KafkaConsumer<byte[], byte[]>(Map.of(
                "bootstrap.servers", args[0], "client.id", "reader-" + number, "auto.offset.reset", "earliest",
                "key.deserializer", bytes, "value.deserializer", bytes));
            consumer.assign(List.of(new TopicPartition(args[1], 0)));
            consumers.add(consumer);
        }
        for (int round = 0; round < 12; round++) {
            for (var consumer : consumers) consumer.poll(Duration.ofMillis(100));
        }
        for (var consumer : consumers) consumer.close();
    }
}
"""
"""Consumers of the Java client, which uses fetch sessions: bootstrap, topic, number of consumers."""


def full_cache(stage: Stage) -> None:
    """Twelve consumers at a broker with slots for eight fetch sessions."""
    stage.topic("events", records=20)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "Readers.java"
        source.write_text(READERS)
        command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", broker_classpath("4.4.0"), str(source)]
        subprocess.run([*command, stage.bootstrap, "events", "12"], check=True, timeout=120, stdout=subprocess.DEVNULL)


def pauses(stage: Stage) -> None:
    """A consumer that pauses and resumes its partition again and again: librdkafka drops what it has fetched ahead."""
    stage.topic("letters", 1)
    producer = stage.producer("writer", batch_size=20_000)
    for _ in range(120):
        producer.produce("letters", bytes(1_000), partition=0)
    producer.flush(20)
    consumer = stage.consumer("restless", "readers", "letters", max_partition_fetch_bytes=20_000)
    for _ in range(55):
        consumer.poll(0.3)
        consumer.pause(consumer.assignment())
        time.sleep(0.3)
        consumer.resume(consumer.assignment())
        time.sleep(0.3)
    consumer.close()


@contextlib.contextmanager
def writing(stage: Stage, topic: str, rate: int, size: int = 10) -> Iterator[None]:
    """A producer that sends so many records a second."""
    stop = threading.Event()
    producer = stage.producer("writer", linger_ms=0, acks=0)  # without responses the capture is smaller

    def write() -> None:
        began, sent = time.monotonic(), 0
        while not stop.wait(1 / rate):
            due = round((time.monotonic() - began) * rate)
            for _ in range(due - sent):
                producer.produce(topic, bytes(size), partition=0)
            sent = due
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(20)


def trickle(stage: Stage) -> None:
    """A consumer that gets each of 21 records a second by itself, for more than a minute."""
    stage.topic("ticks")
    with writing(stage, "ticks", 21):
        consumer = stage.consumer("hasty", "readers", "ticks")
        idle(consumer, 65)
        consumer.close()


RECIPES = {
    "fetch.session_refused": Recipe(
        full_cache,
        "no fetch session",
        settings={"max.incremental.fetch.session.cache.slots": 8},
    ),
    "fetch.refetch": Recipe(pauses, "of letters-0 again"),
    "fetch.tiny_polls": Recipe(trickle, "fetch.min.bytes="),
}
