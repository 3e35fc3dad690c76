"""Developers' tools that turn the definitions of a Kafka release into the data of `decoders.schema`; never shipped."""
