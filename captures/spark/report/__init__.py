"""What the tables come to, in Spark SQL: one module an analysis, each a function of a session and the tables.

    from kproxy.captures.spark.report import latency, tables
    found = tables.read(spark, "tables")
    latency.percentiles(spark, found, by=("client", "api")).show()

The tables are DataFrames by name with the columns of captures.tables.schema, wherever they come from. An analysis takes
of them what it names and returns a DataFrame in the order in which it is to be read. Durations are microseconds, with
names in "_us", times TIMESTAMPs, sizes bytes.
"""
