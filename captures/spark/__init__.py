"""Captures and tables by Spark: the packages below captures.spark alone import pyspark."""
