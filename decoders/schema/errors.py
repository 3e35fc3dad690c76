"""Kafka's error codes and their names, including those of earlier releases."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kproxy.decoders.schema import history, irregular, store
from kproxy.decoders.schema.names import folded, lookup


class KafkaError(NamedTuple):
    """A row of Kafka's `Errors`; `exception` is the Java class that a client raises for the code, None for NONE.

    `refresh_metadata` says that a client refreshes its metadata before it retries (the exception is an
    `InvalidMetadataException`).
    """

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    exception: str | None


@cache
def all_errors() -> dict[int, KafkaError]:
    return {facts["code"]: KafkaError(**facts) for facts in store.errors()}


def name(code: int) -> str:
    """The name of an error code in Kafka's `Errors`; "UNKNOWN(12345)" for an unknown code."""
    error = all_errors().get(code)
    return f"UNKNOWN({code})" if error is None else error.name


def name_in(api_key: int, api_version: int, code: int) -> str:
    """The name of an error code in this API and version.

    It differs from `name` if the code had another meaning there.
    """
    return irregular.error_meaning(api_key, api_version, code) or name(code)


def retriable(code: int) -> bool:
    """Whether Kafka's clients may retry after this error; False for an unknown code."""
    error = all_errors().get(code)
    return error is not None and error.retriable


def refresh_metadata(code: int) -> bool:
    """Whether Kafka's clients refresh their metadata before they retry; False for an unknown code."""
    error = all_errors().get(code)
    return error is not None and error.refresh_metadata


def older_names(code: int) -> tuple[str, ...]:
    """The names that the error had in earlier releases."""
    return history.ERRORS.get(code, ())


@cache
def _by_name() -> dict[str, int]:
    table = {folded(error.exception): error.code for error in all_errors().values() if error.exception}
    table |= {folded(older): code for code, names in history.ERRORS.items() for older in names}
    return table | {folded(error.name): error.code for error in all_errors().values()}


def by_name(name_or_older: str) -> int | None:
    """The code of an error by its current name, its name in an earlier release, or its Java exception; None if unknown.

    NOT_LEADER_FOR_PARTITION, NotLeaderForPartition and NotLeaderForPartitionException give the same code.
    """
    return lookup(_by_name(), name_or_older, ("exception", "error", "code"))
