"""SASL: what its tokens hold (`tokens`), and what they make of a connection (`session`)."""
