"""Facts: flat rows about exchanges, connections and what their bodies say, from which rules draw findings.

A rule sees nothing else of the traffic, so it does not depend on versions of messages, and its tests need no bytes.
What a message leaves out, or answers with a sentinel (-1 as high watermark), is None here: it never enters arithmetic.
Times are nanoseconds since the epoch, as the capture has them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, get_args

from kproxy.decoders.exchange import Status


def client_name(client_id: str, peer: str) -> str:
    """A client as findings name it: "app@10.0.0.7"."""
    return f"{client_id or '(no client id)'}@{peer}"


class At(NamedTuple):
    """Where and when: what all facts of one exchange share.

    `asked` is the time of the request's last byte, `time` that of the response's, or when it was clear that none would
    come. `exchange` is 0 for a fact of no exchange. `peer` is the client's host, `broker` the broker's "host:port".
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
    """The first exchange of a connection, and the first that does more than a client's start (`work`)."""

    at: At
    work: bool


class Answer(NamedTuple):
    """What a response says in any API: its error codes in order, each once, and its throttle time."""

    at: At
    errors: tuple[int, ...]
    throttle_ms: int


class Closed(NamedTuple):
    """A connection ended: `how` is FIN, RST, or why the capture holds no more of it.

    `opened`: its SYN was captured. `first` are the client's first bytes where they are not Kafka's, `began` is the time
    of its first packet. `closer` is the side that sent the first FIN or RST ("client", "broker"), None if none did, and
    `left` is when it did.
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
        """Whether client or broker closed it, rather than the capture."""
        return self.how in {"FIN", "RST"}


class Trouble(NamedTuple):
    """A problem of bytes: its code in the exchange JSON, the side that sent them ("client", "broker"), their number."""

    at: At
    code: str
    side: str
    offset: int
    size: int
    text: str


class Offered(NamedTuple):
    """ApiVersions: who the client says it is, and (API key, lowest, highest version) that the broker offers."""

    at: At
    error: int
    software: str
    ranges: tuple[tuple[int, int, int], ...]


class Member(NamedTuple):
    """A member's request to its coordinator, and the answer.

    `kind` is classic, consumer, share or streams, `what` is join, sync, heartbeat, leave or commit. `member` is the id
    of the request, else of the answer; `fresh` says that the request had none. In the protocols of KIP-848 a generation
    is the member's epoch, a heartbeat with epoch 0 a join, one with a negative epoch a leave. `subscription` identifies
    what a member subscribes to and supports: equal texts are equal subscriptions. None where nothing is said.
    """

    at: At
    group: str
    kind: str
    what: str
    member: str
    fresh: bool
    instance: str | None
    generation: int | None
    """Generation after the answer."""
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
    """An offset that the coordinator returns (OffsetFetch); None if there is no commit."""

    at: At
    group: str
    topic: str
    partition: int
    offset: int | None
    error: int


class OffsetLookup(NamedTuple):
    """ListOffsets of a partition: the time asked for (-1 latest, -2 earliest, ...) and the offset answered."""

    at: At
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None
    error: int


class EpochEnd(NamedTuple):
    """The offset at which the log of a leader epoch ends, where somebody asks for it or has read beyond (KIP-320).

    `position` is the fetch offset if a Fetch was answered with it, None in OffsetForLeaderEpoch. `replica` is the
    asking follower's node id, None for a consumer.
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
    """A partition in a Produce or Fetch: the answer's error and offsets; `size` of its records, in bytes.

    `offset` is the fetch offset of a Fetch, the base offset of a Produce. `replica` is the fetching follower's node id,
    None for a consumer. `acks` is None for a Fetch.
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
    """The record batch of magic 2 that a Produce has for a partition, and what became of it.

    `offset` is the base offset that the broker gave it. `crc` is that of its header: batches with the same one are
    equal, their producer's id and sequence among the rest. `answered` is true for acks=0 as well.
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


class Corrupt(NamedTuple):
    """A record batch in a Produce or Fetch whose CRC does not match its bytes; `crc` is the one that it states."""

    at: At
    topic: str
    partition: int
    base_offset: int | None
    crc: int
    size: int


class CutRecord(NamedTuple):
    """A partition in a Fetch of version 0 to 2 whose first message did not fit into the answer.

    `offset` is the fetch offset, `size` that of the message in bytes, `most` the request's limit for the partition.
    """

    at: At
    topic: str
    partition: int
    offset: int | None
    size: int | None
    most: int | None


class Batch(NamedTuple):
    """A record batch in a Produce or Fetch, by its header; in a Produce the base offset is the producer's own, 0."""

    at: At
    topic: str
    partition: int
    base_offset: int | None
    size: int
    records: int | None
    magic: int
    codec: str
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    transactional: bool
    control: bool


class WeakAcks(NamedTuple):
    """A Produce request that does not wait for all in-sync replicas: `acks` is 0 or 1."""

    at: At
    acks: int
    size: int


class Unacknowledged(NamedTuple):
    """A Produce request with acks=0, which the broker never answers; `size` of its records."""

    at: At
    size: int


class TinyProduce(NamedTuple):
    """A Produce request outside of transactions with so few and small records that other requests could carry them."""

    at: At
    records: int
    size: int


class TransactionalProduce(NamedTuple):
    """A Produce request of a transaction: the number of its records, by their batches' headers."""

    at: At
    producer_id: int
    records: int


class Volume(NamedTuple):
    """What a client sent to a partition within a slot of event time (see `sampling.SLOT`).

    `at` is one of its batches, whose codec is `codec`. `records` are those that headers of magic 2 count.
    """

    at: At
    topic: str
    partition: int
    batches: int
    records: int
    size: int
    codec: str


class Content(NamedTuple):
    """What the first `read` records of a batch hold. `plain` is the size of keys, values and headers together."""

    ratio: float | None
    """How often the compressed batch fits into the plain one; if it is not compressed, what LZ4 would make of its
    records."""
    read: int
    plain: int
    largest: int
    """Size of the largest record."""
    key_bytes: int
    header_bytes: int
    keys: tuple[tuple[bytes, int], ...]
    """Each key that is neither null nor empty, with the number of its records."""
    framed: tuple[tuple[int, int], ...]
    """Each id of a schema at the beginning of values, with the number of such records."""
    raw: int
    """Number of values without such an id."""


class Sample(NamedTuple):
    """One of the batches that a client sent to a partition within a slot, opened.

    `size` and `records` are the batch's; `volume` and `weight` are the bytes and records that the client sent to the
    partition within the slot, for which the sample stands. `newest` is the newest timestamp in milliseconds that the
    producer gave, None if it gave none.
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
    """A batch that consumers get in another codec or format (magic) than its producer sent it in."""

    at: At
    """The Fetch."""
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
    """A step of a transaction: `what` is init, partitions, offsets or end; `committed` is None before its end."""

    at: At
    transactional_id: str
    what: str
    producer_id: int | None
    producer_epoch: int | None
    error: int
    timeout_ms: int | None
    committed: bool | None


class Coordinator(NamedTuple):
    """FindCoordinator: who coordinates a group or transactional id; `kind` is group, transaction or share."""

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
    """A Metadata response as a whole: the cluster's id, and how many brokers and topics it names.

    `controller` is the node that it calls the controller: a broker by chance where KRaft rules.
    """

    at: At
    cluster: str | None
    brokers: int
    topics: int
    controller: int | None = None


class TopicView(NamedTuple):
    """A topic in a Metadata response; `automatic`: the request allowed that it be created.

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
    """The state of a connection's authentication after one of its SASL exchanges; never credentials."""

    at: At
    state: str
    mechanism: str | None
    offered: tuple[str, ...]
    principal: str | None
    lifetime_ms: int | None
    error: str | None


class Secret(NamedTuple):
    """A secret passed in clear: `what` names its kind. Not made of a capture of TLS that was decrypted."""

    at: At
    what: str


class Administration(NamedTuple):
    """A request that deletes or changes something: `what` in words, the names of the first of `number` things."""

    at: At
    what: str
    names: tuple[str, ...]
    number: int
    error: int


class Throttle(NamedTuple):
    """A response with a throttle time: how many milliseconds the broker wants the client to wait (KIP-219)."""

    at: At
    ms: int


class Overdue(NamedTuple):
    """A Fetch that was answered later than its longest wait allows: `wait_ms` is its max_wait_ms."""

    at: At
    wait_ms: int


class PartitionState(NamedTuple):
    """What the controller decides about a partition.

    It stands in LeaderAndIsr, UpdateMetadata, AlterPartition, ListPartitionReassignments, or in a record of the
    metadata log that a broker fetches. What a message leaves out is None; then nothing changed. `version` is the
    partition epoch, or the version of the partition's node in ZooKeeper. `recovering`: the leader was elected although
    it was not in sync (KIP-704). `past`: a record that was written long before it was fetched.
    """

    at: At
    topic: str
    partition: int
    leader: int | None
    leaderless: bool
    """The partition has no leader, as opposed to a message that names none."""
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
    """Somebody asks for a partition to be moved to `replicas`; None cancels the move."""

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
    """A message among the controllers of KRaft.

    `what` is pre-vote, vote, begin, end or fetch. `node` is the candidate, the leader, or the replica that fetches the
    metadata log; `epoch` the one that it names. `cluster` is the cluster's id.
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
    """Offset up to which the broker knows the metadata log."""
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
    """A record of the metadata log about a broker; None where it changes nothing. `past` as in PartitionState."""

    at: At
    node: int
    broker_epoch: int | None
    fenced: bool | None
    leaving: bool | None
    registered: bool
    past: bool


class ReplicaFetch(NamedTuple):
    """A follower's Fetch of topics. `behind`: (topic, partition, offsets) that it lacks up to the high watermark.

    A follower in the ISR is never behind the high watermark, so `behind` names what it must copy to be in sync.
    """

    at: At
    replica: int
    behind: tuple[tuple[str, int, int], ...]


class Redelivered(NamedTuple):
    """Records that a share group delivers again (ShareFetch), this being the time number `deliveries`.

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
    """Records that a share group's member did not accept: `how` is release or reject (KIP-932)."""

    at: At
    group: str
    topic: str
    partition: int
    first: int
    last: int
    how: str
    error: int


class StreamsStatus(NamedTuple):
    """What hinders a Streams group, as its coordinator says in a heartbeat's answer: the code of a status, or an error.

    `error` is 0 for a status, `status` None for an error. `detail` is the coordinator's text.
    """

    at: At
    group: str
    status: int | None
    error: int
    detail: str


class Replaced(NamedTuple):
    """A request for which Kafka has something better, by its API and version (REPLACED of making.py)."""

    at: At


class Features(NamedTuple):
    """ApiVersions: (name, highest level that the broker supports, level that the cluster has finalized) of features.

    A feature that was never finalized has level 0.
    """

    at: At
    levels: tuple[tuple[str, int, int], ...]


class MetadataRead(NamedTuple):
    """A Metadata request and its answer: whether it asks for every topic, and the answer's topics and bytes.

    `failed` is the number of topics that were answered with an error.
    """

    at: At
    every: bool
    topics: int
    failed: int
    size: int


class Telemetry(NamedTuple):
    """A step of a client's telemetry (KIP-714): `what` is subscribe or push.

    `metrics` is the number of metrics that the answer to subscribe requests, None for a push. `size` of what is pushed
    is in bytes, `most` is the limit that the broker names, None for a push.
    """

    at: At
    what: str
    error: int
    metrics: int | None
    size: int
    most: int | None
    terminating: bool


class StartStep(NamedTuple):
    """The answer to a request that a client must pass before it can work; `name` of the group or transactional id.

    `step` is metadata, coordinator, join or producer id.
    """

    at: At
    step: str
    name: str
    error: int


class FetchedFrom(NamedTuple):
    """A consumer's Fetch that brought records: the client's rack ("" if it names none), and the bytes by partition.

    `preferred` says that the answer names a replica that the client shall rather fetch from (KIP-392).
    """

    at: At
    rack: str
    preferred: bool
    sizes: tuple[tuple[str, int, int], ...]
    """(topic, partition, bytes)."""


class Incomplete(NamedTuple):
    """An answer that lacks something that was asked for, or has it twice (`twice`): `what` names one of `number`.

    `asked` and `answered` are the numbers of all such things in request and response.
    """

    at: At
    what: str
    number: int
    asked: int
    answered: int
    twice: bool


class Pressure(NamedTuple):
    """What TCP tells of a connection, at its end: segments with data, and those that were sent again after a pause.

    `client` and `broker` say how often this side's receive window was closed, and for how many milliseconds in all and
    at most. Not made of a connection without any of these.
    """

    at: At
    segments: int
    retransmitted: int
    client: tuple[int, int, int]
    broker: tuple[int, int, int]


class Unanswered(NamedTuple):
    """A connection that a client tried to open, at its end: nobody answered its SYN, which it sent `times` times.

    `refused`: the host answered that nobody listens.
    """

    at: At
    times: int
    refused: bool


class FetchedPartition(NamedTuple):
    """A partition in an answer of Fetch: where it was read, and `size` of its records in bytes.

    `offset` is the fetch offset and `most` the limit (partition_max_bytes), both also where an incremental request
    leaves the partition out because they stay the same (KIP-227).
    """

    topic: str
    partition: int
    offset: int | None
    size: int
    high_watermark: int | None
    last_stable: int | None
    most: int | None


class Fetched(NamedTuple):
    """A consumer's Fetch that got records, or could not get those behind the last stable offset.

    `pause` is the time in nanoseconds from the connection's answer of Fetch before to this request, None if there was
    none. `parts` are the partitions with records, and those with some behind the last stable offset.
    """

    at: At
    size: int
    min_bytes: int
    max_bytes: int | None
    pause: int | None
    parts: tuple[FetchedPartition, ...]


class FetchSession(NamedTuple):
    """A consumer asks for a fetch session (KIP-227), or the broker refuses the one that it names.

    `granted` is the session id in the answer, 0 if there is no session. `partitions` is the number of those that the
    request names. Not made of throttled answers, which never grant a session.
    """

    at: At
    granted: int
    error: int
    partitions: int


class Assigned(NamedTuple):
    """The number of partitions that a member of a group of consumers gets.

    `kind` is classic or consumer. In a classic group the leader's SyncGroup tells it of every member; `protocol` is the
    assignor's name. `members` is the number of members in the leader's plan, None in the protocol of KIP-848, whose
    members are told one by one.
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
    """A feature that a cluster has finalized, and its level, by a broker's ApiVersions response (KIP-584)."""

    at: At
    feature: str
    level: int


Fact: TypeAlias = (
    Exchange
    | Beginning
    | Answer
    | Closed
    | Trouble
    | Offered
    | Member
    | Commit
    | Committed
    | OffsetLookup
    | EpochEnd
    | PartitionIO
    | Append
    | Corrupt
    | CutRecord
    | Batch
    | WeakAcks
    | Unacknowledged
    | TinyProduce
    | TransactionalProduce
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
