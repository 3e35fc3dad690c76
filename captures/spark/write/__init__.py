"""Tables as Parquet: by executors on a file system, or at a URL by Spark."""
