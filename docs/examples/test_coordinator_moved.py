"""The group's coordinator has moved: the consumer looks for the new one, and its commit is not lost."""

import confluent_kafka


def test_the_commit_goes_to_the_new_coordinator(kproxy):
    producer = confluent_kafka.Producer({"bootstrap.servers": kproxy.bootstrap_servers})
    producer.produce("moved", b"one", partition=0)
    assert producer.flush(20) == 0
    moved = kproxy.on("OffsetCommit", group="billing").first().error("NOT_COORDINATOR", applied=False)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kproxy.bootstrap_servers, "group.id": "billing"})
    place = confluent_kafka.TopicPartition("moved", 0, 7)
    consumer.assign([place])
    consumer.commit(offsets=[place], asynchronous=False)
    (committed,) = consumer.committed([place], timeout=20)
    consumer.close()
    assert committed.offset == 7
    assert moved.hits == 1
    refused, committed = kproxy.exchanges("api == OffsetCommit and request.body.topics[].name == moved")
    assert refused["error_codes"] == ["NOT_COORDINATOR"]
    assert not committed["error_codes"]
    asked = kproxy.exchanges("api == FindCoordinator")
    assert any(refused["exchange"] < one["exchange"] < committed["exchange"] for one in asked)
