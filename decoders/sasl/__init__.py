"""SASL: decoding of tokens (`tokens`), and the state of a connection's authentication (`session`)."""
