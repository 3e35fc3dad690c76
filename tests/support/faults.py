"""Failures between a client and a broker, as scripts for two ends."""

from __future__ import annotations

import time
from functools import partial

from tests.kproxy.core.frames import request, response
from tests.support.ends import End, Script

ASKED, ANSWER = request(12, 0, 1), response(12, 0, 1, {})
FETCH = request(1, 16, 1)


def fetched(size: int) -> bytes:
    """A Fetch response of a version that may carry addresses, so that it is held or walked; this one has none."""
    topic = {"topicId": bytes(16), "partitions": [{"partitionIndex": 0, "records": bytes(range(256)) * (size // 256)}]}
    return response(1, 16, 1, {"responses": [topic]})


def _exchange(client: End, server: End, asked: bytes = ASKED, answer: bytes = ANSWER) -> None:
    client.send(asked)
    server.read(len(asked)).send(answer)
    client.read(len(answer))


def client_ends(client: End, server: End) -> None:
    _exchange(client, server)
    client.close()
    server.read_to_the_end()


def server_ends(client: End, server: End) -> None:
    _exchange(client, server)
    server.close()
    client.read_to_the_end()


def client_half_closes(client: End, server: End) -> None:
    client.send(ASKED).finish()
    server.read_to_the_end().send(ANSWER).finish()
    client.read_to_the_end()


def server_half_closes(client: End, server: End) -> None:
    server.send(ANSWER).finish()
    client.read_to_the_end().send(ASKED).finish()
    server.read_to_the_end()


def client_ends_in_a_frame(client: End, server: End) -> None:
    client.send(ASKED[:7]).finish()
    server.read_to_the_end().finish()
    client.read_to_the_end()


def server_ends_in_a_held_frame(client: End, server: End) -> None:
    client.send(FETCH)
    server.read(len(FETCH)).send(fetched(4096)[:2000]).finish()
    client.read_to_the_end()


def client_resets(client: End, server: End) -> None:
    _exchange(client, server)
    client.reset()
    server.read_to_the_end()


def server_resets(client: End, server: End) -> None:
    _exchange(client, server)
    server.reset()
    client.read_to_the_end()


def client_sends_and_resets(client: End, server: End) -> None:
    _exchange(client, server)
    client.send(ASKED * 1000).reset()
    server.read_to_the_end()


def server_sends_and_resets(client: End, server: End) -> None:
    _exchange(client, server)
    server.send(ANSWER * 1000).reset()
    client.read_to_the_end()


def server_resets_in_a_held_frame(client: End, server: End) -> None:
    client.send(FETCH)
    server.read(len(FETCH)).send(fetched(4096)[:2000])
    time.sleep(0.1)
    server.reset()
    client.read_to_the_end()


def client_leaves_bytes_unread(client: End, server: End) -> None:
    _exchange(client, server)
    server.send(ANSWER)
    client.await_bytes().close()
    server.read_to_the_end()


def server_leaves_bytes_unread(client: End, server: End) -> None:
    _exchange(client, server)
    client.send(ASKED)
    server.await_bytes().close()
    client.read_to_the_end()


def server_sends_to_nobody(client: End, server: End) -> None:
    _exchange(client, server)
    client.close()
    server.read_to_the_end().pour()


def client_sends_to_nobody(client: End, server: End) -> None:
    _exchange(client, server)
    server.close()
    client.read_to_the_end().pour()


def single_bytes(client: End, server: End) -> None:
    answer = fetched(512)
    client.dribble(ASKED + FETCH)
    server.read(len(ASKED + FETCH)).dribble(ANSWER + answer).finish()
    client.read_to_the_end().finish()
    server.read_to_the_end()


def stall(client: End, server: End, *, seconds: float) -> None:
    """For a time neither side reads; then all bytes arrive, and then the FIN."""
    size = 32 << 20
    asked, answer = request(0, 9, 1, bytes(size)), fetched(size)
    client.send(FETCH)
    server.read(len(FETCH))
    client.send_meanwhile(asked)
    server.send_meanwhile(answer)
    time.sleep(seconds)
    client.read(len(answer))
    server.read(len(asked))
    client.sent().finish()
    server.sent().read_to_the_end().finish()
    client.read_to_the_end()


def huge_request(client: End, server: End) -> None:
    asked = request(0, 9, 1, bytes(100 << 20))
    client.send_meanwhile(asked)
    server.read(len(asked)).send(response(0, 9, 1, {}))
    client.sent().read(len(response(0, 9, 1, {}))).finish()
    server.read_to_the_end()


def huge_response(client: End, server: End) -> None:
    answer = fetched(100 << 20)
    client.send(FETCH)
    server.read(len(FETCH)).send_meanwhile(answer)
    client.read(len(answer)).finish()
    server.sent().read_to_the_end()


QUICK: dict[str, Script] = {
    script.__name__: script
    for script in (
        client_ends, server_ends, client_half_closes, server_half_closes, client_ends_in_a_frame,
        server_ends_in_a_held_frame, client_resets, server_resets, client_sends_and_resets, server_sends_and_resets,
        server_resets_in_a_held_frame, client_leaves_bytes_unread, server_leaves_bytes_unread, server_sends_to_nobody,
        client_sends_to_nobody, single_bytes,
    )
}  # fmt: skip

LONG: dict[str, Script] = {
    "stall_of_a_minute": partial(stall, seconds=60.0),
    "huge_request": huge_request,
    "huge_response": huge_response,
}

SOCAT_ENDS_GENTLY = {
    "client_resets", "server_resets", "client_sends_and_resets", "server_sends_and_resets",
    "server_resets_in_a_held_frame", "client_leaves_bytes_unread", "server_leaves_bytes_unread",
}  # fmt: skip
"""Scripts in which socat turns a reset into an orderly end; kproxy passes it on, as a direct connection would."""
