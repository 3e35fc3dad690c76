"""Another producer has the same transactional id: the first one must stop, and its transaction must not commit."""

import confluent_kafka
import pytest


def test_a_fenced_producer_stops(kproxy):
    fenced = kproxy.on("EndTxn", txn="payments").first().error("PRODUCER_FENCED", applied=False)
    producer = confluent_kafka.Producer({"bootstrap.servers": kproxy.bootstrap_servers, "transactional.id": "payments"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("fenced", b"one")
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.commit_transaction(20)
    assert raised.value.args[0].fatal()  # no method of this producer works from now on
    assert fenced.hits == 1
    assert len(kproxy.exchanges("api == EndTxn")) == 1  # it did not try to commit again
