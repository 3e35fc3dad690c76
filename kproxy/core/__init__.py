"""The relay's protocol without sockets: bytes in, commands out.

A connection (`connection`) reads request headers, so that it knows the API and version of each response. It passes all
bytes unchanged, except responses that may carry broker addresses (`addresses` lists their fields). `walker` finds those
fields in bytes that arrive piece by piece, `rewrite` replaces them, and `brokers` maps each broker to the proxy's
address for it.
"""
