"""Facts: flat rows about exchanges, connections and what their bodies say, from which rules draw findings.

A rule sees nothing else of the traffic, so it does not depend on versions of messages, and its tests need no bytes.
What a message leaves out, or answers with a sentinel (-1 as high watermark), is None here: it never enters arithmetic.
Times are nanoseconds since the epoch, as the capture has them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kproxy.decoders.exchange import Status


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
        """The client as findings name it."""
        return f"{self.client_id or '(no client id)'}@{self.peer}"


class Exchange(NamedTuple):
    """One exchange by its headers; sizes are those of whole frames, 0 for a missing one."""

    at: At
    status: Status
    request_bytes: int
    response_bytes: int


class Answer(NamedTuple):
    """What a response says in any API: its error codes in order, each once, and its throttle time."""

    at: At
    errors: tuple[int, ...]
    throttle_ms: int


class Closed(NamedTuple):
    """A connection ended: `how` is FIN, RST, or why the capture holds no more of it.

    `opened`: its SYN was captured. `first` are the client's first bytes where they are not Kafka's, `began` is the time
    of its first packet.
    """

    at: At
    how: str
    opened: bool
    began: int
    client_bytes: int
    broker_bytes: int
    first: bytes

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


class TopicView(NamedTuple):
    """A topic in a Metadata response; `automatic`: the request allowed that it be created."""

    at: At
    topic: str
    error: int
    partitions: int
    automatic: bool


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


Fact: TypeAlias = (
    Exchange
    | Answer
    | Closed
    | Trouble
    | Offered
    | Member
    | Commit
    | Committed
    | OffsetLookup
    | PartitionIO
    | Batch
    | Txn
    | Coordinator
    | Broker
    | TopicView
    | PartitionView
    | Auth
)
KINDS: tuple[type[Fact], ...] = (
    Exchange, Answer, Closed, Trouble, Offered, Member, Commit, Committed, OffsetLookup, PartitionIO, Batch, Txn,
    Coordinator, Broker, TopicView, PartitionView, Auth,
)  # fmt: skip
