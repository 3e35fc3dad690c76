from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import Cluster, cluster

# One of KRaft, one of the ZooKeeper era; id: release, nodes.
CLUSTERS = {"kafka-4.4.0": ("4.4.0", 3), "kafka-1.1.1": ("1.1.1", 1)}


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    """Brokers that speak TLS and want a client's certificate."""
    with cluster("4.4.0", 2, protocols=("SSL",)) as running:
        yield running


@pytest.fixture(scope="module", params=list(CLUSTERS))
def brokers(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster; a test that wants only one names it by indirect parametrisation."""
    release, nodes = CLUSTERS[request.param]
    with cluster(release, nodes) as running:
        yield running
