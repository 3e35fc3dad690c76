"""Tables as Parquet: written by executors to a file system, or by Spark to a URL."""
