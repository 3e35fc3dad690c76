"""The answer to a Produce is lost: the broker has the record, and the producer does not know."""

import asyncio

import aiokafka
import confluent_kafka


def test_an_idempotent_producer_sends_the_same_batch_again(kproxy):
    lost = kproxy.on("Produce", topic="orders").nth(1).drop_response()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kproxy.bootstrap_servers, "enable.idempotence": True, "socket.timeout.ms": 1000}
    )
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    assert lost.hits == 1
    first, again = (one["request"]["body"] for one in kproxy.exchanges("api == Produce and topic == orders"))
    assert sequence(first) == sequence(again)  # so the broker knows that it has this batch


async def aiokafka_sends(servers):
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, request_timeout_ms=2000)
    await producer.start()
    try:
        await producer.send_and_wait("orders", b"one")
    finally:
        await producer.stop()


def test_aiokafka_sends_the_same_batch_again(kproxy):
    lost = kproxy.on("Produce", topic="orders").nth(1).drop_response()
    asyncio.run(aiokafka_sends(kproxy.bootstrap_servers))
    assert lost.hits == 1
    first, again = (one["request"]["body"] for one in kproxy.exchanges("api == Produce and topic == orders"))
    assert sequence(first) == sequence(again)


def sequence(body):
    """(producer id, epoch, sequence number) of the only batch of a Produce request."""
    (topic,) = body["topicData"]
    (partition,) = topic["partitionData"]
    (batch,) = partition["records"]["batches"]
    return batch["producerId"], batch["producerEpoch"], batch["baseSequence"]
