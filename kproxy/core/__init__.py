"""The relay without sockets: bytes in, commands out.

A connection (`connection`) reads request headers, so that it knows what each response answers. It lets all bytes pass
unchanged, except responses that may carry addresses of brokers (`addresses` names their fields). `walker` finds those
fields in bytes that arrive piece by piece, `rewrite` replaces them, and `brokers` maps each broker to the proxy's
address for it.
"""
