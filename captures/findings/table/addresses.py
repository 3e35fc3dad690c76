"""Rules about advertised addresses, clusters behind an address, and dropped idle connections."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="addr.leak",
        number=20,
        title="Client cannot use the advertised address",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this client's traffic to all brokers",
        meaning="Clients use the bootstrap address only to ask for Metadata, then connect to the addresses that it "
        "names. This client got an address that it cannot reach from its network, and has not worked since. "
        "In a recording of kproxy, kproxy let a broker's own address pass, so that the client bypasses kproxy.",
        text="{text}",
        cause="advertised.listeners names addresses that work only inside the broker's own network, or a proxy or "
        "port forwarding in front of the cluster does not rewrite them.",
        guards=(
            ("A client that sends more than Metadata, FindCoordinator and a login does not count: it reaches its "
            "brokers."),
            "Loopback addresses and 0.0.0.0 count only for clients on other hosts.",
            "Private addresses and names within Kubernetes count only for clients with a public address.",
            "Until the client repeats Metadata, it may be idle, so the finding is a WARN.",
        ),
        thresholds=(
            Threshold("grace_ms", 10000, "ms", "after the first unusable address, in which the client uses no address"),
            Threshold("repeats", 5, "responses", "of Metadata within a minute, for an ERROR"),
        ),
        fixes=(
            Fix("broker", None, None, "advertised.listeners with an address that clients can reach, and a listener "
                "for each network of clients"),
            Fix("proxy", None, None, "let the proxy rewrite the addresses (--advertise of kproxy)"),
        ),
        verify="After Metadata the client connects to the advertised address and sends Produce, Fetch or JoinGroup.",
        unknown=(
            "Whether the client's names resolve: its own log says so.",
            "Connections to addresses outside this capture: a capture on the client's host has them.",
        ),
    ),
    Rule(
        id="meta.no_brokers",
        number=79,
        title="Metadata names no broker",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A Metadata response names topics but no broker. The client forgets all brokers that it knew, and may "
        "not find the cluster again.",
        text="{broker} answered {client} {count:#time} with topics but without any broker",
        cause="No broker has a listener with the name of the client's listener, or a proxy removed the brokers.",
        guards=(
            "A broker may answer like this while it starts, so the rule waits for `grace_ms`.",
            "A single response is a WARN.",
            "A Metadata response that is missing, cut or undecodable may name brokers, so nothing before it counts.",
        ),
        thresholds=(Threshold("grace_ms", 5000, "ms", "from the first such response"),),
        fixes=(
            Fix("broker", None, None, "the same listener names in listeners and advertised.listeners of all brokers"),
            Fix("client", "metadata.recovery.strategy=rebootstrap", "metadata.recovery.strategy=rebootstrap",
                "the client goes back to its bootstrap servers (KIP-899)"),
        ),
        verify="Metadata responses name brokers.",
        unknown=("The brokers' listeners: their configuration tells.",),
    ),
    Rule(
        id="cluster.switched",
        number=83,
        title="Two clusters answer at one address",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="clients of this address",
        meaning="Metadata from one address named one cluster id, later another. Topic ids, offsets and producer ids of "
        "one cluster mean nothing in the other.",
        text="{broker} answered as cluster {old}, then as cluster {new}",
        cause="The address (a name, a load balancer, a port) leads to another cluster than before, or the cluster was "
        "created again.",
        guards=("Each cluster id must come in more than one response.",),
        thresholds=(Threshold("answers", 2, "responses", "with a cluster id, before it counts"),),
        fixes=(
            Fix("broker", None, None, "one address for each cluster; check the load balancer's targets"),
            Fix("client", "restart clients after a move", "restart clients after a move",
                "they keep topic ids and offsets of the old cluster; UNKNOWN_TOPIC_ID repeats"),
        ),
        verify="All Metadata responses from this address have one cluster id.",
        unknown=("Whether the move was planned.",),
    ),
    Rule(
        id="conn.idle_drop",
        number=25,
        title="Idle connections are dropped",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="clients of this broker",
        meaning="Connections die after a pause of a certain length: they are reset, or the first request after the "
        "pause has no response. The client notices only then, and that request waits or is sent again.",
        text="{count} connections to {broker} were dropped after {idle_s:.0f} s or more without traffic; {unanswered} "
        "of them with a request that had no response",
        cause="A load balancer, firewall or NAT forgets idle connections before clients close them.",
        guards=(
            ("A FIN while no request is in flight does not count: clients and brokers close idle connections with a "
            "FIN."),
            "Nothing is reported if a connection survived a longer pause.",
            "Connections that end within 5 s of each other count once: a restart ends many.",
            "Resets after a pause of another length than the usual idle timeouts are a NOTE.",
            "Nothing is reported about connections with missing bytes.",
        ),
        thresholds=(
            Threshold("idle_s", 30, "s", "of silence, at least"),
            Threshold("drops", 2, "connections", "dropped after pauses of nearly the same length"),
            Threshold("near", 0.1, "of the pause", "by which pauses may differ"),
        ),
        fixes=(
            Fix("client", "connections.max.idle.ms shorter than the pause",
                "connections.max.idle.ms shorter than the pause, socket.keepalive.enable=true",
                "the client closes the connection before something else drops it"),
            Fix("network", None, None, "a longer idle timeout of the load balancer or firewall, with resets enabled"),
        ),
        verify="Pauses of this length end with an answered request, or with a FIN of the client.",
        unknown=("What dropped them: captures on both sides of the load balancer tell.",),
    ),
)  # fmt: skip
