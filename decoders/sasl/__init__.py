"""SASL: the content of its tokens (`tokens`), and the authentication state of a connection (`session`)."""
