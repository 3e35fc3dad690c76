"""Facts: flat rows about exchanges, connections and the bodies of messages. Rules read only facts, never messages.

So rules do not depend on versions of messages, and their tests need no bytes. A field is None here if the message
lacks it or has a sentinel instead (-1 as high watermark), so that no code calculates with the sentinel. Times are
capture times in nanoseconds since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, get_args

from kproxy.decoders.exchange import Status


def client_name(client_id: str, peer: str) -> str:
    """A client as findings name it: "app@10.0.0.7"."""
    return f"{client_id or '(no client id)'}@{peer}"


class At(NamedTuple):
    """Where and when the exchange of a fact took place; all facts of one exchange share these values.

    `asked` is the time of the request's last byte. `time` is the time of the response's last byte; if a response is
    missing, the time of the connection's last packet. `exchange` is the exchange's number; 0 if the fact belongs to no
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
    """One exchange as its headers describe it. Sizes are those of whole frames in bytes; 0 for a missing frame."""

    at: At
    status: Status
    request_bytes: int
    response_bytes: int


class Beginning(NamedTuple):
    """A connection's first served exchange or, with `work`, its first served exchange that does work.

    An exchange does work if its API is one that clients use for more than their start (see `making.START`).
    """

    at: At
    work: bool


class Closed(NamedTuple):
    """The end of a connection. `how` is FIN, RST, or the reason why the capture has no more of the connection.

    `opened` says whether the capture has the connection's SYN. `first` are the client's first bytes if they are not
    Kafka's. `began` is the time of the first packet. `closer` is the side that sent the first FIN or RST ("client",
    "broker"; None if neither did), and `left` is the time of that FIN or RST.
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
        """Whether client or broker closed the connection. False if the capture ended first."""
        return self.how in {"FIN", "RST"}

    @property
    def end(self) -> End:
        return End(self.at.time, self.began, self.opened, self.by_peers, self.closer, self.left)


class End(NamedTuple):
    """The part of a `Closed` that analyzers may ask for later; `time` is the time of the connection's end."""

    time: int
    began: int
    opened: bool
    by_peers: bool
    closer: str | None
    left: int | None


class Trouble(NamedTuple):
    """A problem in a connection's bytes: code as in exchange JSON, sending side ("client", "broker"), size in bytes."""

    at: At
    code: str
    side: str
    offset: int
    size: int
    text: str


class Offered(NamedTuple):
    """An ApiVersions exchange: the client's software with version; the broker's (API key, lowest, highest version)."""

    at: At
    error: int
    software: str
    ranges: tuple[tuple[int, int, int], ...]


class Member(NamedTuple):
    """A request of a group member to its coordinator, with the response.

    `kind` is classic, consumer, share or streams; `what` is join, sync, heartbeat, leave or commit. `member` is the
    member id in the request or, if the request has none (then `fresh` is true), the id in the response. In the
    protocols of KIP-848 `generation` is the member's epoch; a heartbeat with epoch 0 is a join here, one with a
    negative epoch a leave. `subscription` is a text that is equal for members with equal topics and assignors. Values
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
    """A partition in a ListOffsets: the requested timestamp (-1: latest, -2: earliest, …) and the resulting offset."""

    at: At
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None
    error: int


class EpochEnd(NamedTuple):
    """The offset at which a leader epoch ends, from an OffsetForLeaderEpoch or Fetch response (KIP-320).

    A Fetch response has it if the consumer has read beyond that offset; `position` is then the request's fetch offset,
    otherwise None. `replica` is the node id if a follower sent the request; None for a consumer.
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
    """A partition in a Produce or Fetch: the response's error and offsets, and the `size` of the records in bytes.

    `offset` is the fetch offset in a Fetch, the base offset in a Produce. `replica` is the node id if a follower
    fetches, otherwise None. `acks` is None for a Fetch.
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

    `offset` is the base offset that the broker assigned. `crc` is the CRC in the batch's header, which covers producer
    id and sequence: batches with equal CRCs are equal. `answered` is always true with acks=0.
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
    """A Produce request: the `size` of its records in bytes, and its batches.

    `tiny` is the number of records if the request is so small that it could have been merged with others, and has no
    transactional batch (see `data_facts.TINY_RECORDS`); otherwise 0. `producer_id` is that of the request's
    transaction, None without one; `records` is the number of records in the transaction's batches, from their headers.
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
    """A partition in a Fetch v0 to v2 whose first message did not fit into the response.

    `offset` is the fetch offset, `size` the message's size in bytes (None if unknown), `most` the partition's limit.
    """

    at: At
    topic: str
    partition: int
    offset: int | None
    size: int | None
    most: int | None


class Unacknowledged(NamedTuple):
    """A Produce request with acks=0, which gets no response; `size` is that of its records in bytes."""

    at: At
    size: int


class Volume(NamedTuple):
    """How many batches, records and bytes a client sent to a partition within a slot of 10 s (see `sampling.SLOT`).

    `at` and `codec` describe one of these batches, the candidate for sampling. `records` is the number of records in
    the batches of magic 2.
    """

    at: At
    topic: str
    partition: int
    batches: int
    records: int
    size: int
    codec: str


class Content(NamedTuple):
    """What the first `read` records of a batch contain. `plain` is the size of keys, values and headers in bytes."""

    ratio: float | None
    """Uncompressed size / compressed size. If the batch is not compressed: the ratio that LZ4 would reach."""
    read: int
    plain: int
    largest: int
    """Size of the largest record in bytes."""
    key_bytes: int
    header_bytes: int
    keys: tuple[tuple[bytes, int], ...]
    """(key, number of records with it), without empty keys."""
    framed: tuple[tuple[int, int], ...]
    """(schema id, number of values that begin with it)."""
    raw: int
    """Number of values without a schema id."""


class Sample(NamedTuple):
    """A batch that was decompressed as a sample of all batches that a client sent to a partition within a slot.

    `size` and `records` are those of the sampled batch; `volume` (bytes) and `weight` (records) are those of all the
    batches. `newest` is the newest timestamp (ms) that the producer set; None if the broker or nobody set it.
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
    """A batch that a consumer got with another codec or format (magic) than the producer had sent."""

    at: At
    """The exchange in which the consumer fetched it; `produced` is the exchange of the producer."""
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
    """A step of a transaction: `what` is init, partitions, offsets or end; `committed` is None except for end."""

    at: At
    transactional_id: str
    what: str
    producer_id: int | None
    producer_epoch: int | None
    error: int
    timeout_ms: int | None
    committed: bool | None


class Coordinator(NamedTuple):
    """The coordinator of a group or transactional id (FindCoordinator); `kind` is group, transaction or share."""

    at: At
    kind: str
    name: str
    node: int | None
    address: str
    error: int


class Broker(NamedTuple):
    """A broker that a Metadata response advertises to clients."""

    at: At
    node: int
    host: str
    port: int
    rack: str | None


class ClusterView(NamedTuple):
    """The cluster as a Metadata response shows it: cluster id, numbers of brokers and topics.

    `controller` is a node id: with ZooKeeper that of the controller, with KRaft that of a random broker.
    """

    at: At
    cluster: str | None
    brokers: int
    topics: int
    controller: int | None = None


class TopicView(NamedTuple):
    """A topic in a Metadata response; `automatic` says whether the request allowed the broker to create the topic.

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
    """The state of a connection's authentication after a SASL exchange. The fact contains no credentials."""

    at: At
    state: str
    mechanism: str | None
    offered: tuple[str, ...]
    principal: str | None
    lifetime_ms: int | None
    error: str | None


class Secret(NamedTuple):
    """A secret that was sent without TLS; `what` names its kind. Decrypted captures give no such facts."""

    at: At
    what: str


class Administration(NamedTuple):
    """An administrator's request: `what` it does (in words) to `number` things; `names` are the first of these."""

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
    """A Fetch response that came later than the request's maxWaitMs allows; `wait_ms` is that maxWaitMs."""

    at: At
    wait_ms: int


class PartitionState(NamedTuple):
    """The state of a partition, as the controller decided it.

    Sources are LeaderAndIsr, UpdateMetadata, AlterPartition, ListPartitionReassignments, and records of the metadata
    log in Fetch responses to brokers. Values that the message lacks are None: they did not change. `version` is the
    partition epoch or, with ZooKeeper, the version of the partition's znode. `recovering` says that the leader was
    elected although it was not in sync (KIP-704), `past` that the record was written long before it was fetched.
    """

    at: At
    topic: str
    partition: int
    leader: int | None
    leaderless: bool
    """Whether the message says that the partition has no leader; False also if it does not mention the leader."""
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
    """The controller created or deleted a topic; `past`: the record was written long before it was fetched."""

    at: At
    topic: str
    created: bool
    past: bool


class Reassignment(NamedTuple):
    """A request to move a partition to the nodes `replicas`; None: to cancel a move."""

    at: At
    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    error: int


class ControlRequest(NamedTuple):
    """A LeaderAndIsr, StopReplica or UpdateMetadata: the controller that sent it, its epoch, and the broker's error."""

    at: At
    controller: int
    epoch: int
    error: int


class Leaving(NamedTuple):
    """A broker's request to the controller for a controlled shutdown (ZooKeeper mode)."""

    at: At
    node: int


class QuorumStep(NamedTuple):
    """A message between KRaft controllers.

    `what` is pre-vote, vote, begin, end or fetch. `node` is the candidate (vote), the leader (begin, end), or the
    replica that fetches the metadata log; `epoch` is the leader epoch in the message. `cluster` is the cluster id.
    """

    at: At
    cluster: str
    what: str
    node: int
    epoch: int
    error: int
    answered: bool


class BrokerHeartbeat(NamedTuple):
    """A broker's heartbeat to the active KRaft controller. `fenced` is None if the response is missing or an error."""

    at: At
    node: int
    broker_epoch: int
    offset: int | None
    """Offset up to which the broker has read the metadata log; None if the request does not say."""
    wants_fence: bool
    wants_shutdown: bool
    fenced: bool | None
    offline_dirs: int
    error: int
    answered: bool


class BrokerRegistration(NamedTuple):
    """A broker's registration with the active KRaft controller."""

    at: At
    node: int
    error: int


class BrokerState(NamedTuple):
    """A record of the metadata log about a broker. Values that the record does not change are None.

    `past`: the record was written long before it was fetched.
    """

    at: At
    node: int
    broker_epoch: int | None
    fenced: bool | None
    leaving: bool | None
    registered: bool
    past: bool


class ReplicaFetch(NamedTuple):
    """A follower's Fetch. `behind` lists (topic, partition, number of offsets that the follower lacks).

    The number is counted up to the high watermark. A follower in the ISR has all records up to there, so for the
    partitions in `behind` this follower is not in sync.
    """

    at: At
    replica: int
    behind: tuple[tuple[str, int, int], ...]


class Redelivered(NamedTuple):
    """Records that a ShareFetch response delivers again; `deliveries` is the delivery count, this delivery included.

    `lock_ms` is how long the member may keep the records without acknowledging them; None in old versions.
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
    """A status or error with which the coordinator stops a Streams group, from a heartbeat's response.

    `error` is 0 if the fact is about a status, `status` is None if it is about an error. `detail` is the coordinator's
    text.
    """

    at: At
    group: str
    status: int | None
    error: int
    detail: str


class Replaced(NamedTuple):
    """A request that newer Kafka replaces by another API or version (see `making.REPLACED`)."""

    at: At


class Features(NamedTuple):
    """Features in an ApiVersions response: (name, highest level that the broker supports, finalized level).

    The finalized level is 0 if the cluster has not finalized the feature.
    """

    at: At
    levels: tuple[tuple[str, int, int], ...]


class MetadataRead(NamedTuple):
    """A Metadata exchange: whether it asks for all topics, number of topics in the response, its size in bytes.

    `failed` is the number of topics with an error.
    """

    at: At
    every: bool
    topics: int
    failed: int
    size: int


class Telemetry(NamedTuple):
    """A step of client telemetry (KIP-714): `what` is "subscribe" or "push".

    For subscribe, `metrics` is the number of metrics that the broker asks for, and `most` the broker's limit in bytes;
    both are None for a push. `size` is the number of bytes of a push.
    """

    at: At
    what: str
    error: int
    metrics: int | None
    size: int
    most: int | None
    terminating: bool


class StartStep(NamedTuple):
    """The response to a step of a client's start; `name` is the group or transactional id, if the step has one.

    `step` is "metadata", "coordinator", "join" or "producer id".
    """

    at: At
    step: str
    name: str
    error: int


class FetchedFrom(NamedTuple):
    """A consumer's Fetch with records in the response: the client's rack ("" if none), and bytes by partition.

    `preferred` says whether the response names a preferred read replica (KIP-392).
    """

    at: At
    rack: str
    preferred: bool
    sizes: tuple[tuple[str, int, int], ...]
    """(topic, partition, bytes) of each partition with records."""


class Incomplete(NamedTuple):
    """The topics or partitions of a request that its response lacks or, with `twice`, repeats; `number` is how many.

    `what` is the name of one of them; `asked` and `answered` are the numbers of topics or partitions in the request and
    in the response.
    """

    at: At
    what: str
    number: int
    asked: int
    answered: int
    twice: bool


class Pressure(NamedTuple):
    """TCP counts of a connection that ended: data segments, and how many of these were retransmitted after a pause.

    `client` and `broker` say how often that side's receive window was closed: (number of times, milliseconds in all,
    milliseconds of the longest time). A connection without retransmissions whose windows stayed open gives no such
    fact.
    """

    at: At
    segments: int
    retransmitted: int
    client: tuple[int, int, int]
    broker: tuple[int, int, int]


class Unanswered(NamedTuple):
    """A failed attempt to connect: the client sent its SYN `times` times and was never accepted.

    `refused`: the host answered with a RST, because nothing listens on the port.
    """

    at: At
    times: int
    refused: bool


class FetchedPartition(NamedTuple):
    """A partition in a Fetch response; `size` is that of its records in bytes.

    `offset` is the fetch offset, `most` the limit in bytes (partitionMaxBytes). An incremental request (KIP-227) omits
    a partition whose offset and limit are unchanged; both are then taken from earlier requests, None if these are
    missing.
    """

    topic: str
    partition: int
    offset: int | None
    size: int
    high_watermark: int | None
    last_stable: int | None
    most: int | None


class Fetched(NamedTuple):
    """A consumer's Fetch with records, or with a partition whose high watermark is above the last stable offset.

    `pause` is the time (ns) from the connection's previous Fetch response to this request; None for the first. `parts`
    are the partitions with records, and those with a high watermark above the last stable offset.
    """

    at: At
    size: int
    min_bytes: int
    max_bytes: int | None
    pause: int | None
    parts: tuple[FetchedPartition, ...]


class FetchSession(NamedTuple):
    """A request for a new fetch session (KIP-227), or the broker's refusal of an existing session.

    `granted` is the session id in the response, 0 for none. `partitions` is the number of partitions in the request.
    Throttled responses never grant a session, so they give no such fact.
    """

    at: At
    granted: int
    error: int
    partitions: int


class Assigned(NamedTuple):
    """The number of partitions that are assigned to a member of a consumer group.

    `kind` is "classic" or "consumer". In a classic group, the leader's SyncGroup has the assignments of all members:
    `members` is their number, `protocol` the assignor's name. In the protocol of KIP-848 the coordinator sends each
    member its own assignment, so both are None.
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
    """A feature and its finalized level in the cluster, from a broker's ApiVersions response (KIP-584)."""

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
