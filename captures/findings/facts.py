"""Facts: flat rows about exchanges, connections and the bodies of messages; rules see nothing else of the traffic.

So rules do not depend on versions of messages, and their tests need no bytes. A value that a message leaves out, or
replaces by a sentinel (-1 as high watermark), is None here, so that no code calculates with it. Times are capture times
in nanoseconds since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, get_args

from kproxy.decoders.exchange import Status


def client_name(client_id: str, peer: str) -> str:
    """A client as findings name it: "app@10.0.0.7"."""
    return f"{client_id or '(no client id)'}@{peer}"


class At(NamedTuple):
    """The values that all facts of one exchange share: the place and time of the exchange.

    `asked` is the time of the request's last byte. `time` is the time of the response's last byte or, without a
    response, the time at which it was certain that none would come. `exchange` is 0 for a fact that belongs to no
    exchange. `peer` is the client's host, `broker` the broker's "host:port".
    """

    time: int
    asked: int
    exchange: int
    connection: int
    peer: str
    client_id: str
    broker: str
    key: int
    version: int

    @property
    def latency(self) -> int:
        return self.time - self.asked

    @property
    def client(self) -> str:
        """The client's name (see `client_name`)."""
        return client_name(self.client_id, self.peer)


class Exchange(NamedTuple):
    """One exchange by its headers; sizes are those of whole frames, 0 for a missing one."""

    at: At
    status: Status
    request_bytes: int
    response_bytes: int


class Beginning(NamedTuple):
    """The first exchange of a connection; with `work`, its first exchange that does more than a client's start."""

    at: At
    work: bool


class Closed(NamedTuple):
    """The end of a connection; `how` is FIN, RST, or the reason why the capture holds no more of it.

    `opened` says whether its SYN was captured. `first` are the client's first bytes if they are not Kafka's. `began` is
    the time of its first packet. `closer` is the side that sent the first FIN or RST ("client", "broker"), None if
    neither did, and `left` is when it did.
    """

    at: At
    how: str
    opened: bool
    began: int
    client_bytes: int
    broker_bytes: int
    first: bytes
    closer: str | None = None
    left: int | None = None

    @property
    def by_peers(self) -> bool:
        """Whether client or broker closed the connection; if not, the capture ended before the connection did."""
        return self.how in {"FIN", "RST"}

    @property
    def end(self) -> End:
        return End(self.at.time, self.began, self.opened, self.by_peers, self.closer, self.left)


class End(NamedTuple):
    """The end of a connection, as analyzers remember it (see `Closed`); `time` is that of the fact."""

    time: int
    began: int
    opened: bool
    by_peers: bool
    closer: str | None
    left: int | None


class Trouble(NamedTuple):
    """A problem of bytes: code as in exchange JSON, side that sent the bytes ("client", "broker"), number of bytes."""

    at: At
    code: str
    side: str
    offset: int
    size: int
    text: str


class Offered(NamedTuple):
    """An ApiVersions exchange: the client's software, and (API key, lowest, highest version) for the broker's APIs."""

    at: At
    error: int
    software: str
    ranges: tuple[tuple[int, int, int], ...]


class Member(NamedTuple):
    """A request of a group member to its coordinator, with the response.

    `kind` is classic, consumer, share or streams; `what` is join, sync, heartbeat, leave or commit. `member` is the
    member id in the request or, if the request has none (`fresh`), in the response. In the protocols of KIP-848 the
    generation is the member's epoch; a heartbeat with epoch 0 is a join, one with a negative epoch a leave.
    `subscription` identifies what the member subscribes to and supports: equal texts mean equal subscriptions. Values
    that the messages lack are None.
    """

    at: At
    group: str
    kind: str
    what: str
    member: str
    fresh: bool
    instance: str | None
    generation: int | None
    """The generation after the response."""
    error: int
    session_ms: int | None
    rebalance_ms: int | None
    reason: str | None
    protocol: str | None
    leader: str | None
    subscription: str | None
    answered: bool


class Commit(NamedTuple):
    """An offset that a member commits."""

    at: At
    group: str
    member: str
    topic: str
    partition: int
    offset: int | None
    error: int


class Committed(NamedTuple):
    """The committed offset in an OffsetFetch response; None if the group has committed none."""

    at: At
    group: str
    topic: str
    partition: int
    offset: int | None
    error: int


class OffsetLookup(NamedTuple):
    """A partition in ListOffsets: requested timestamp (-1 latest, -2 earliest, …) and offset in the response."""

    at: At
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None
    error: int


class EpochEnd(NamedTuple):
    """The offset at which the log of a leader epoch ends, from OffsetForLeaderEpoch or from a Fetch response (KIP-320).

    A Fetch response has it if the consumer has read beyond it; `position` is then the fetch offset, otherwise None.
    `replica` is the node id of the follower that sent the request, None for a consumer.
    """

    at: At
    topic: str
    partition: int
    epoch: int | None
    end_offset: int | None
    position: int | None
    replica: int | None
    error: int


class PartitionIO(NamedTuple):
    """A partition in a Produce or Fetch: error and offsets of the response, and the `size` of the records in bytes.

    `offset` is the fetch offset of a Fetch, the base offset of a Produce. `replica` is the node id of a fetching
    follower, None for a consumer. `acks` is None for a Fetch.
    """

    at: At
    topic: str
    partition: int
    error: int
    offset: int | None
    high_watermark: int | None
    last_stable: int | None
    log_start: int | None
    leader_epoch: int | None
    size: int
    replica: int | None
    acks: int | None


class Append(NamedTuple):
    """A record batch of magic 2 in a Produce, and its result.

    `offset` is the base offset that the broker assigned. `crc` is that of the batch's header: batches with equal CRCs
    are equal, including producer id and sequence. `answered` is true for acks=0 too.
    """

    at: At
    topic: str
    partition: int
    error: int
    offset: int | None
    acks: int | None
    answered: bool
    size: int
    records: int
    crc: int
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    transactional: bool


class Produced(NamedTuple):
    """A Produce request: `size` of its records, and its batches.

    `tiny` is the number of records outside of transactions if they are few and small enough to fit into other requests,
    else 0. `producer_id` is that of the transaction to which the request belongs, None if there is none; `records` are
    those of the transaction, by their batches' headers.
    """

    at: At
    acks: int | None
    size: int
    tiny: int
    producer_id: int | None
    records: int
    batches: tuple[Append, ...]


class Corrupt(NamedTuple):
    """A record batch in a Produce or Fetch whose CRC does not match its bytes; `crc` is the CRC in its header."""

    at: At
    topic: str
    partition: int
    base_offset: int | None
    crc: int
    size: int


class CutRecord(NamedTuple):
    """A partition of a Fetch v0 to v2 whose first message did not fit into the response.

    `offset` is the fetch offset, `size` the size of the message in bytes, `most` the request's limit for the partition.
    """

    at: At
    topic: str
    partition: int
    offset: int | None
    size: int | None
    most: int | None


class Unacknowledged(NamedTuple):
    """A Produce request with acks=0, which the broker never answers; `size` of its records in bytes."""

    at: At
    size: int


class Volume(NamedTuple):
    """The bytes and records that a client sent to a partition within a slot of event time (see `sampling.SLOT`).

    `at` is the exchange of one of its batches, whose codec is `codec`. `records` are counted from headers of magic 2.
    """

    at: At
    topic: str
    partition: int
    batches: int
    records: int
    size: int
    codec: str


class Content(NamedTuple):
    """The content of the first `read` records of a batch. `plain` is the size of keys, values and headers in bytes."""

    ratio: float | None
    """Compression ratio of the batch. If it is not compressed, the ratio that LZ4 would reach with these records."""
    read: int
    plain: int
    largest: int
    """Size of the largest record."""
    key_bytes: int
    header_bytes: int
    keys: tuple[tuple[bytes, int], ...]
    """Each non-empty key, with the number of its records."""
    framed: tuple[tuple[int, int], ...]
    """Each schema id at the beginning of values, with the number of its records."""
    raw: int
    """Number of values without a schema id."""


class Sample(NamedTuple):
    """A batch that was opened as a sample of those that a client sent to a partition within a slot.

    `size` and `records` are those of the batch; `volume` and `weight` are the bytes and records of all batches that it
    stands for. `newest` is the newest timestamp, in milliseconds, that the producer set; None if it set none.
    """

    at: At
    topic: str
    partition: int
    magic: int
    codec: str
    size: int
    records: int
    volume: int
    weight: int
    newest: int | None
    content: Content


class Recoded(NamedTuple):
    """A batch whose codec or format (magic) in Fetch responses differs from that in the Produce request."""

    at: At
    """The exchange of the Fetch."""
    topic: str
    partition: int
    offset: int
    produced: At
    sent_codec: str
    sent_magic: int
    sent_size: int
    codec: str
    magic: int
    size: int


class Txn(NamedTuple):
    """A step of a transaction: `what` is init, partitions, offsets or end; `committed` is None except at the end."""

    at: At
    transactional_id: str
    what: str
    producer_id: int | None
    producer_epoch: int | None
    error: int
    timeout_ms: int | None
    committed: bool | None


class Coordinator(NamedTuple):
    """A FindCoordinator: the coordinator of a group or transactional id; `kind` is group, transaction or share."""

    at: At
    kind: str
    name: str
    node: int | None
    address: str
    error: int


class Broker(NamedTuple):
    """A broker that a response advertises."""

    at: At
    node: int
    host: str
    port: int
    rack: str | None


class ClusterView(NamedTuple):
    """A Metadata response as a whole: cluster id, and numbers of brokers and topics.

    `controller` is the node id of the controller; with KRaft it is a random broker.
    """

    at: At
    cluster: str | None
    brokers: int
    topics: int
    controller: int | None = None


class TopicView(NamedTuple):
    """A topic in a Metadata response; `automatic` says whether the request allowed to create it.

    `topic_id` is None before Metadata v10.
    """

    at: At
    topic: str
    error: int
    partitions: int
    automatic: bool
    topic_id: str | None


class PartitionView(NamedTuple):
    """A partition in a Metadata response."""

    at: At
    topic: str
    partition: int
    error: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Auth(NamedTuple):
    """The state of a connection's authentication after a SASL exchange; without credentials."""

    at: At
    state: str
    mechanism: str | None
    offered: tuple[str, ...]
    principal: str | None
    lifetime_ms: int | None
    error: str | None


class Secret(NamedTuple):
    """A secret that was sent without TLS; `what` names its kind. No such facts are made of decrypted captures."""

    at: At
    what: str


class Administration(NamedTuple):
    """A request that deletes or changes `number` things: `what` in words, and the `names` of the first ones."""

    at: At
    what: str
    names: tuple[str, ...]
    number: int
    error: int


class Throttle(NamedTuple):
    """A response with a throttle time: milliseconds that the broker asks the client to wait (KIP-219)."""

    at: At
    ms: int


class Overdue(NamedTuple):
    """A Fetch that the broker answered later than the request allows; `wait_ms` is the request's max_wait_ms."""

    at: At
    wait_ms: int


class PartitionState(NamedTuple):
    """The controller's decision about the state of a partition.

    Sources are LeaderAndIsr, UpdateMetadata, AlterPartition, ListPartitionReassignments, and records of the metadata
    log that a broker fetches. A value that the message leaves out is None and did not change. `version` is the
    partition epoch or, with ZooKeeper, the version of the partition's znode. `recovering`: the leader was elected
    although it was not in sync (KIP-704). `past`: the record was written long before the broker fetched it.
    """

    at: At
    topic: str
    partition: int
    leader: int | None
    leaderless: bool
    """Whether the message says that the partition has no leader; False if it says nothing about the leader."""
    deleting: bool
    leader_epoch: int | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    adding: tuple[int, ...] | None
    removing: tuple[int, ...] | None
    version: int | None
    recovering: bool | None
    new: bool
    past: bool


class TopicChange(NamedTuple):
    """The controller created or deleted a topic; `past` as in PartitionState."""

    at: At
    topic: str
    created: bool
    past: bool


class Reassignment(NamedTuple):
    """A request to move a partition to `replicas`; None cancels the move."""

    at: At
    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    error: int


class ControlRequest(NamedTuple):
    """LeaderAndIsr, StopReplica or UpdateMetadata: the controller that sent it, its epoch, and the broker's error."""

    at: At
    controller: int
    epoch: int
    error: int


class Leaving(NamedTuple):
    """A broker asks the controller for a controlled shutdown (ZooKeeper mode)."""

    at: At
    node: int


class QuorumStep(NamedTuple):
    """A message between KRaft controllers.

    `what` is pre-vote, vote, begin, end or fetch. `node` is the candidate, the leader, or the replica that fetches the
    metadata log; `epoch` is the leader epoch in the message. `cluster` is the cluster id.
    """

    at: At
    cluster: str
    what: str
    node: int
    epoch: int
    error: int
    answered: bool


class BrokerHeartbeat(NamedTuple):
    """A broker's heartbeat to the active controller of KRaft; `fenced` is None if it was refused or not answered."""

    at: At
    node: int
    broker_epoch: int
    offset: int | None
    """Offset up to which the broker has read the metadata log."""
    wants_fence: bool
    wants_shutdown: bool
    fenced: bool | None
    offline_dirs: int
    error: int
    answered: bool


class BrokerRegistration(NamedTuple):
    """A broker registers with the active controller of KRaft."""

    at: At
    node: int
    error: int


class BrokerState(NamedTuple):
    """A record of the metadata log about a broker; unchanged values are None. `past` is as in PartitionState."""

    at: At
    node: int
    broker_epoch: int | None
    fenced: bool | None
    leaving: bool | None
    registered: bool
    past: bool


class ReplicaFetch(NamedTuple):
    """A follower's Fetch. `behind` has (topic, partition, offsets that the follower lacks up to the high watermark).

    A follower in the ISR has all records up to the high watermark, so the partitions in `behind` are not in sync.
    """

    at: At
    replica: int
    behind: tuple[tuple[str, int, int], ...]


class Redelivered(NamedTuple):
    """Records that a share group delivers again (ShareFetch); `deliveries` counts their deliveries, this one included.

    `lock_ms` is how long the member may keep them without acknowledging them; None in old versions.
    """

    at: At
    group: str
    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    lock_ms: int | None


class Released(NamedTuple):
    """Records that a member of a share group did not accept: `how` is "release" or "reject" (KIP-932)."""

    at: At
    group: str
    topic: str
    partition: int
    first: int
    last: int
    how: str
    error: int


class StreamsStatus(NamedTuple):
    """A status or error that stops a Streams group, which its coordinator reports in a heartbeat's response.

    `error` is 0 for a status, `status` None for an error. `detail` is the coordinator's text.
    """

    at: At
    group: str
    status: int | None
    error: int
    detail: str


class Replaced(NamedTuple):
    """A request that newer Kafka replaces by a better API or version (REPLACED of making.py)."""

    at: At


class Features(NamedTuple):
    """Features in ApiVersions: (name, highest level that the broker supports, level that the cluster has finalized).

    A feature that was never finalized has level 0.
    """

    at: At
    levels: tuple[tuple[str, int, int], ...]


class MetadataRead(NamedTuple):
    """A Metadata exchange: whether it asks for all topics, and the number of topics and bytes in the response.

    `failed` is the number of topics with an error.
    """

    at: At
    every: bool
    topics: int
    failed: int
    size: int


class Telemetry(NamedTuple):
    """A step of client telemetry (KIP-714): `what` is "subscribe" or "push".

    For subscribe, `metrics` is the number of metrics that the broker requests, `most` the broker's limit in bytes; both
    are None for a push. `size` is the number of bytes that a push sends.
    """

    at: At
    what: str
    error: int
    metrics: int | None
    size: int
    most: int | None
    terminating: bool


class StartStep(NamedTuple):
    """A response that a client needs before it can work; `name` is that of the group or transactional id.

    `step` is "metadata", "coordinator", "join" or "producer id".
    """

    at: At
    step: str
    name: str
    error: int


class FetchedFrom(NamedTuple):
    """A consumer's Fetch that returned records: the client's rack ("" if none), and bytes by partition.

    `preferred` says that the response names a preferred read replica (KIP-392).
    """

    at: At
    rack: str
    preferred: bool
    sizes: tuple[tuple[str, int, int], ...]
    """(topic, partition, bytes)."""


class Incomplete(NamedTuple):
    """A response that lacks, or with `twice` repeats, `number` of the things that the request asks for; `what` is one.

    `asked` and `answered` are the numbers of all these things in request and response.
    """

    at: At
    what: str
    number: int
    asked: int
    answered: int
    twice: bool


class Pressure(NamedTuple):
    """TCP counts of a connection that ended: data segments, and those that were retransmitted after a pause.

    `client` and `broker` have (number of times that this side's receive window was closed, milliseconds in all,
    longest). Connections without retransmissions and without closed windows give no such fact.
    """

    at: At
    segments: int
    retransmitted: int
    client: tuple[int, int, int]
    broker: tuple[int, int, int]


class Unanswered(NamedTuple):
    """An attempt to connect that failed: the client sent its SYN `times` times, and the host never accepted it.

    `refused`: the host answered that nothing listens on the port.
    """

    at: At
    times: int
    refused: bool


class FetchedPartition(NamedTuple):
    """A partition in a Fetch response; `size` is that of its records in bytes.

    `offset` is the fetch offset, `most` the limit (partition_max_bytes). An incremental request (KIP-227)
    leaves a partition out if its offset and limit are unchanged; they are then known from earlier requests.
    """

    topic: str
    partition: int
    offset: int | None
    size: int
    high_watermark: int | None
    last_stable: int | None
    most: int | None


class Fetched(NamedTuple):
    """A consumer's Fetch that returned records, or that found records only beyond the last stable offset.

    `pause` is the time in nanoseconds from the previous Fetch response of the connection to this request; None if there
    was none. `parts` are the partitions with records, and those with records beyond the last stable offset.
    """

    at: At
    size: int
    min_bytes: int
    max_bytes: int | None
    pause: int | None
    parts: tuple[FetchedPartition, ...]


class FetchSession(NamedTuple):
    """A request for a fetch session (KIP-227), or the broker's refusal of an existing one.

    `granted` is the session id in the response, 0 for none. `partitions` is the number of partitions that the request
    names. Throttled responses, which never grant a session, give no such fact.
    """

    at: At
    granted: int
    error: int
    partitions: int


class Assigned(NamedTuple):
    """The number of partitions that a member of a consumer group is assigned.

    `kind` is "classic" or "consumer". In a classic group, the leader's SyncGroup gives the number for every member;
    `protocol` is the assignor's name. `members` is the number of members in that SyncGroup; None with KIP-848, whose
    coordinator tells each member its own assignment.
    """

    at: At
    group: str
    kind: str
    member: str
    generation: int | None
    partitions: int
    protocol: str | None
    members: int | None


class Finalized(NamedTuple):
    """A feature that the cluster has finalized, and its level, from a broker's ApiVersions response (KIP-584)."""

    at: At
    feature: str
    level: int


Fact: TypeAlias = (
    Exchange
    | Beginning
    | Closed
    | Trouble
    | Offered
    | Member
    | Commit
    | Committed
    | OffsetLookup
    | EpochEnd
    | PartitionIO
    | Produced
    | Corrupt
    | CutRecord
    | Unacknowledged
    | Volume
    | Sample
    | Recoded
    | Txn
    | Coordinator
    | Broker
    | ClusterView
    | TopicView
    | PartitionView
    | Auth
    | Secret
    | Administration
    | Throttle
    | Overdue
    | PartitionState
    | TopicChange
    | Reassignment
    | ControlRequest
    | Leaving
    | QuorumStep
    | BrokerHeartbeat
    | BrokerRegistration
    | BrokerState
    | ReplicaFetch
    | Redelivered
    | Released
    | StreamsStatus
    | Replaced
    | Features
    | MetadataRead
    | Telemetry
    | StartStep
    | FetchedFrom
    | Incomplete
    | Pressure
    | Unanswered
    | Fetched
    | FetchSession
    | Assigned
    | Finalized
)
KINDS: tuple[type[Fact], ...] = get_args(Fact)
