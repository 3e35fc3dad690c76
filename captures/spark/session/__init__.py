"""Starts Spark for its first job: Java, a session, and workers that have imported what jobs need."""
