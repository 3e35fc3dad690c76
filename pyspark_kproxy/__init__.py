"""Registers the data source `kafka_capture`: Spark imports this module by its name, without a call of the user."""

from kproxy.captures.spark.source import KafkaCapture as DefaultSource

__all__ = ["DefaultSource"]
