"""Sources of payload schemas: a folder, or a schema registry."""
