"""A protocol debugging proxy and packet inspector for Apache Kafka.

PYTEST_DONT_REWRITE: pytest rewrites the assertions of packages with plugins, and warns if one was imported before.
"""

__version__ = "0.1.0"
