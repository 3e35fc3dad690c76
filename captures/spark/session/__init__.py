"""What Spark needs before the first job: Java, a session, and workers that have imported what jobs need."""
