"""What Spark finds by its name: the data source `kafka_capture`, without a call that registers it."""

from kproxy.captures.spark.source import KafkaCapture as DefaultSource

__all__ = ["DefaultSource"]
