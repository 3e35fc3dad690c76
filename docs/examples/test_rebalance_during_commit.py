"""A rebalance begins while a commit is in flight: the application learns that its offsets are not committed."""

import confluent_kafka
import pytest


def test_the_commit_fails_and_says_so(kproxy):
    producer = confluent_kafka.Producer({"bootstrap.servers": kproxy.bootstrap_servers})
    producer.produce("rebalanced", b"one", partition=0)
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kproxy.bootstrap_servers,
            "group.id": "workers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["rebalanced"])
    message = consumer.poll(20)
    late = kproxy.on("OffsetCommit", group="workers").first().error("REBALANCE_IN_PROGRESS", applied=False)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        consumer.commit(message, asynchronous=False)
    assert raised.value.args[0].code() == confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS
    assert late.hits == 1
    (place,) = consumer.committed([confluent_kafka.TopicPartition("rebalanced", 0)], timeout=20)
    assert place.offset == confluent_kafka.OFFSET_INVALID  # nothing: the next owner reads this record again
    consumer.close()
