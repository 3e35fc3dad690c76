"""Plans a reading: files by path or URL, the order in which they were captured, and where they are cut into splits."""
