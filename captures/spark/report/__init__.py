"""Analyses of the tables: one module for each, with functions that return a query as SQL text.

    from kproxy.captures.spark.report import by_duckdb, by_spark, latency
    by_duckdb.read("tables").rows(latency.percentiles(("client", "api")))            # in this process
    by_spark.read(spark, "tables").frame(latency.percentiles(("client", "api"))).show()  # by Spark

Both executors run the same text, so it is written in what Spark SQL and DuckDB have in common, and in the functions of
Spark that by_duckdb.MACROS defines for DuckDB. {exchanges} stands for a table; its columns are those of
captures.tables.schema. Results are sorted. Durations are microseconds, in columns that end in "_us"; times are
TIMESTAMPs (UTC), sizes bytes.
"""
