"""Makes the table exchanges without bodies from columns of numbers, which is faster than from rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import EXCHANGES
from kproxy.captures.tcp.packets import Ints


def batch(numbers: Mapping[str, Ints], texts: Sequence[str | None], api_name: Callable[[int], str | None]) -> Any:
    """A pyarrow.RecordBatch of Kafka exchanges without problems, with the same values as
    captures.tables.rows.Drafter.headers.

    It lacks the columns of `Table.later`. `numbers` are columns of the table, sizes as in the frames' length fields;
    its column `answered` is negative for an exchange without response. `texts` holds client id, status and reason of
    the first exchange, then of the next.
    """
    unanswered = numbers["answered"] < 0
    keys, which = np.unique(numbers["api_key"], return_inverse=True)
    names = pa.array([api_name(key) for key in keys.tolist()], pa.string())
    asked = {
        name: numbers[name] for name in ("api_key", "api_version", "correlation_id", "req_ts_ns", "req_last_ts_ns")
    }
    answered = {name: numbers[name] for name in ("rsp_ts_ns", "rsp_last_ts_ns")}
    answered["response_bytes"] = numbers["response_size"] + 4
    given = {
        **asked,
        **{name: pa.array(values, mask=unanswered) for name, values in answered.items()},
        "client_id": texts[::3],
        "api_name": names.take(pa.array(which)),
        "ts_ns": asked["req_ts_ns"],
        "request_bytes": numbers["request_size"] + 4,
        "status": texts[1::3],
        "reason": texts[2::3],
        "problems": [()] * len(which),
    }
    return arrow.of_columns(EXCHANGES, given, EXCHANGES.later)
