"""The index of a capture: a row of fixed size for each exchange, with spans instead of bytes.

`format` defines the files, `writer` is the only module that writes them, `reader` maps them (it needs no numpy and no
decoder), and `indexer` is the process that reads a capture and writes its index.
"""
