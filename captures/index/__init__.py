"""The index of a capture: one fixed row an exchange, spans instead of bytes.

`format` says what the files hold, `writer` is their only writer, `reader` maps them (no numpy, no decoder needed),
`indexer` is the process that reads a capture and writes its index.
"""
