"""The relay without sockets: bytes in, commands out.

A connection (`connection`) watches the headers of requests, so that it knows what each response answers, and lets
everything pass as it is, except responses that may carry addresses of brokers (`addresses` names their fields).
`walker` finds those fields in bytes that arrive piece by piece, `rewrite` puts others in their place, `brokers` knows
which address stands for which.
"""
