"""Writes tables as Parquet: by the executors to a file system, or by Spark to a URL."""
