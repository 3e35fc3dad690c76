"""Analyses of the tables in Spark SQL: one module for each, with functions of a session and the tables.

    from kproxy.captures.spark.report import latency, tables
    found = tables.read(spark, "tables")
    latency.percentiles(spark, found, by=("client", "api")).show()

The tables are DataFrames by name, with the columns of captures.tables.schema. An analysis selects the tables that it
needs and returns a sorted DataFrame. Durations are microseconds, in columns that end in "_us"; times are TIMESTAMPs,
sizes bytes.
"""
