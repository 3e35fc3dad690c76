"""The leader has moved and the client does not know: it is refused, and sends the record again."""

import asyncio

import aiokafka
import confluent_kafka


def test_librdkafka_sends_the_record_again(kproxy):
    stale = kproxy.on("Produce", topic="stale").first().error("NOT_LEADER_OR_FOLLOWER", applied=False)
    producer = confluent_kafka.Producer({"bootstrap.servers": kproxy.bootstrap_servers})
    errors = []
    producer.produce("stale", b"one", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]
    assert stale.hits == 1
    refused, accepted = kproxy.exchanges("api == Produce and topic == stale")
    assert refused["error_codes"] == ["NOT_LEADER_OR_FOLLOWER"]
    assert not accepted["error_codes"]


async def aiokafka_sends(servers):
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    try:
        await producer.send_and_wait("stale", b"one")
    finally:
        await producer.stop()


def test_aiokafka_asks_for_the_new_leader(kproxy):
    stale = kproxy.on("Produce", topic="stale").first().error("NOT_LEADER_OR_FOLLOWER", applied=False)
    asyncio.run(aiokafka_sends(kproxy.bootstrap_servers))
    assert stale.hits == 1
    assert asked_between_two_produces(kproxy)


def asked_between_two_produces(kproxy):
    refused, accepted = kproxy.exchanges("api == Produce and topic == stale")
    asked = kproxy.exchanges("api == Metadata")
    return any(refused["exchange"] < one["exchange"] < accepted["exchange"] for one in asked)
