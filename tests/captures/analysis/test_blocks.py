"""One thing of a view as a block of lines, and what finds the exchanges of each line."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.analysis import blocks as module
from kproxy.captures.analysis.blocks import block, blocks
from tests.captures.analysis.support import views


def test_what_finds_the_exchanges_of_each_line_of_text() -> None:
    """A user of a topic has a line of text, and each of its errors one more."""
    topics = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": 6}]}]
    data = [{"name": "t", "partitionData": [{"index": 0, "records": None}]}]
    found = views((0, 8, {"acks": 1, "topicData": data}, {"responses": topics}), (3, 12, {}, {"clusterId": "c"}))

    def shown(view: str) -> list[Any]:
        made = [block(view, line) for line in found[view].lines()]
        assert all(len(one["lines"]) == len(one["filters"]) for one in made)
        return [(one["key"], one["filters"][:3]) for one in made]

    own, client = 'topic == "t"', 'client.id == "shop"'
    assert shown("topics") == [(["kproxy.topic/1", "t"], [[own], [own, client], [own, client, "error == 6"]])]
    assert shown("connections") == [(["kproxy.connection/1", 1], [["connection == 1"]])]
    assert shown("clients") == [(["kproxy.client/1", "shop", "10.0.0.1"], [[client]] * 3)]
    assert shown("cluster") == [(["kproxy.cluster/1"], [[]])]


def test_what_finds_the_exchanges_of_a_transaction_and_a_group() -> None:
    added = {"v3AndBelowTransactionalId": 'a "b"', "v3AndBelowTopics": [{"name": "t", "partitions": [0]}]}
    end = {"transactionalId": 'a "b"', "committed": True}
    found = views((12, 3, {"groupId": "g"}, {}), (24, 3, added, {}), (26, 3, end, {}), (24, 3, added, {}))
    ended, still_open = [block("transactions", line) for line in found["transactions"].lines()]
    txn = 'txn == "a \\"b\\""'
    assert ended["filters"][0] == [txn, "exchange >= 2", "exchange <= 3"]
    assert still_open["filters"][0] == [txn, "exchange >= 4"]
    assert still_open["key"][1:] == ['a "b"', 4]
    (group,) = [block("groups", line) for line in found["groups"].lines()]
    assert group["filters"][0] == ['group == "g"']


def test_lines_beyond_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (connection,) = views((3, 12, {}, {}))["connections"].lines()
    (client,) = views((3, 12, {}, {}))["clients"].lines()
    texts = len(block("connections", connection)["lines"])
    monkeypatch.setattr(module, "MOST_LINES", texts)
    told = blocks("connections", [connection, connection, connection])
    assert (len(told["blocks"]), told["left_out"]) == (1, 2)
    monkeypatch.setattr(module, "MOST_LINES", 3)
    told = blocks("clients", [client, client, client])
    assert ([len(one["lines"]) for one in told["blocks"]], told["left_out"]) == ([2, 1], 1)
    assert len(told["blocks"][1]["filters"]) == 1
