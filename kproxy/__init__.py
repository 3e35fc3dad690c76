"""A protocol debugging proxy and packet inspector for Apache Kafka."""

__version__ = "0.1.0"
