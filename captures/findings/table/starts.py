"""Rules about clients that are stuck at a step of their start."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="client.stuck_start",
        number=74,
        title="Client is stuck at a step of its start-up",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this client's traffic",
        meaning="Before it works a client reads metadata, finds its coordinator, joins its group or gets a producer "
        "id. This one repeats one of these steps, and the response is an error each time.",
        text="{client} has tried {step}{name} for {lasted_s:.0f} s: {count:#time} {error}",
        cause="The cluster cannot serve this step; the error says why.",
        guards=(
            "Steps of a start-up may fail at first: a step counts only if it fails for `stuck_ms` and never succeeded.",
            "A client that already worked is past its start-up: other rules report its errors.",
            "MEMBER_ID_REQUIRED does not count: it is part of a join.",
        ),
        thresholds=(
            Threshold("stuck_ms", 30000, "ms", "from the first to the latest failure"),
            Threshold("tries", 3, "responses", "with an error, in a row"),
        ),
        fixes=(
            Fix("broker", None, None, "for COORDINATOR_NOT_AVAILABLE make sure that __consumer_offsets or "
                "__transaction_state can be created: enough brokers for offsets.topic.replication.factor and "
                "transaction.state.log.replication.factor, and leaders for all its partitions"),
            Fix("client", "group.id, transactional.id and the ACLs for them", "the same", "for authorization errors"),
        ),
        verify="The step is answered without an error, and the client fetches or produces.",
        unknown=("Whether another instance with this client id on this host works.",),
        under=("coord.moved", "auth.denied", "group.config_rejected", "group.assignor_clash", "meta.no_brokers",
               "meta.topic_missing", "join.id_retry", "txn.fenced", "auth.sasl"),
    ),
)  # fmt: skip
